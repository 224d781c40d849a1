//! Fuzzes the restore of a session from a snapshot file, down to the software GPU. The smoke test is
//! `device/worker/tests/hostile_bytes.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    worker::rehearse_arrival(bytes);
});
