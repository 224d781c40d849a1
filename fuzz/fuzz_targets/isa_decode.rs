//! Arbitrary bytes as gfx90a and gfx942 code.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| isa::exercise(bytes));
