//! The target `json_value`, for libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| icefall_tests::fuzz::json_value(bytes));
