//! Any bytes as what a peer does to a session: acknowledgements, resumptions, request numbers, handshakes.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::exercise::session(bytes));
