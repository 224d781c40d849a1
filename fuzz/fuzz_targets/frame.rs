//! Any bytes as a stream of frames.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::exercise::frames(bytes));
