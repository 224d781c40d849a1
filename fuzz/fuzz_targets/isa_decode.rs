//! Fuzzes the instruction decoder for gfx90a and gfx942.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| isa::exercise(bytes));
