//! The target `ledger_object`, for libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| icefall_tests::fuzz::ledger_object(bytes));
