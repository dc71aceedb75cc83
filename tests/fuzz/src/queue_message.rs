//! The target `queue_message`, for libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| icefall_tests::fuzz::queue_message(bytes));
