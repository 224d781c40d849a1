//! Fuzzes the decoders of kernel output: messages and buffered records are rendered or dropped.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let words: Vec<u64> =
        bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    emulator::render_message(&words);
    emulator::print_records(bytes, &["0:0:1,%d %s".to_owned()], &mut |_| {});
});
