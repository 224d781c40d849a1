//! The operation table: opcode, direction, fields and reply of every operation. Everything else about an operation is derived
//! from its row. Opcodes are permanent: rows may be added but never renumbered (a test pins them). docs/protocol.md says what else
//! may change.

#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use crate::codec::{Bytes, Field, Reader, Sink, record};
use crate::{Flags, GraphNode, GraphUpdate, Header, WireError};

/// Direction and reply behaviour of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Outside the frame sequence: handshake, acknowledgements, heartbeats.
    Unsequenced,
    /// Sent by the client, which normally waits for the reply.
    Call,
    /// Sent by the client, normally without a reply unless it fails.
    Post,
    /// Sent by the worker on its own initiative.
    Push,
}

/// A request or a push: the fields at the start of a frame's payload.
pub trait Operation: Field + Send {
    /// The operation's number.
    const OPCODE: Opcode;
    /// Fields of the reply.
    type Reply: Field + Default + std::fmt::Debug;
    /// Size of the fields in bytes, if constant: a receiver can read them first, then read the body directly into its
    /// destination. Constant for every operation with a body.
    const HEAD_BYTES: Option<usize>;
}

/// Invokes the given macro with all rows: `opcode kind Name { request } + body => { reply } + body;`.
#[macro_export]
macro_rules! for_each_operation {
    ($callback:ident) => {
        $callback! {
            /// Opens a connection: for a new session, a reconnect to a session, or a status query.
            0x0001 Unsequenced Hello {
                min_version: u16, max_version: u16, capabilities: u64,
                /// 0 session, 1 inspect, 2 additional link (strand) of a session's connection, 3 administer.
                purpose: u8,
                /// Name of the client program, for the worker's log.
                client: String,
                pid: u32,
                /// 0 for a new session.
                session_id: u64,
                /// Number of the worker's frames received in this session so far; for a strand, its index, starting at 1.
                received: u64,
                /// Address range that the client has reserved and offers as arena.
                arena_base: u64, arena_bytes: u64,
                nonce: [u8; 32],
            } => {};
            /// Answer of the worker to a Hello: requests a proof that the client knows the token and the session's secret.
            0x0002 Unsequenced Challenge {
                version: u16, nonce: [u8; 32], requires_token: bool,
                /// Whether the client has to send a Proof; if not, the answer to the Hello follows directly.
                wants_proof: bool,
            } => {};
            /// HMACs over both nonces; zeros where no proof is required.
            0x0003 Unsequenced Proof { access: [u8; 32], session: [u8; 32] } => {};
            0x0004 Unsequenced Welcome {
                version: u16, capabilities: u64,
                session_id: u64, session_secret: [u8; 32],
                /// Number of the client's frames received in this session so far.
                received: u64,
                arena_base: u64, arena_bytes: u64,
                /// How long the worker keeps the session after the connection is lost.
                grace_ms: u32,
                worker: String,
                devices: Vec<DeviceSnapshot>,
                /// Upload cache: the first 16 bytes of the BLAKE3 hash of each content that the worker has cached from this
                /// client's earlier uploads and keeps as long as the session lives.
                known: Bytes,
                /// Process ID of the executor if the client may access its memory directly (device memory is at the same
                /// addresses in it); else 0.
                neighbour: u32,
            } => {};
            0x0005 Unsequenced Reject { code: u32, text: String } => {};
            /// Cumulative acknowledgement: all frames up to this one have been received.
            0x0006 Unsequenced Ack { received: u64 } => {};
            /// Requests a Pong. The receiving thread answers it without waiting for a device.
            0x0007 Unsequenced Ping {} => {};
            /// Heartbeat: the sender is alive. A worker also sends it unrequested while it is busy with a client's frame, see
            /// [`capability::HEARTBEAT`].
            0x0008 Unsequenced Pong {} => {};
            /// Answer to an inspecting Hello: state of the worker, as JSON.
            0x000a Unsequenced Status { text: String } => {};
            /// Answer to the Hello of a strand: the link now belongs to the session.
            0x000b Unsequenced Joined {} => {};
            /// Last frame on the first link before the sender spreads its direction over this many links, including the first.
            /// The worker answers the client's Spread with one of its own.
            0x000c Unsequenced Spread { links: u16 } => {};
            /// Requests the whole content of all mirrored memory, as MirrorState pushes. For a client that has replayed a session,
            /// see [`capability::REPLAY`].
            0x000d Unsequenced ReportMirrors {} => {};
            /// The worker has stored the state of the session after this many requests, when it had sent this many frames. The client
            /// need not keep what was before. Also the first frame after the Welcome of a session that was restored from a checkpoint.
            /// `place` is the worker that has it, like the text of a Moved rejection; empty if it is this one.
            0x000e Unsequenced Checkpointed { received: u64, frames: u64, place: String } => {};

            /// Ends the session and frees all its resources; the worker closes the connection.
            0x0010 Call Goodbye {} => {};

            0x0100 Post Allocate { device: u32, kind: u32, address: u64, bytes: u64 } => {};
            /// Waits for all earlier work on the device.
            0x0101 Post Release { address: u64 } => {};
            0x0102 Post Write { stream: u64, destination: u64 } + body => {};
            0x0103 Call Read { stream: u64, source: u64, bytes: u64 } => {} + body;
            /// Takes a snapshot of the memory in stream order, which the worker then sends as Deliver pushes.
            0x0104 Post ReadLater { stream: u64, source: u64, bytes: u64, token: u64 } => {};
            0x0105 Post Copy { stream: u64, destination: u64, source: u64, bytes: u64 } => {};
            0x0106 Post Fill { stream: u64, destination: u64, value: u32, width: u32, count: u64 } => {};
            /// The body contains packed rows.
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

            /// Adopts memory of the program outside the arena: the worker maps memory at the same address, if that range is
            /// unused. Release frees it.
            0x0120 Call Adopt { device: u32, address: u64, bytes: u64 } => {};
            /// Host changes in mirrored memory, applied immediately and not ordered with any stream. Numbered from 1. The body
            /// contains changes, see [`delta`](crate::delta).
            0x0121 Post MirrorWrite { number: u64 } + body => {};
            /// A 3D box: slices of rows, `pitch` bytes from row to row, `rows` rows from slice to slice. The body is packed.
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

            /// Blocks the stream until a value of `width` (4 or 8) bytes, masked, compares to `value`: 0 greater or equal, 1
            /// equal, 2 AND is not zero, 3 NOR is not zero.
            0x0144 Post WaitValue {
                stream: u64, address: u64, value: u64, mask: u64, width: u32, comparison: u32,
            } => {};
            /// Type of the link between two devices, in HSA's numbering, and its number of hops.
            0x0150 Call QueryLink { from: u32, to: u32 } => { kind: u32, hops: u32 };

            /// Links LLVM bitcode, given by name, to a code object.
            0x0151 Call Link { isa: String, inputs: Vec<(String, Bytes)> }
                => { status: i32, log: String, code: Bytes };

            0x0200 Post CreateStream { device: u32, stream: u64, flags: u32, priority: i32 } => {};
            0x0201 Post DestroyStream { stream: u64 } => {};
            0x0202 Call SynchronizeStream { stream: u64 } => {};
            0x0203 Call QueryStream { stream: u64 } => { done: bool };
            0x0204 Call SynchronizeDevice { device: u32 } => {};
            /// Runs a function of the program in stream order: the worker pushes Callback, and the stream waits for
            /// HostFunctionDone.
            0x0205 Post HostFunction { stream: u64, token: u64 } => {};
            0x0206 Post HostFunctionDone { token: u64 } => {};

            0x0300 Post CreateEvent { event: u64, device: u32, flags: u32 } => {};
            0x0301 Post DestroyEvent { event: u64 } => {};
            0x0302 Post RecordEvent { event: u64, stream: u64 } => {};
            0x0303 Post WaitEvent { stream: u64, event: u64 } => {};
            0x0304 Call SynchronizeEvent { event: u64 } => {};
            0x0305 Call QueryEvent { event: u64 } => { done: bool };
            0x0306 Call ElapsedTime { start: u64, stop: u64 } => { milliseconds: f32 };

            /// The body is the image, or empty if the worker has the content with this BLAKE3 hash: because this session sent it
            /// before, or because Welcome listed it.
            0x0400 Post LoadModule { module: u64, device: u32, base: u64, hash: [u8; 32] } + body => {};
            0x0401 Post UnloadModule { module: u64 } => {};
            0x0402 Call ModuleGlobal { module: u64, name: String } => { address: u64, bytes: u64 };
            0x0403 Post DefineFunction { function: u64, module: u64, name: String } => {};

            /// `grid` is in work-items. The body is the kernel argument block without hidden arguments.
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

            /// The worker's clock in nanoseconds, with an arbitrary start. All `Span`s use it.
            0x0710 Call ReadClock {} => { nanoseconds: u64 };
            /// Enables or disables `Spans` pushes. If sent first, it covers all functions that are defined later.
            0x0711 Post RecordSpans { on: bool } => {};
            /// Completed work of streams. Spans of one stream are in order and do not overlap.
            0x0712 Push Spans {
                /// Number of spans dropped so far because the client did not receive them fast enough.
                lost: u64,
                /// Names of functions that spans may refer to from now on.
                functions: Vec<(u64, String)>,
                spans: Vec<Span>,
            } => {};

            /// Starts counting what kernels execute, which slows them down. Fails on devices that cannot count.
            0x0720 Call BeginCounting { device: u32 } => {};
            /// Stops counting. Returns the counters since the start, in the order of `backend::Counters`. Future versions may
            /// append more.
            0x0721 Call EndCounting { device: u32 } => { numbers: Vec<u64> };

            /// Creates physical memory that is not mapped yet.
            0x0800 Post CreateMemory { device: u32, memory: u64, bytes: u64 } => {};
            /// Releases the handle. The memory is freed with its last mapping.
            0x0801 Post ReleaseMemory { memory: u64 } => {};
            0x0802 Post MapMemory { memory: u64, offset: u64, address: u64, bytes: u64 } => {};
            /// Waits for all earlier work.
            0x0803 Post UnmapMemory { address: u64, bytes: u64 } => {};
            /// `access` is 0 none, 1 read, 3 read and write.
            0x0804 Post SetAccess { device: u32, address: u64, bytes: u64, access: u32 } => {};
            /// Makes physical memory accessible to other sessions of the worker that know the token.
            0x0805 Call ShareMemory { memory: u64 } => { token: [u8; 32], bytes: u64 };
            /// Like ShareMemory, for memory created by Allocate.
            0x0806 Call ShareAllocation { address: u64 } => { token: [u8; 32], bytes: u64 };
            /// Imports memory of another session under a handle of this one.
            0x0807 Call OpenMemory { device: u32, memory: u64, token: [u8; 32] } => { bytes: u64 };

            /// First request of an administering connection: stops a session and sends it as SnapshotChunks, then
            /// SnapshotEnd. FinishMove then determines what happens to the session on this worker. Waits at most `patience_ms` for the session's running work;
            /// on timeout the session continues and the request fails.
            0x0820 Unsequenced Snapshot { session: u64, patience_ms: u32 } => {};
            /// Alternative first request: resumes the session that follows as SnapshotChunks, then SnapshotEnd. Answered with
            /// Done.
            0x0821 Unsequenced Resume {} => {};
            0x0822 Unsequenced SnapshotChunk {} + body => {};
            0x0823 Unsequenced SnapshotEnd {} => {};
            /// Determines what happens to a session that was sent, see `decision`. Answered with Done.
            0x0824 Unsequenced FinishMove { decision: u32, endpoint: String } => {};
            /// Records the endpoint at which a suspended or moved session can be found. Answered with Done.
            0x0825 Unsequenced Redirect { session: u64, endpoint: String } => {};
            0x0826 Unsequenced Done { session: u64 } => {};
            /// Like Resume, for a worker with several tokens: the session belongs to this tenant from then on.
            0x0827 Unsequenced ResumeFor { tenant: String } => {};
            /// Alternative first request: stores the checkpoint of a session of another worker, which follows as SnapshotChunks, then
            /// SnapshotEnd. Answered with Done. A Hello with [`capability::RESTORED`] continues the session here.
            0x0828 Unsequenced StoreCheckpoint { session: u64, secret: [u8; 32], tenant: String, client: String } => {};
            /// Removes the checkpoint of a session of another worker. Answered with Done.
            0x0829 Unsequenced DiscardCheckpoint { session: u64 } => {};
            /// Alternative first request: observes the work of a running session. Answered with Done. Measure requests follow on the
            /// same connection. A session has one observer at a time.
            0x082a Unsequenced Observe { session: u64 } => {};
            /// Starts a measurement, or ends it (`start` is false) as soon as the session has handled this many requests in all and
            /// its devices are idle. Waits at most `patience_ms`. With `count`, devices that can count instructions do so, which makes
            /// kernels slower. Answered with Measured.
            0x082b Unsequenced Measure { start: bool, count: bool, requests: u64, patience_ms: u32 } => {};
            /// The work of a session since the start of the measurement. Times are nanoseconds of the worker's clock.
            0x082c Unsequenced Measured {
                /// Whether the session had handled the requests, and its devices were idle.
                is_idle: bool,
                /// Requests handled since the session began.
                requests: u64,
                /// Start of the first command and end of the last one; 0 if there was none.
                begin: u64, end: u64,
                kernels: u64,
                /// Bytes that commands copied on devices, filled, wrote from the host, and read to the host.
                copied: u64, filled: u64, written: u64, read: u64,
                /// Commands whose times are not known.
                lost: u64,
                /// Counters in the order of `backend::Counters`, summed over the devices; empty if nothing was counted.
                counters: Vec<u64>,
            } => {};
            /// Reports that these sessions of another worker still run, so that their checkpoints are held as if they were new. Answered
            /// with Done.
            0x082d Unsequenced RenewCheckpoints { sessions: Vec<u64> } => {};
            /// Redirects new sessions to another worker from now on; `endpoint` is like the text of a Moved rejection. If it is empty, new
            /// sessions are opened here again. Answered with Done when no session is being opened here. Older workers reject it as a
            /// bad request.
            0x082e Unsequenced OpenElsewhere { endpoint: String } => {};

            /// Creates an executable graph without nodes.
            0x0900 Post DefineGraph { graph: u64 } => {};
            /// Appends nodes to a graph that has not been launched yet.
            0x0901 Post AddGraphNodes { graph: u64, nodes: Vec<GraphNode> } => {};
            /// Updates nodes for subsequent launches.
            0x0902 Post UpdateGraphNodes { graph: u64, updates: Vec<GraphUpdate> } => {};
            /// Earlier launches still run to completion.
            0x0903 Post DestroyGraph { graph: u64 } => {};
            /// Launches a graph in stream order. The body is the rows of its writes, in the order of nodes and steps.
            0x0904 Post LaunchGraph {
                graph: u64, stream: u64,
                /// Device of the stream.
                device: u32,
                /// See `graph_launch`.
                flags: u32,
                /// Token of slot 0; the other slots use the following numbers.
                tokens: u64,
            } + body => {};
            /// Like RecordEvent, but the worker pushes EventReached when the stream reaches the event.
            0x0a00 Post RecordWatched { event: u64, stream: u64, stamp: u64 } => {};
            /// Like QueryStream, but if the stream is not done, the worker pushes StreamReached when it is.
            0x0a01 Call QueryWatched { stream: u64, stamp: u64 } => { done: bool };

            /// Like QueryEvent, but if the event has not been reached, the worker pushes EventReached when it is.
            0x0a02 Call QueryEventWatched { event: u64, stamp: u64 } => { done: bool };

            /// Waits until the stream would start a copy of this memory. The client then copies it itself.
            0x0a03 Call Reach { stream: u64, address: u64, bytes: u64 } => {};

            /// Like Write, but the worker should cache the content for later runs.
            0x0a10 Post WriteKept { stream: u64, destination: u64, hash: [u8; 32] } + body => {};
            /// Like Write, but without the content, which the worker probably has cached. On a cache miss (`held` is false)
            /// nothing is written.
            0x0a11 Call WriteKnown { stream: u64, destination: u64, bytes: u64, hash: [u8; 32] } => { held: bool };

            /// Compressed form of another operation (Write, WriteKept or LoadModule), whose body of `bytes` bytes is an LZ4 block
            /// here. `fields` starts with the operation's fields, padded with zeros.
            0x0a20 Post Packed { opcode: u16, bytes: u64, fields: [[u8; 32]; 2] } + body => {};

            /// Bytes requested by ReadLater, in pieces.
            0x0f00 Push Deliver { token: u64, offset: u64 } + body => {};
            /// Output printed by a kernel.
            0x0f01 Push Output { fd: u32 } + body => {};
            /// The stream has reached a host function.
            0x0f02 Push Callback { token: u64, status: i32 } => {};
            /// A posted request failed.
            0x0f03 Push LateError { request_id: u32, function: u16, code: i32, text: String } => {};
            /// A launch waits for the translation of this kernel; none if the translation has ended. For progress reports only.
            0x0f04 Push Translating { kernel: String } => {};
            /// Device changes in mirrored memory. Sent before the completion of the work that made them. `taken` is the number of
            /// the last MirrorWrite applied before memory was compared.
            0x0f20 Push MirrorChanged { taken: u64 } + body => {};
            /// Content of mirrored memory at this address, answering ReportMirrors. An empty body at address 0 is the last one. `taken`
            /// as in MirrorChanged.
            0x0f21 Push MirrorState { taken: u64, address: u64 } + body => {};
            /// A watched event was reached. `status` is 0, or the error that occurred before it.
            0x0f30 Push EventReached { event: u64, stamp: u64, status: i32 } => {};
            /// All work submitted to a stream before the query with this stamp is done.
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
        /// All operations, by their opcode on the wire.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u16)]
        #[allow(missing_docs, reason = "names say enough for many operations")]
        pub enum Opcode { $($(#[$meta])* $name = $number),* }

        impl Opcode {
            /// All operations, in the order of the table.
            pub const ALL: &[Opcode] = &[$(Opcode::$name),*];

            /// Finds an operation by its number on the wire.
            pub const fn from_number(number: u16) -> Option<Opcode> {
                match number {
                    $($number => Some(Opcode::$name),)*
                    _ => None,
                }
            }

            /// Name in the table, for logs and errors.
            pub const fn name(self) -> &'static str {
                match self { $(Opcode::$name => stringify!($name)),* }
            }

            /// Direction and reply behaviour.
            pub const fn kind(self) -> Kind {
                match self { $(Opcode::$name => Kind::$kind),* }
            }

            /// Whether a body may follow the fields of the request.
            pub const fn request_has_body(self) -> bool {
                match self { $(Opcode::$name => has_body!($($request_body)?)),* }
            }

            /// Whether a body may follow the fields of the reply.
            pub const fn reply_has_body(self) -> bool {
                match self { $(Opcode::$name => has_body!($($reply_body)?)),* }
            }

            /// Size of the request's fields, if constant.
            pub const fn head_bytes(self) -> Option<usize> {
                match self { $(Opcode::$name => <$name as Field>::FIXED_BYTES),* }
            }

            /// Size of the reply's fields without the status, if constant.
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
                    assert!(bytes.is_some() || !Opcode::$name.request_has_body(), "operations with a body need fields of constant size");
                    bytes
                };
            }
        )*

        /// Fields of each operation's reply, after the status.
        pub mod reply {
            use super::*;
            $(record! { pub struct $name { $($(#[$rmeta])* $rfield: $rtype),* } })*
        }

        /// Decodes and re-encodes the payload of any request; for tests and fuzzing.
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

        /// Like [`redecode`], but for replies.
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
    /// Number on the wire.
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// Whether frames of the operation are outside the sequence.
    pub const fn is_unsequenced(self) -> bool {
        matches!(self.kind(), Kind::Unsequenced)
    }
}

/// Name of an operation for logs; an unknown opcode is formatted as a number.
pub fn name(opcode: u16) -> String {
    match Opcode::from_number(opcode) {
        Some(known) => known.name().to_owned(),
        None => format!("operation {opcode:#06x}"),
    }
}

record! {
    /// Everything that a client must know about a device to answer queries without a round trip.
    pub struct DeviceSnapshot {
        ordinal: u32,
        /// Full target ID: `gfx942:sramecc+:xnack-`.
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
    /// Time that a stream spent on one operation.
    pub struct Span {
        stream: u64,
        device: u32,
        /// See `span_kind`.
        kind: u8,
        /// The request that submitted it.
        request_id: u32,
        /// In time of the worker's clock.
        begin: u64,
        end: u64,
        /// Bytes moved or filled; for a kernel, work-items.
        amount: u64,
        /// For a kernel; else 0.
        function: u64,
    }
}

/// Kinds of `Span`.
pub mod span_kind {
    /// A kernel launch.
    pub const KERNEL: u8 = 0;
    /// A copy within device memory.
    pub const COPY: u8 = 1;
    /// A fill of device memory.
    pub const FILL: u8 = 2;
    /// From the client to the device.
    pub const WRITE: u8 = 3;
    /// From the device to the client.
    pub const READ: u8 = 4;
}

/// Bits of `Hello::capabilities` and `Welcome::capabilities`. A session has the capabilities that both sides set.
pub mod capability {
    /// Modules are loaded at the base that the client chose, so the client can compute the addresses of their symbols.
    pub const PLACED_MODULES: u64 = 1;
    /// The worker has a compiler for hiprtc.
    pub const COMPILE: u64 = 2;
    /// The worker caches uploads by content hash: `WriteKept`, `WriteKnown`, and `Welcome::known`.
    pub const UPLOADS: u64 = 1 << 8;
    /// The client sends no Proof if none is required, which saves a round trip.
    pub const SHORT_GREETING: u64 = 1 << 9;
    /// The worker can decompress `Packed`.
    pub const PACKED: u64 = 1 << 10;
    /// The worker accepts several links per session, and spreads what it sends over them on request.
    pub const STRANDS: u64 = 1 << 11;
    /// Sessions share the devices' memory: an allocation may fail at any time, so allocations are calls instead of posts.
    pub const SHARED_MEMORY: u64 = 1 << 33;
    /// The worker limits host memory: registering host memory with the device may fail at any time, so it is a call.
    pub const HOST_LIMIT: u64 = 1 << 40;
    /// The worker reports when streams did what: `RecordSpans`, `ReadClock`.
    pub const SPANS: u64 = 1 << 24;
    /// The session was resumed on this worker: the contents listed in an earlier Welcome are no longer cached.
    pub const RESUMED: u64 = 1 << 25;
    /// The client accepts an unrequested Pong as a heartbeat; the worker sends it while it is busy with one frame.
    pub const HEARTBEAT: u64 = 1 << 26;
    /// Everything after Welcome goes through shared memory, whose descriptor is attached to Welcome. Only over a unix socket.
    pub const MEMORY_LINK: u64 = 1 << 27;
    /// The client keeps a journal and can replay the session on another worker. The worker answers ReportMirrors.
    pub const REPLAY: u64 = 1 << 28;
    /// In a Welcome: the session was restored from a checkpoint and has received nothing since. Checkpointed follows. The client sends
    /// all later requests again. In a Hello: the session's worker is lost, so this one is to continue it from a checkpoint.
    pub const RESTORED: u64 = 1 << 29;
    /// The client makes direct copies only while it is connected: a Hello for an existing session says that all have ended, and the
    /// Welcome offers them again.
    pub const DIRECT_COPIES_END: u64 = 1 << 41;
    /// Only in a Hello: the client follows a Moved rejection of a new session. Older clients follow those of existing sessions only.
    pub const REDIRECTS: u64 = 1 << 42;
}

/// Values of `FinishMove::decision`.
pub mod decision {
    /// The session continues on this worker.
    pub const STAY: u32 = 0;
    /// It ends on this worker; its client keeps retrying until it is resumed.
    pub const SUSPEND: u32 = 1;
    /// It ends on this worker; its client is sent the endpoint.
    pub const MOVE: u32 = 2;
}

/// Payload of the reply to a failed request.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{text} (hipError_t {status})")]
pub struct Failure {
    /// A `hipError_t`, never 0.
    pub status: i32,
    /// Description for users.
    pub text: String,
}

impl Failure {
    /// Encodes the failure.
    pub fn encode(&self, sink: &mut impl Sink) {
        self.status.put(sink);
        self.text.put(sink);
    }

    /// Size of the encoded failure in bytes.
    pub fn size(&self) -> usize {
        4 + self.text.size()
    }
}

/// Decodes the fields of a request. Returns them and the body.
pub fn decode_request<O: Operation>(payload: &[u8]) -> Result<(O, &[u8]), WireError> {
    let mut reader = Reader::new(payload);
    let fields = O::take(&mut reader)?;
    if !O::OPCODE.request_has_body() {
        reader.finish(O::OPCODE.name())?;
    }
    Ok((fields, reader.rest()))
}

/// Encodes a complete frame: header, fields, body.
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

/// Encodes status 0 and the fields of a reply; the caller sends the body, if any, separately.
pub fn encode_reply_head<R: Field>(fields: &R, sink: &mut impl Sink) {
    0i32.put(sink);
    fields.put(sink);
}

/// Result of decoding a reply: fields and body, or the failure.
pub type Decoded<'a, O> = Result<(<O as Operation>::Reply, &'a [u8]), Failure>;

/// Decodes the payload of a reply.
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
        return Err(WireError::Value { what: "status of a success", value: status.cast_unsigned().into() });
    }
    let fields = O::Reply::take(&mut reader)?;
    if !O::OPCODE.reply_has_body() {
        reader.finish(O::OPCODE.name())?;
    }
    Ok(Ok((fields, reader.rest())))
}
