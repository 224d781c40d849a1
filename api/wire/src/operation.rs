//! The table of operations: number, direction, fields, reply. Everything else about an operation is derived
//! from its row here. Numbers are for ever: a row may be added, never renumbered (a test pins them).

use crate::codec::{Bytes, Field, Reader, Sink, record};
use crate::{Flags, GraphNode, GraphUpdate, Header, WireError};

/// How an operation travels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Outside the numbered sequence: handshake, acknowledgements, liveness.
    Unsequenced,
    /// Of the client; normally waits for its reply.
    Call,
    /// Of the client; normally posted, with no reply unless it fails.
    Post,
    /// Of the worker, on its own account.
    Push,
}

/// A request, or a push: the fields at the start of a frame's payload.
pub trait Operation: Field + Send {
    const OPCODE: Opcode;
    type Reply: Field + Default + std::fmt::Debug;
    /// The bytes of the fields, where that is a constant: a reader can take them, then read the body straight
    /// into its destination. Constant for every operation with a body.
    const HEAD_BYTES: Option<usize>;
}

/// Calls the macro named with every row: `number kind Name { request } + body => { reply } + body;`.
#[macro_export]
macro_rules! for_each_operation {
    ($callback:ident) => {
        $callback! {
            /// Opens a connection: a new session, a reattachment, or a question about the worker.
            0x0001 Unsequenced Hello {
                min_version: u16, max_version: u16, capabilities: u64,
                /// 0 session, 1 inspect, 2 another strand of a session's connection, 3 administer.
                purpose: u8,
                /// The program's name, for people reading the worker's log.
                client: String,
                pid: u32,
                /// 0 for a new session.
                session_id: u64,
                /// Frames of the worker received in this session so far; of a strand, its place, from 1 on.
                received: u64,
                /// The address range the client has reserved and offers.
                arena_base: u64, arena_bytes: u64,
                nonce: [u8; 32],
            } => {};
            /// The worker's answer to a Hello: prove that you know the token and the session's secret.
            0x0002 Unsequenced Challenge {
                version: u16, nonce: [u8; 32], requires_token: bool,
                /// Whether anything has to be proved; if not, the answer to the Hello follows without a Proof.
                wants_proof: bool,
            } => {};
            /// HMACs over both nonces; zeros where there is nothing to prove.
            0x0003 Unsequenced Proof { access: [u8; 32], session: [u8; 32] } => {};
            0x0004 Unsequenced Welcome {
                version: u16, capabilities: u64,
                session_id: u64, session_secret: [u8; 32],
                /// Frames of the client received in this session so far.
                received: u64,
                arena_base: u64, arena_bytes: u64,
                /// How long the worker keeps the session after the connection is lost.
                grace_ms: u32,
                worker: String,
                devices: Vec<DeviceSnapshot>,
                /// The first 16 bytes of the BLAKE3 hash of each content the worker has of this client's earlier uploads and
                /// keeps for as long as the session lives.
                known: Bytes,
                /// The process whose memory the device's memory is, at its own addresses, if the client may reach into it; else 0.
                neighbour: u32,
            } => {};
            0x0005 Unsequenced Reject { code: u32, text: String } => {};
            /// Cumulative: all frames up to this one have arrived.
            0x0006 Unsequenced Ack { received: u64 } => {};
            0x0007 Unsequenced Ping {} => {};
            0x0008 Unsequenced Pong {} => {};
            /// The answer to an inspecting Hello: what the worker is and does, as JSON.
            0x000a Unsequenced Status { text: String } => {};
            /// The answer to the Hello of a strand: the session has it.
            0x000b Unsequenced Joined {} => {};
            /// The last bytes before the sender spreads its direction over this many links, the first among them. The worker answers
            /// the client's with its own.
            0x000c Unsequenced Spread { links: u16 } => {};

            /// Ends the session and frees all of it; the worker closes the connection.
            0x0010 Call Goodbye {} => {};

            0x0100 Post Allocate { device: u32, kind: u32, address: u64, bytes: u64 } => {};
            /// Waits for all earlier work of the device.
            0x0101 Post Release { address: u64 } => {};
            0x0102 Post Write { stream: u64, destination: u64 } + body => {};
            0x0103 Call Read { stream: u64, source: u64, bytes: u64 } => {} + body;
            /// Snapshots in stream order, then comes back as Deliver pushes.
            0x0104 Post ReadLater { stream: u64, source: u64, bytes: u64, token: u64 } => {};
            0x0105 Post Copy { stream: u64, destination: u64, source: u64, bytes: u64 } => {};
            0x0106 Post Fill { stream: u64, destination: u64, value: u32, width: u32, count: u64 } => {};
            /// The body is packed rows.
            0x0107 Post WriteRect { stream: u64, destination: u64, pitch: u64, width: u64, height: u64 } + body => {};
            0x0108 Call ReadRect { stream: u64, source: u64, pitch: u64, width: u64, height: u64 } => {} + body;
            0x0109 Post CopyRect {
                stream: u64, destination: u64, destination_pitch: u64, source: u64, source_pitch: u64,
                width: u64, height: u64,
            } => {};
            0x010a Post FillRect {
                stream: u64, destination: u64, pitch: u64, value: u32, width: u64, height: u64,
            } => {};
            0x010b Call MemoryInfo { device: u32 } => { free: u64, total: u64 };

            /// Memory of the program that lies outside the arena: the worker puts memory of its own at the same address, if
            /// nothing lies there. A release frees it.
            0x0120 Call Adopt { device: u32, address: u64, bytes: u64 } => {};
            /// What the host changed in mirrors, at once and in no order with any stream; numbered from 1 on. The body is changes,
            /// see [`delta`](crate::delta).
            0x0121 Post MirrorWrite { number: u64 } + body => {};
            /// A box: slices of rows, `pitch` bytes from row to row, `rows` rows from slice to slice. The body is packed.
            0x0140 Post WriteBox {
                stream: u64, destination: u64, pitch: u64, rows: u64, width: u64, height: u64, depth: u64,
            } + body => {};
            0x0141 Call ReadBox {
                stream: u64, source: u64, pitch: u64, rows: u64, width: u64, height: u64, depth: u64,
            } => {} + body;
            0x0142 Post CopyBox {
                stream: u64, destination: u64, destination_pitch: u64, destination_rows: u64,
                source: u64, source_pitch: u64, source_rows: u64, width: u64, height: u64, depth: u64,
            } => {};
            /// Elements of `element` bytes (1, 2 or 4); `width` is in bytes.
            0x0143 Post FillBox {
                stream: u64, destination: u64, pitch: u64, rows: u64, value: u32, element: u32,
                width: u64, height: u64, depth: u64,
            } => {};

            /// The stream waits until a value of `width` (4 or 8) bytes, masked, compares to `value`: 0 at least, 1 equal,
            /// 2 common bits, 3 not all bits in either.
            0x0144 Post WaitValue {
                stream: u64, address: u64, value: u64, mask: u64, width: u32, comparison: u32,
            } => {};
            /// How two devices are connected, in the numbers of HSA, and over how many hops.
            0x0150 Call QueryLink { from: u32, to: u32 } => { kind: u32, hops: u32 };

            /// Links LLVM bitcode, by name, to a code object.
            0x0151 Call Link { isa: String, inputs: Vec<(String, Bytes)> }
                => { status: i32, log: String, code: Bytes };

            0x0200 Post CreateStream { device: u32, stream: u64, flags: u32, priority: i32 } => {};
            0x0201 Post DestroyStream { stream: u64 } => {};
            0x0202 Call SynchronizeStream { stream: u64 } => {};
            0x0203 Call QueryStream { stream: u64 } => { done: bool };
            0x0204 Call SynchronizeDevice { device: u32 } => {};
            /// The worker pushes Callback and the stream waits for HostFunctionDone.
            0x0205 Post HostFunction { stream: u64, token: u64 } => {};
            0x0206 Post HostFunctionDone { token: u64 } => {};

            0x0300 Post CreateEvent { event: u64, device: u32, flags: u32 } => {};
            0x0301 Post DestroyEvent { event: u64 } => {};
            0x0302 Post RecordEvent { event: u64, stream: u64 } => {};
            0x0303 Post WaitEvent { stream: u64, event: u64 } => {};
            0x0304 Call SynchronizeEvent { event: u64 } => {};
            0x0305 Call QueryEvent { event: u64 } => { done: bool };
            0x0306 Call ElapsedTime { start: u64, stop: u64 } => { milliseconds: f32 };

            /// The body is the image, or empty when the worker has the content with that hash (BLAKE3): because this session sent it
            /// before, or because Welcome said so.
            0x0400 Post LoadModule { module: u64, device: u32, base: u64, hash: [u8; 32] } + body => {};
            0x0401 Post UnloadModule { module: u64 } => {};
            0x0402 Call ModuleGlobal { module: u64, name: String } => { address: u64, bytes: u64 };
            0x0403 Post DefineFunction { function: u64, module: u64, name: String } => {};

            /// `grid` is in work-items. The body is the explicit kernel arguments, laid out.
            0x0500 Post Launch {
                function: u64, stream: u64, grid: [u32; 3], block: [u32; 3], shared_bytes: u32,
                /// 1 cooperative.
                flags: u32,
                /// 0 for none.
                start_event: u64, stop_event: u64,
            } + body => {};

            0x0600 Call Compile {
                isa: String, name: String, source: String, headers: Vec<(String, String)>,
                options: Vec<String>, expressions: Vec<String>,
            } => { status: i32, log: String, lowered: Vec<String>, code: Bytes, bitcode: Bytes };

            0x0700 Call ResetDevice { device: u32 } => {};
            0x0701 Call SetLimit { device: u32, limit: i32, value: u64 } => { value: u64 };

            /// The worker's clock, in nanoseconds from a start of its own choice: that of every `Span`.
            0x0710 Call ReadClock {} => { nanoseconds: u64 };
            /// From now on (or no longer) the worker pushes `Spans`. Told first, it covers all functions that are defined later.
            0x0711 Post RecordSpans { on: bool } => {};
            /// What streams have done. Spans of one stream come in its order and do not overlap.
            0x0712 Push Spans {
                /// How many were dropped so far because the client did not take them.
                lost: u64,
                /// Names of functions that spans from now on may have.
                functions: Vec<(u64, String)>,
                spans: Vec<Span>,
            } => {};

            /// From now on the device counts what kernels execute, which makes them slower. Devices that cannot count refuse.
            0x0720 Call BeginCounting { device: u32 } => {};
            /// Counting ends; the numbers since it began, in the order of `backend::Counters`. More may follow those known today.
            0x0721 Call EndCounting { device: u32 } => { numbers: Vec<u64> };

            /// Physical memory that is mapped nowhere yet.
            0x0800 Post CreateMemory { device: u32, memory: u64, bytes: u64 } => {};
            /// The memory itself goes with its last mapping.
            0x0801 Post ReleaseMemory { memory: u64 } => {};
            0x0802 Post MapMemory { memory: u64, offset: u64, address: u64, bytes: u64 } => {};
            /// Waits for all earlier work.
            0x0803 Post UnmapMemory { address: u64, bytes: u64 } => {};
            /// `access` is 0 none, 1 read, 3 read and write.
            0x0804 Post SetAccess { device: u32, address: u64, bytes: u64, access: u32 } => {};
            /// Makes physical memory open to other sessions of the worker that are told the token.
            0x0805 Call ShareMemory { memory: u64 } => { token: [u8; 32], bytes: u64 };
            /// The same for what Allocate made.
            0x0806 Call ShareAllocation { address: u64 } => { token: [u8; 32], bytes: u64 };
            /// Gives memory of another session a number in this one.
            0x0807 Call OpenMemory { device: u32, memory: u64, token: [u8; 32] } => { bytes: u64 };

            /// What an administering connection asks first: stop a session and send it, as pieces, then Whole. What becomes of it
            /// here is decided with Decide. Its work may take `patience_ms` to end, or the session goes on and this is refused.
            0x0820 Unsequenced Snapshot { session: u64, patience_ms: u32 } => {};
            /// The other question: go on with the session that follows, as pieces, then Whole. Answered with Done.
            0x0821 Unsequenced Resume {} => {};
            0x0822 Unsequenced Piece {} + body => {};
            0x0823 Unsequenced Whole {} => {};
            /// What becomes of a session that was sent: see `decision`. Answered with Done.
            0x0824 Unsequenced Decide { decision: u32, endpoint: String } => {};
            /// A session that is suspended, or has moved, is to be found there. Answered with Done.
            0x0825 Unsequenced Redirect { session: u64, endpoint: String } => {};
            0x0826 Unsequenced Done { session: u64 } => {};
            /// As Resume, for a worker with several tokens: the session belongs to this tenant from then on.
            0x0827 Unsequenced ResumeFor { tenant: String } => {};

            /// An executable graph, without nodes yet.
            0x0900 Post DefineGraph { graph: u64 } => {};
            /// The next nodes of a graph that was not launched yet.
            0x0901 Post AddGraphNodes { graph: u64, nodes: Vec<GraphNode> } => {};
            /// For the launches that follow.
            0x0902 Post UpdateGraphNodes { graph: u64, updates: Vec<GraphUpdate> } => {};
            /// Launches before it still run.
            0x0903 Post DestroyGraph { graph: u64 } => {};
            /// All of a graph, in stream order. The body is the rows of its writes, in the order of nodes and steps.
            0x0904 Post LaunchGraph {
                graph: u64, stream: u64,
                /// The device of the stream.
                device: u32,
                /// See `graph_launch`.
                flags: u32,
                /// The token of slot 0; the others follow.
                tokens: u64,
            } + body => {};
            /// As RecordEvent; the worker pushes EventReached when the stream comes to it.
            0x0a00 Post RecordWatched { event: u64, stream: u64, stamp: u64 } => {};
            /// As QueryStream; if the stream is not done, the worker pushes StreamReached when it is.
            0x0a01 Call QueryWatched { stream: u64, stamp: u64 } => { done: bool };

            /// As QueryEvent; if the event is not reached, the worker pushes EventReached when it is.
            0x0a02 Call QueryEventWatched { event: u64, stamp: u64 } => { done: bool };

            /// Waits until the stream would come to a copy of this memory, which the client then does itself.
            0x0a03 Call Reach { stream: u64, address: u64, bytes: u64 } => {};

            /// As Write, of a content that the worker should keep for later runs.
            0x0a10 Post WriteKept { stream: u64, destination: u64, hash: [u8; 32] } + body => {};
            /// As Write, of a content that the worker probably has. If it has not, nothing was written.
            0x0a11 Call WriteKnown { stream: u64, destination: u64, bytes: u64, hash: [u8; 32] } => { held: bool };

            /// Another operation (Write, WriteKept or LoadModule) whose body of `bytes` bytes is an LZ4 block here. Its fields come
            /// first in `fields`, and zeros behind them.
            0x0a20 Post Packed { opcode: u16, bytes: u64, fields: [[u8; 32]; 2] } + body => {};

            /// Bytes asked for by ReadLater, in pieces.
            0x0f00 Push Deliver { token: u64, offset: u64 } + body => {};
            /// What a kernel printed.
            0x0f01 Push Output { fd: u32 } + body => {};
            /// A host function's turn has come.
            0x0f02 Push Callback { token: u64, status: i32 } => {};
            /// A posted request failed.
            0x0f03 Push LateError { request_id: u32, function: u16, code: i32, text: String } => {};
            /// What the device changed in mirrors; comes before the word that the work which did it has ended. `taken` is the last
            /// MirrorWrite that was put in before memory was compared.
            0x0f20 Push MirrorChanged { taken: u64 } + body => {};
            /// A watched record was reached, with 0 or the error that came in between.
            0x0f30 Push EventReached { event: u64, stamp: u64, status: i32 } => {};
            /// All that was asked of a stream before the query with this stamp is done.
            0x0f31 Push StreamReached { stream: u64, stamp: u64, status: i32 } => {};
        }
    };
}

macro_rules! define_operations {
    ($(
        $(#[$meta:meta])* $number:literal $kind:ident $name:ident
        { $($(#[$fmeta:meta])* $field:ident : $type:ty),* $(,)? } $(+ $request_body:ident)?
        => { $($(#[$rmeta:meta])* $rfield:ident : $rtype:ty),* $(,)? } $(+ $reply_body:ident)? ;
    )*) => {
        /// Every operation, by its number on the wire.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u16)]
        pub enum Opcode { $($(#[$meta])* $name = $number),* }

        impl Opcode {
            pub const ALL: &[Opcode] = &[$(Opcode::$name),*];

            pub const fn from_number(number: u16) -> Option<Opcode> {
                match number {
                    $($number => Some(Opcode::$name),)*
                    _ => None,
                }
            }

            pub const fn name(self) -> &'static str {
                match self { $(Opcode::$name => stringify!($name)),* }
            }

            pub const fn kind(self) -> Kind {
                match self { $(Opcode::$name => Kind::$kind),* }
            }

            /// Whether bulk bytes may follow the fields of the request.
            pub const fn request_has_body(self) -> bool {
                match self { $(Opcode::$name => has_body!($($request_body)?)),* }
            }

            /// Whether bulk bytes may follow the fields of the reply.
            pub const fn reply_has_body(self) -> bool {
                match self { $(Opcode::$name => has_body!($($reply_body)?)),* }
            }

            /// The size of the request's fields, where it is constant.
            pub const fn head_bytes(self) -> Option<usize> {
                match self { $(Opcode::$name => <$name as Field>::FIXED_BYTES),* }
            }

            /// The size of the reply's fields without the status, where it is constant.
            pub const fn reply_head_bytes(self) -> Option<usize> {
                match self { $(Opcode::$name => <reply::$name as Field>::FIXED_BYTES),* }
            }
        }

        $(
            record! { $(#[$meta])* pub struct $name { $($(#[$fmeta])* $field: $type),* } }

            impl Operation for $name {
                const OPCODE: Opcode = Opcode::$name;
                type Reply = reply::$name;
                const HEAD_BYTES: Option<usize> = {
                    let bytes = <$name as Field>::FIXED_BYTES;
                    assert!(bytes.is_some() || !Opcode::$name.request_has_body(), "a bulk head must be fixed");
                    bytes
                };
            }
        )*

        /// The fields of each operation's reply, after the status.
        pub mod reply {
            use super::*;
            $(record! { pub struct $name { $($(#[$rmeta])* $rfield: $rtype),* } })*
        }

        /// Decodes the fields of any request with `visit_decoded`; for tests and fuzzing.
        #[doc(hidden)]
        pub fn redecode(opcode: Opcode, payload: &[u8]) -> Result<Vec<u8>, WireError> {
            match opcode { $(Opcode::$name => {
                let (fields, body) = decode_request::<$name>(payload)?;
                let mut bytes = Vec::new();
                fields.put(&mut bytes);
                bytes.extend_from_slice(body);
                Ok(bytes)
            })* }
        }

        /// The same for replies.
        #[doc(hidden)]
        pub fn redecode_reply(opcode: Opcode, header: &Header, payload: &[u8]) -> Result<Vec<u8>, WireError> {
            match opcode { $(Opcode::$name => {
                let mut bytes = Vec::new();
                match decode_reply::<$name>(header, payload)? {
                    Ok((fields, body)) => {
                        encode_reply_head(&fields, &mut bytes);
                        bytes.extend_from_slice(body);
                    }
                    Err(failure) => failure.encode(&mut bytes),
                }
                Ok(bytes)
            })* }
        }
    };
}

macro_rules! has_body {
    () => {
        false
    };
    (body) => {
        true
    };
}

for_each_operation!(define_operations);

impl Opcode {
    pub const fn number(self) -> u16 {
        self as u16
    }

    pub const fn is_unsequenced(self) -> bool {
        matches!(self.kind(), Kind::Unsequenced)
    }
}

/// The name of an operation, for logs; numbers this build does not know are shown as such.
pub fn name(opcode: u16) -> String {
    match Opcode::from_number(opcode) {
        Some(known) => known.name().to_owned(),
        None => format!("operation {opcode:#06x}"),
    }
}

record! {
    /// What a client must know of a device to answer every question about it without asking.
    pub struct DeviceSnapshot {
        ordinal: u32,
        /// The full target: `gfx942:sramecc+:xnack-`.
        isa: String,
        /// The raw `hipDeviceProp_tR0600`.
        properties: Bytes,
        attributes: Vec<(i32, i32)>,
        limits: Vec<(i32, u64)>,
        total_memory: u64,
        /// How much of the memory this session may use.
        quota: u64,
        least_priority: i32,
        greatest_priority: i32,
        driver_version: i32,
        runtime_version: i32,
    }
}

record! {
    /// The time a stream spent on one piece of work.
    pub struct Span {
        stream: u64,
        device: u32,
        /// See `span_kind`.
        kind: u8,
        /// The request that asked for it.
        request_id: u32,
        /// By the worker's clock.
        begin: u64,
        end: u64,
        /// What was moved or filled; of a kernel, its work-items.
        amount: u64,
        /// Of a kernel; else 0.
        function: u64,
    }
}

/// Kinds of `Span`.
pub mod span_kind {
    pub const KERNEL: u8 = 0;
    pub const COPY: u8 = 1;
    pub const FILL: u8 = 2;
    /// From the client.
    pub const WRITE: u8 = 3;
    /// To the client.
    pub const READ: u8 = 4;
}

/// Bits of `Hello::capabilities` and `Welcome::capabilities`; a session has what both name.
pub mod capability {
    /// Modules load at the base the client chose, so the client knows the addresses of their symbols.
    pub const PLACED_MODULES: u64 = 1;
    /// The worker has a compiler for hiprtc.
    pub const COMPILE: u64 = 2;
    /// The worker keeps uploads by content: `WriteKept`, `WriteKnown`, and what `Welcome` says is known.
    pub const UPLOADS: u64 = 1 << 8;
    /// The client sends no Proof where there is nothing to prove, which saves a round trip.
    pub const SHORT_GREETING: u64 = 1 << 9;
    /// The worker unpacks `Packed`.
    pub const PACKED: u64 = 1 << 10;
    /// The worker takes more links for a session, and spreads what it sends over them when told to.
    pub const STRANDS: u64 = 1 << 11;
    /// Sessions share what devices have: whether memory can be had is known only when it is taken, so allocations are calls.
    pub const SHARED_MEMORY: u64 = 1 << 33;
    /// The worker tells when its streams did what: `RecordSpans`, `ReadClock`.
    pub const SPANS: u64 = 1 << 24;
    /// The session was resumed here: what an earlier Welcome said is known no longer holds.
    pub const RESUMED: u64 = 1 << 25;
}

/// Values of `Decide::decision`.
pub mod decision {
    /// The session goes on where it is.
    pub const STAY: u32 = 0;
    /// It ends here; its client is told to wait.
    pub const SUSPEND: u32 = 1;
    /// It ends here; its client is told the endpoint.
    pub const MOVE: u32 = 2;
}

/// What a failed request comes back with.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{text} (hipError_t {status})")]
pub struct Failure {
    /// A `hipError_t`, never 0.
    pub status: i32,
    pub text: String,
}

impl Failure {
    pub fn encode(&self, sink: &mut impl Sink) {
        self.status.put(sink);
        self.text.put(sink);
    }

    pub fn size(&self) -> usize {
        4 + self.text.size()
    }
}

/// The fields of a request, and its body.
pub fn decode_request<O: Operation>(payload: &[u8]) -> Result<(O, &[u8]), WireError> {
    let mut reader = Reader::new(payload);
    let fields = O::take(&mut reader)?;
    if !O::OPCODE.request_has_body() {
        reader.finish(O::OPCODE.name())?;
    }
    Ok((fields, reader.rest()))
}

/// A whole frame of an operation: header, fields, body. The caller appends nothing.
pub fn encode_request<O: Operation>(
    fields: &O,
    body: &[u8],
    flags: Flags,
    request_id: u32,
    function: u16,
    sink: &mut impl Sink,
) {
    let mut header = Header::new(O::OPCODE, flags, request_id, (fields.size() + body.len()) as u64);
    header.function = function;
    sink.put(&header.encode());
    fields.put(sink);
    sink.put(body);
}

/// Status 0 and the fields of a reply; the body, if any, follows from wherever it lies.
pub fn encode_reply_head<R: Field>(fields: &R, sink: &mut impl Sink) {
    0i32.put(sink);
    fields.put(sink);
}

/// What a reply's payload says: the fields and the body, or the failure.
pub type Decoded<'a, O> = Result<(<O as Operation>::Reply, &'a [u8]), Failure>;

/// Reads the payload of a reply.
pub fn decode_reply<'a, O: Operation>(
    header: &Header,
    payload: &'a [u8],
) -> Result<Decoded<'a, O>, WireError> {
    let mut reader = Reader::new(payload);
    let status = i32::take(&mut reader)?;
    if header.is_error() {
        let text = String::take(&mut reader)?;
        reader.finish("failure")?;
        if status == 0 {
            return Err(WireError::Value { what: "status of a failure", value: 0 });
        }
        return Ok(Err(Failure { status, text }));
    }
    if status != 0 {
        return Err(WireError::Value { what: "status of a success", value: status as u32 as u64 });
    }
    let fields = O::Reply::take(&mut reader)?;
    if !O::OPCODE.reply_has_body() {
        reader.finish(O::OPCODE.name())?;
    }
    Ok(Ok((fields, reader.rest())))
}
