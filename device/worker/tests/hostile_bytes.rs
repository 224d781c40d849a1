//! Requests no client would send. The fuzz target `requests` calls the same function.

use proptest::prelude::*;
use wire::{Flags, Header, Opcode};

/// A frame with the next number and any payload.
fn frame(number: u32, opcode: Opcode, flags: u16, payload: &[u8]) -> Vec<u8> {
    let mut header = Header::new(opcode, Flags(flags), number, payload.len() as u64);
    header.function = number as u16;
    let mut bytes = header.encode().to_vec();
    bytes.extend_from_slice(payload);
    bytes
}

fn requests() -> impl Strategy<Value = Vec<(usize, bool, Vec<u8>)>> {
    let word = prop_oneof![
        any::<u64>(),
        0u64..4,
        0x100u64..0x104,
        Just(u64::MAX),
        // A common place for an arena.
        (0u64..1 << 20).prop_map(|at| 0x7000_0000_0000 + at),
    ];
    let payload = prop::collection::vec(word, 0..9)
        .prop_map(|words| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>());
    prop::collection::vec((0usize..1000, any::<bool>(), payload), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn well_framed_nonsense_is_handled_to_its_end(requests in requests()) {
        let mut bytes = Vec::new();
        let mut sent = 0;
        for (at, posted, payload) in requests {
            let opcode = Opcode::ALL[at % Opcode::ALL.len()];
            if opcode.is_unsequenced() || opcode == Opcode::Goodbye {
                continue;
            }
            sent += 1;
            bytes.extend(frame(sent, opcode, if posted { 4 } else { 0 }, &payload));
        }
        prop_assert_eq!(worker::rehearse(&bytes), u64::from(sent), "every frame was whole, so every one is handled");
    }

    #[test]
    fn any_bytes_end_the_connection_and_nothing_else(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        worker::rehearse(&bytes);
    }

    #[test]
    fn a_valid_start_cut_anywhere_counts_only_whole_frames(cut in 0usize..200) {
        let one = frame(1, Opcode::Allocate, 4, &[0; 24]);
        let two = frame(2, Opcode::Write, 4, &[0; 100]);
        let all = [one.clone(), two].concat();
        let cut = cut.min(all.len());
        let whole = u64::from(cut >= one.len()) + u64::from(cut == all.len());
        prop_assert_eq!(worker::rehearse(&all[..cut]), whole);
    }
}

#[test]
fn a_length_that_lies_takes_no_memory() {
    let mut header = Header::new(Opcode::Write, Flags::POSTED, 1, wire::MAX_BODY_BYTES);
    header.function = 1;
    let mut bytes = header.encode().to_vec();
    bytes.extend([0; 64]);
    assert_eq!(worker::rehearse(&bytes), 0);
}
