//! The target `kafka_event`, for libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| icefall_tests::fuzz::kafka_event(bytes));
