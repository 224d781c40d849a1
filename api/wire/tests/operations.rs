//! The operation table: opcodes that never change, and a codec that round-trips values and survives arbitrary bytes.

use fastrand::Rng;
use proptest::prelude::*;
use wire::*;

/// Changing a line here breaks every released client; adding one does not.
const PINNED: &str = "\
0x0001 Hello 0x0002 Challenge 0x0003 Proof 0x0004 Welcome 0x0005 Reject 0x0006 Ack 0x0007 Ping 0x0008 Pong \
0x000a Status 0x000b Joined 0x000c Spread 0x000d ReportMirrors 0x000e Checkpointed 0x0010 Goodbye \
0x0100 Allocate 0x0101 Release 0x0102 Write 0x0103 Read 0x0104 ReadLater 0x0105 Copy 0x0106 Fill \
0x0107 WriteRect 0x0108 ReadRect 0x0109 CopyRect 0x010a FillRect 0x010b MemoryInfo \
0x0120 Adopt 0x0121 MirrorWrite \
0x0140 WriteBox 0x0141 ReadBox 0x0142 CopyBox 0x0143 FillBox 0x0144 WaitValue \
0x0150 QueryLink 0x0151 Link \
0x0200 CreateStream 0x0201 DestroyStream 0x0202 SynchronizeStream 0x0203 QueryStream \
0x0204 SynchronizeDevice 0x0205 HostFunction 0x0206 HostFunctionDone \
0x0300 CreateEvent 0x0301 DestroyEvent 0x0302 RecordEvent 0x0303 WaitEvent 0x0304 SynchronizeEvent \
0x0305 QueryEvent 0x0306 ElapsedTime \
0x0400 LoadModule 0x0401 UnloadModule 0x0402 ModuleGlobal 0x0403 DefineFunction 0x0500 Launch 0x0600 Compile \
0x0700 ResetDevice 0x0701 SetLimit 0x0710 ReadClock 0x0711 RecordSpans 0x0712 Spans \
0x0720 BeginCounting 0x0721 EndCounting \
0x0800 CreateMemory 0x0801 ReleaseMemory 0x0802 MapMemory 0x0803 UnmapMemory 0x0804 SetAccess 0x0805 ShareMemory \
0x0806 ShareAllocation 0x0807 OpenMemory \
0x0820 Snapshot 0x0821 Resume 0x0822 SnapshotChunk 0x0823 SnapshotEnd 0x0824 FinishMove 0x0825 Redirect 0x0826 Done 0x0827 ResumeFor 0x0828 StoreCheckpoint 0x0829 DiscardCheckpoint 0x082a Observe 0x082b Measure 0x082c Measured 0x082d RenewCheckpoints 0x082e OpenElsewhere \
0x0900 DefineGraph 0x0901 AddGraphNodes 0x0902 UpdateGraphNodes 0x0903 DestroyGraph 0x0904 LaunchGraph \
0x0a00 RecordWatched 0x0a01 QueryWatched 0x0a02 QueryEventWatched 0x0a03 Reach 0x0a10 WriteKept 0x0a11 WriteKnown \
0x0a20 Packed \
0x0f00 Deliver 0x0f01 Output 0x0f02 Callback 0x0f03 LateError 0x0f04 Translating \
0x0f20 MirrorChanged 0x0f21 MirrorState 0x0f30 EventReached 0x0f31 StreamReached";

#[test]
fn numbers_of_operations_are_pinned() {
    let table: Vec<String> =
        Opcode::ALL.iter().map(|opcode| format!("{:#06x} {}", opcode.number(), opcode.name())).collect();
    assert_eq!(table.join(" "), PINNED);
    for &opcode in Opcode::ALL {
        assert_eq!(Opcode::from_number(opcode.number()), Some(opcode));
    }
    assert_eq!(Opcode::from_number(0x0009), None);
    assert_eq!(name(0x1234), "operation 0x1234");
}

#[test]
fn heads_in_front_of_bulk_have_the_size_everyone_relies_on() {
    let sizes = [
        (Opcode::Write, 16),
        (Opcode::WriteRect, 40),
        (Opcode::WriteBox, 56),
        (Opcode::WriteKept, 48),
        (Opcode::Packed, 74),
        (Opcode::LoadModule, 52),
        (Opcode::Launch, 64),
        (Opcode::LaunchGraph, 32),
        (Opcode::Deliver, 16),
        (Opcode::Output, 4),
        (Opcode::MirrorWrite, 8),
        (Opcode::MirrorChanged, 8),
        (Opcode::MirrorState, 16),
        (Opcode::SnapshotChunk, 0),
    ];
    for &opcode in Opcode::ALL {
        let expected = sizes.iter().find(|(known, _)| *known == opcode).map(|(_, bytes)| *bytes);
        assert_eq!(opcode.request_has_body(), expected.is_some(), "{}", opcode.name());
        if expected.is_some() {
            assert_eq!(opcode.head_bytes(), expected, "{}", opcode.name());
        }
        if opcode.reply_has_body() {
            assert_eq!(opcode.reply_head_bytes(), Some(0), "{}", opcode.name());
        }
    }
}

/// Decodes arbitrary bytes as every operation: whatever decodes must encode to the same bytes again.
fn survives(opcode: Opcode, payload: &[u8]) {
    if let Ok(again) = redecode(opcode, payload) {
        assert_eq!(again, payload, "{}", opcode.name());
    }
    for flags in [Flags::REPLY, Flags::REPLY.with(Flags::ERROR)] {
        let header = Header::new(opcode, flags, 1, payload.len() as u64);
        if let Ok(again) = redecode_reply(opcode, &header, payload) {
            assert_eq!(again, payload, "reply of {}", opcode.name());
        }
    }
}

/// Builds values of every field type from random input and checks the round trip.
macro_rules! round_trips {
    ($(
        $(#[$meta:meta])* $number:literal $kind:ident $name:ident
        { $($(#[$fmeta:meta])* $field:ident : $type:ty),* $(,)? } $(+ $request_body:ident)?
        => { $($(#[$rmeta:meta])* $rfield:ident : $rtype:ty),* $(,)? } $(+ $reply_body:ident)? ;
    )*) => {
        fn round_trip_everything(random: &mut Rng) {
            $({
                let fields = $name { $($field: <$type>::any(random)),* };
                let body = if Opcode::$name.request_has_body() { Bytes::any(random).0 } else { Vec::new() };
                let mut bytes = Vec::new();
                encode_request(&fields, &body, Flags::NONE, 7, 9, &mut bytes);
                let (frame, taken) = Frame::take(&bytes).unwrap().unwrap();
                assert_eq!(taken, bytes.len());
                assert_eq!((frame.header.request_id, frame.header.function), (7, 9));
                assert_eq!(frame.header.known(), Ok(Opcode::$name));
                assert_eq!(decode_request::<$name>(&frame.payload).unwrap(), (fields, body.as_slice()));
                if let Some(bytes) = <$name as Operation>::HEAD_BYTES {
                    assert_eq!(frame.payload.len(), bytes + body.len());
                }

                let fields = reply::$name { $($rfield: <$rtype>::any(random)),* };
                let body = if Opcode::$name.reply_has_body() { Bytes::any(random).0 } else { Vec::new() };
                let mut payload = Vec::new();
                encode_reply_head(&fields, &mut payload);
                payload.extend_from_slice(&body);
                let header = Header::new(Opcode::$name, Flags::REPLY, 7, payload.len() as u64);
                let decoded = decode_reply::<$name>(&header, &payload).unwrap();
                assert_eq!(decoded, Ok((fields, body.as_slice())));
            })*
        }
    };
}

for_each_operation!(round_trips);

trait Any {
    fn any(random: &mut Rng) -> Self;
}

macro_rules! any_number {
    ($($type:ty),*) => {$(impl Any for $type {
        fn any(random: &mut Rng) -> Self {
            random.u64(..) as $type
        }
    })*};
}

any_number!(u8, u16, u32, u64, i32, f32);

impl Any for bool {
    fn any(random: &mut Rng) -> Self {
        random.bool()
    }
}

impl Any for String {
    fn any(random: &mut Rng) -> Self {
        (0..random.u64(..20)).map(|_| char::from_u32(random.u32(..0xd800)).unwrap_or('x')).collect()
    }
}

impl Any for Bytes {
    fn any(random: &mut Rng) -> Self {
        Bytes((0..random.u64(..300)).map(|_| random.u8(..)).collect())
    }
}

impl<T: Any> Any for Vec<T> {
    fn any(random: &mut Rng) -> Self {
        (0..random.u64(..5)).map(|_| T::any(random)).collect()
    }
}

impl<T: Any, const N: usize> Any for [T; N] {
    fn any(random: &mut Rng) -> Self {
        std::array::from_fn(|_| T::any(random))
    }
}

impl<A: Any, B: Any> Any for (A, B) {
    fn any(random: &mut Rng) -> Self {
        (A::any(random), B::any(random))
    }
}

impl Any for DeviceSnapshot {
    fn any(random: &mut Rng) -> Self {
        DeviceSnapshot {
            ordinal: Any::any(random),
            isa: Any::any(random),
            properties: Any::any(random),
            attributes: Any::any(random),
            limits: Any::any(random),
            total_memory: Any::any(random),
            quota: Any::any(random),
            least_priority: Any::any(random),
            greatest_priority: Any::any(random),
            driver_version: Any::any(random),
            runtime_version: Any::any(random),
        }
    }
}

impl Any for GraphNode {
    fn any(random: &mut Rng) -> Self {
        GraphNode { device: Any::any(random), dependencies: Any::any(random), steps: Any::any(random) }
    }
}

impl Any for GraphUpdate {
    fn any(random: &mut Rng) -> Self {
        GraphUpdate { node: Any::any(random), steps: Any::any(random) }
    }
}

impl Any for Span {
    fn any(random: &mut Rng) -> Self {
        Span {
            stream: Any::any(random),
            device: Any::any(random),
            kind: Any::any(random),
            request_id: Any::any(random),
            begin: Any::any(random),
            end: Any::any(random),
            amount: Any::any(random),
            function: Any::any(random),
        }
    }
}

macro_rules! any_step {
    ($($name:ident { $($field:ident: $type:ty),* })*) => {
        impl Any for GraphStep {
            fn any(random: &mut Rng) -> Self {
                let makers: &[fn(&mut Rng) -> GraphStep] =
                    &[$(|random| GraphStep::$name { $($field: <$type>::any(random)),* }),*];
                let which = random.usize(..makers.len());
                makers[which](random)
            }
        }
    };
}

for_each_graph_step!(any_step);

#[test]
fn a_count_the_payload_cannot_hold_costs_no_memory() {
    let mut payload = Vec::new();
    for text in ["isa", "name", "source"] {
        text.to_owned().put(&mut payload);
    }
    u32::MAX.put(&mut payload);
    assert!(matches!(
        decode_request::<Compile>(&payload),
        Err(WireError::Truncated { what: "list", needed, .. }) if needed == 8 * u64::from(u32::MAX)
    ));
}

#[test]
fn a_failure_keeps_its_status_and_text_and_never_means_success() {
    let failure = Failure { status: 2, text: "no memory".to_owned() };
    let mut payload = Vec::new();
    failure.encode(&mut payload);
    assert_eq!(payload.len(), failure.size());
    let flags = Flags::REPLY.with(Flags::ERROR);
    let header = Header::new(Opcode::Release, flags, 1, payload.len() as u64);
    assert_eq!(decode_reply::<Release>(&header, &payload), Ok(Err(failure)));
    payload[0] = 0;
    assert!(decode_reply::<Release>(&header, &payload).is_err());
    let header = Header::new(Opcode::Release, Flags::REPLY, 1, 4);
    assert!(decode_reply::<Release>(&header, &[1, 0, 0, 0]).is_err());
}

proptest! {
    #[test]
    fn every_operation_survives_a_round_trip(seed: u64) {
        round_trip_everything(&mut Rng::with_seed(seed));
    }

    #[test]
    fn garbage_payloads_never_panic_and_what_decodes_is_canonical(
        index in 0..Opcode::ALL.len(),
        payload in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        survives(Opcode::ALL[index], &payload);
    }

    #[test]
    fn garbage_streams_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Frame::take(&bytes);
        let mut framed = b"HIPR".to_vec();
        framed.extend_from_slice(&bytes);
        if let Ok(Some((frame, taken))) = Frame::take(&framed) {
            prop_assert_eq!(frame.to_bytes(), &framed[..taken]);
        }
    }

    #[test]
    fn hostile_streams_and_sessions_break_no_promise(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        index in 0..Opcode::ALL.len(),
        flags in 0u16..16,
    ) {
        exercise::session(&bytes);
        let header = Header::new(Opcode::ALL[index], Flags(flags), 1, bytes.len() as u64);
        exercise::frames(&[&header.encode()[..], &bytes].concat());
    }

    #[test]
    fn damaged_frames_never_panic(seed: u64, at in 0usize..4096, value: u8) {
        let mut random = Rng::with_seed(seed);
        let welcome = Welcome {
            devices: Any::any(&mut random), worker: Any::any(&mut random), ..Welcome::default()
        };
        let mut bytes = Vec::new();
        encode_request(&welcome, &[], Flags::UNSEQUENCED, 0, 0, &mut bytes);
        let at = at % bytes.len();
        bytes[at] = value;
        if let Ok(Some((frame, _))) = Frame::take(&bytes) {
            let _ = decode_request::<Welcome>(&frame.payload);
        }
        bytes.truncate(at);
        prop_assert!(!matches!(Frame::take(&bytes), Ok(Some(_))));
    }
}
