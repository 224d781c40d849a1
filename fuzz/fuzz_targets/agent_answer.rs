//! Any bytes as what an agent answers to the provider library.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| accelerator_amd::exercise::answer(bytes));
