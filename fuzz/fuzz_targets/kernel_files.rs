//! Any bytes as the small files in which the kernel tells of GPUs.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| accelerator_amd::exercise::properties(bytes));
