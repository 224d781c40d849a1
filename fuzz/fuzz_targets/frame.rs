//! Fuzzes the wire protocol's frame decoder with a stream of bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::exercise::frames(bytes));
