//! Fuzzes the provider library's parser of agent responses.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| accelerator_amd::exercise::answer(bytes));
