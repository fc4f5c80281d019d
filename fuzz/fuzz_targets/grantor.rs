#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| rutter_fuzz::grantor::grantor(data));
