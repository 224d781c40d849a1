//! Fuzzes the session protocol state: acknowledgements, reconnects, request numbers, handshakes.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::exercise::session(bytes));
