//! The target `data_file`, for libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| icefall_tests::fuzz::data_file(bytes));
