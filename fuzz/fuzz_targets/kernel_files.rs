//! Fuzzes the parser of the files in which the Linux kernel driver describes GPUs.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| accelerator_amd::exercise::properties(bytes));
