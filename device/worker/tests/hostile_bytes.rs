//! Requests that no real client sends. The fuzz target `requests` calls the same function.

use proptest::prelude::*;
use wire::{Bytes, Flags, GraphNode, GraphStep, GraphUpdate, Header, Opcode, Operation};

/// Builds a frame with the given number and any payload.
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
        // A common address of an arena.
        (0u64..1 << 20).prop_map(|at| 0x7000_0000_0000 + at),
    ];
    let payload = prop::collection::vec(word, 0..9)
        .prop_map(|words| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>());
    prop::collection::vec((0usize..1000, any::<bool>(), payload), 1..40)
}

/// Builds a frame of an operation.
fn request<O: Operation>(number: u32, fields: &O, body: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    fields.put(&mut payload);
    payload.extend_from_slice(body);
    frame(number, O::OPCODE, 4, &payload)
}

fn step((kind, a, b, c): (u8, u64, u64, u32)) -> GraphStep {
    let (destination, source, pitch) = (a, b, u64::from(c));
    let (width, height, slot) = (b % 64, u64::from(c % 5), c);
    match kind % 10 {
        0 => GraphStep::Launch {
            function: a,
            grid: [c; 3],
            block: [c % 9; 3],
            shared_bytes: c,
            flags: c,
            start_event: b,
            stop_event: a,
            arguments: Bytes(vec![kind; c as usize % 99]),
        },
        1 => GraphStep::Copy { destination, source, bytes: b },
        2 => GraphStep::Fill { destination, value: c, width: c % 6, count: b },
        3 => GraphStep::CopyRect {
            destination,
            destination_pitch: pitch,
            source,
            source_pitch: b,
            width,
            height: a,
        },
        4 => GraphStep::FillRect { destination, pitch, value: c, width: b, height: a },
        5 => GraphStep::Write { slot, destination, pitch, width, height },
        6 => GraphStep::Read { slot, source, pitch, width: b, height: a },
        7 => GraphStep::Host { slot },
        8 => GraphStep::RecordEvent { event: a },
        _ => GraphStep::WaitEvent { event: b },
    }
}

/// Nodes with every kind of step, some with valid dependencies.
fn graph_nodes() -> impl Strategy<Value = Vec<GraphNode>> {
    let small = prop_oneof![0u64..300, any::<u64>()];
    let steps = prop::collection::vec((any::<u8>(), small.clone(), small, 0u32..70), 0..4);
    let node = (0u32..2, prop::collection::vec(0u32..8, 0..3), steps);
    let node = node.prop_map(|(device, dependencies, steps)| GraphNode {
        device,
        dependencies,
        steps: steps.into_iter().map(step).collect(),
    });
    prop::collection::vec(node, 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn well_framed_invalid_requests_are_handled(requests in requests()) {
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
        prop_assert_eq!(worker::rehearse(&bytes), u64::from(sent), "every frame is complete, so every one is handled");
    }

    #[test]
    fn invalid_graphs_are_handled(
        nodes in graph_nodes(),
        other in graph_nodes(),
        flags in 0u32..2,
        stream in 0u64..3,
        body in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let updates = other.iter().zip(0..).map(|(node, index)| GraphUpdate { node: index, steps: node.steps.clone() });
        let launch = wire::LaunchGraph { graph: 1, stream, device: 0, flags, tokens: u64::MAX - 30 };
        let bytes = [
            request(1, &wire::DefineGraph { graph: 1 }, &[]),
            request(2, &wire::AddGraphNodes { graph: 1, nodes: nodes.clone() }, &[]),
            request(3, &launch, &body),
            request(4, &wire::UpdateGraphNodes { graph: 1, updates: updates.collect() }, &[]),
            request(5, &wire::LaunchGraph { flags: 1, ..launch }, &[]),
            request(6, &wire::AddGraphNodes { graph: 1, nodes }, &[]),
            request(7, &wire::HostFunctionDone { token: u64::MAX - 30 }, &[]),
            request(8, &wire::DestroyGraph { graph: 1 }, &[]),
            request(9, &wire::LaunchGraph { graph: 1, stream, device: 7, flags, tokens: 0 }, &[]),
        ];
        prop_assert_eq!(worker::rehearse(&bytes.concat()), bytes.len() as u64);
    }

    #[test]
    fn any_bytes_end_the_connection_and_nothing_else(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        worker::rehearse(&bytes);
    }

    #[test]
    fn any_bytes_are_a_session_in_a_file_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        manifest in "\\{(\"[a-z_]{1,12}\":[0-9\\[\\],]{1,9}){0,3}\\}",
    ) {
        prop_assert!(!worker::rehearse_arrival(&bytes));
        let head = [0, manifest.len() as u8, 0];
        prop_assert!(!worker::rehearse_arrival(&[&head[..], manifest.as_bytes(), &bytes].concat()));
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
