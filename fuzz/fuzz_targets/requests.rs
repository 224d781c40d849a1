//! Fuzzes the requests of a session, down to the software GPU. The smoke test is `device/worker/tests/hostile_bytes.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    worker::rehearse(bytes);
});
