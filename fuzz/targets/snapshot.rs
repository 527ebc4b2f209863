#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lsm_sieve_fuzz::snapshot::run(bytes));
