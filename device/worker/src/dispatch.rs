//! Request dispatch: decodes each operation, calls the device and sends the reply.
//!
//! Runs on the thread that reads the connection, so nothing here waits for device work: slow operations are queued, and the
//! thread that completes them replies.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use backend::{
    Command, Completion, Device, DeviceError, Launch, MemoryKind, Notifier, ReadSink, Region, Scope, Span,
    StreamId, Tag,
};
use hip_api::types::{hipErrorNotSupported, hipErrorOutOfMemory, hipStreamNonBlocking};
use limits::{HostCharge, HostMemory};
use wire::{Header, MAX_BODY_BYTES, MAX_DELIVER_PIECE, MAX_GRAPH_PIECE, Opcode, Operation, decode_request};

use crate::broker::Exchange;
use crate::compile_channel::Task;
use crate::compile_client::CompileClient;
use crate::graph::{Graphs, Site};
use crate::inbox::{BUFFER_BYTES, Broken, Inbox};
use crate::outbox::Outbox;
use crate::region::{self, PackedTransfer, Transfer};
use crate::store::Store;
use crate::watches::Watches;

/// Limit on the kernel arguments of one launch; no kernel has more.
const MAX_ARGUMENTS_BYTES: u64 = 64 << 10;
/// Limit on one MirrorWrite; clients send far smaller pieces.
const MAX_CHANGES_BYTES: u64 = 4 << 20;
/// Limit on compilations of one session that run or wait at the same time; more are refused.
const MAX_COMPILATIONS: usize = 64;
/// Host memory charged for one compilation: what clang takes for a program of average size.
const COMPILER_BYTES: u64 = 128 << 20;

/// Whether the session continues after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    GoOn,
    /// The client has said goodbye. Its reply is sent, or will be when its work has finished.
    End,
}

/// Executes the operations of one session.
pub(crate) struct Dispatcher {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) exchange: Arc<Exchange>,
    compiler: Arc<CompileClient>,
    compilations: Arc<AtomicUsize>,
    watches: Arc<Watches>,
    pub(crate) store: Option<Arc<Store>>,
    pub(crate) images: HashMap<[u8; 32], Arc<[u8]>>,
    pub(crate) images_bytes: u64,
    pub(crate) image_charges: Vec<HostCharge>,
    /// Host memory charged for what the client makes this process allocate.
    pub(crate) host: Arc<HostMemory>,
    pub(crate) graphs: Graphs,
    farewell: Arc<dyn Fn() + Send + Sync>,
}

impl Dispatcher {
    /// `farewell` is called once a goodbye has been answered.
    pub(crate) fn new(
        device: Arc<dyn Device>,
        outbox: Arc<Outbox>,
        compiler: Arc<CompileClient>,
        store: Option<Arc<Store>>,
        exchange: Arc<Exchange>,
        farewell: Arc<dyn Fn() + Send + Sync>,
    ) -> Dispatcher {
        let watches = Watches::new(Arc::clone(&device), &outbox);
        device.notify(Arc::new(Voice { outbox: Arc::downgrade(&outbox), watches: Arc::downgrade(&watches) }));
        Dispatcher {
            watches,
            store,
            device,
            outbox,
            exchange,
            compiler,
            compilations: Arc::new(AtomicUsize::new(0)),
            images: HashMap::new(),
            images_bytes: 0,
            image_charges: Vec::new(),
            host: HostMemory::new(None),
            graphs: Graphs::default(),
            farewell,
        }
    }

    /// Charges memory that this process allocates for the client to the worker's host memory.
    pub(crate) fn count_against(&mut self, host: Arc<HostMemory>) {
        self.outbox.mirrors().count_against(&host);
        self.graphs.count_against(&host);
        self.host = host;
    }

    /// Whether every reply and every completion notification has been sent. Device work may still be running.
    pub(crate) fn is_quiet(&self) -> bool {
        self.outbox.owes_nothing() && self.watches.are_told()
    }

    /// Handles one request whose header has been read; its payload is still in the inbox. Calls `counted` once the last byte of
    /// the payload has been read.
    pub(crate) fn request(
        &mut self,
        number: u64,
        header: &Header,
        inbox: &mut Inbox,
        counted: &mut dyn FnMut(),
    ) -> Result<Next, Broken> {
        let opcode = match header.known() {
            Ok(opcode) if matches!(opcode.kind(), wire::Kind::Call | wire::Kind::Post) => opcode,
            Ok(opcode) => {
                inbox.skip(header.payload_len)?;
                counted();
                let text = format!("{} is not a request", opcode.name());
                self.outbox.fail(header, &DeviceError::not_supported(text));
                return Ok(Next::GoOn);
            }
            Err(error) => {
                inbox.skip(header.payload_len)?;
                counted();
                tracing::warn!(opcode = header.opcode, flags = header.flags.0, "request refused: {error}");
                self.outbox.fail(header, &DeviceError::new(hipErrorNotSupported, error.to_string()));
                return Ok(Next::GoOn);
            }
        };
        if opcode.effect().may_change() {
            self.outbox.will_change(number);
        }
        match opcode {
            Opcode::Write => self.write(header, inbox, counted)?,
            Opcode::WriteRect => self.write_region::<wire::WriteRect>(header, inbox, counted)?,
            Opcode::WriteBox => self.write_region::<wire::WriteBox>(header, inbox, counted)?,
            Opcode::WriteKept => self.write_kept(header, inbox, counted)?,
            Opcode::Packed => self.packed(header, inbox, counted)?,
            Opcode::LoadModule => self.load_module(header, inbox, counted)?,
            Opcode::Launch if header.payload_len > MAX_ARGUMENTS_BYTES => {
                inbox.skip(header.payload_len)?;
                counted();
                let text = format!("{} bytes of kernel arguments exceed the limit", header.payload_len);
                self.outbox.fail(header, &DeviceError::invalid_value(text));
            }
            Opcode::AddGraphNodes | Opcode::UpdateGraphNodes if header.payload_len > MAX_GRAPH_PIECE => {
                inbox.skip(header.payload_len)?;
                counted();
                let text =
                    format!("{} bytes of graph nodes in one request exceed the limit", header.payload_len);
                self.outbox.fail(header, &DeviceError::invalid_value(text));
            }
            Opcode::MirrorWrite if header.payload_len > MAX_CHANGES_BYTES => {
                inbox.skip(header.payload_len)?;
                counted();
                let text =
                    format!("{} bytes of mirror changes in one request exceed the limit", header.payload_len);
                self.outbox.fail(header, &DeviceError::invalid_value(text));
            }
            _ if header.payload_len as usize <= BUFFER_BYTES => {
                let payload = inbox.take(header.payload_len as usize)?;
                counted();
                return Ok(self.small(opcode, header, payload));
            }
            _ => {
                let charge = self.count_host(header.payload_len);
                if let Err(error) = charge {
                    inbox.skip(header.payload_len)?;
                    counted();
                    self.outbox.fail(header, &error);
                    return Ok(Next::GoOn);
                }
                let payload = inbox.read_vec(header.payload_len)?;
                counted();
                return Ok(self.small(opcode, header, &payload));
            }
        }
        Ok(Next::GoOn)
    }

    /// Executes operations whose whole payload is in memory.
    fn small(&mut self, opcode: Opcode, header: &Header, payload: &[u8]) -> Next {
        let device = &*self.device;
        match opcode {
            Opcode::Goodbye => {
                let (outbox, farewell) = (Arc::clone(&self.outbox), Arc::clone(&self.farewell));
                let header = *header;
                device.synchronize(
                    Scope::Everything,
                    Box::new(move |_| {
                        outbox.last_spans();
                        outbox.finish::<wire::Goodbye>(&header, Ok(Default::default()));
                        farewell();
                    }),
                );
                return Next::End;
            }
            Opcode::Allocate => self.now::<wire::Allocate>(header, payload, |it, _| {
                let kind = match it.kind {
                    0 => MemoryKind::Device,
                    1 => MemoryKind::Managed,
                    2 => MemoryKind::PinnedHost,
                    kind => return Err(DeviceError::invalid_value(format!("unknown memory kind {kind}"))),
                };
                device.map(it.device, kind, it.address, it.bytes)?;
                if kind != MemoryKind::Device {
                    let owner = (kind == MemoryKind::Managed).then_some(it.device);
                    self.mirror(owner, it.address, it.bytes)?;
                }
                Ok(Default::default())
            }),
            Opcode::Adopt => self.now::<wire::Adopt>(header, payload, |it, _| {
                device.map_host_range(it.device, it.address, it.bytes)?;
                self.mirror(None, it.address, it.bytes)?;
                Ok(Default::default())
            }),
            Opcode::MirrorWrite => self.now::<wire::MirrorWrite>(header, payload, |it, body| {
                self.outbox.mirrors().write(device, it.number, body)?;
                Ok(Default::default())
            }),
            Opcode::Release => self.now::<wire::Release>(header, payload, |it, _| {
                self.outbox.mirrors().remove(it.address);
                self.exchange.withdraw(it.address);
                device.unmap(it.address)?;
                Ok(Default::default())
            }),
            Opcode::Read => self.queued::<wire::Read>(header, payload, |it, _| {
                let sink = self.reply_sink(header, Some(it.source));
                Ok((it.stream, read(Region::flat(it.source, it.bytes), sink)?))
            }),
            Opcode::ReadRect => self.read_region::<wire::ReadRect>(header, payload),
            Opcode::ReadBox => self.read_region::<wire::ReadBox>(header, payload),
            Opcode::ReadLater => self.queued::<wire::ReadLater>(header, payload, |it, _| {
                let (outbox, header) = (Arc::clone(&self.outbox), *header);
                let sink = Box::new(move |result: Result<&[u8], DeviceError>| match result {
                    Ok(bytes) => {
                        outbox.mirrors().read(it.source, bytes);
                        deliver(&outbox, it.token, bytes);
                    }
                    Err(error) => outbox.fail(&header, &error),
                });
                Ok((it.stream, Command::Read { from: Region::flat(it.source, it.bytes), sink }))
            }),
            Opcode::Copy => self.transfer::<wire::Copy>(header, payload),
            Opcode::CopyRect => self.transfer::<wire::CopyRect>(header, payload),
            Opcode::CopyBox => self.transfer::<wire::CopyBox>(header, payload),
            Opcode::Fill => self.transfer::<wire::Fill>(header, payload),
            Opcode::FillRect => self.transfer::<wire::FillRect>(header, payload),
            Opcode::FillBox => self.transfer::<wire::FillBox>(header, payload),
            Opcode::WaitValue => self.now::<wire::WaitValue>(header, payload, |it, _| {
                // Answered at once even as a call: the client's next request may be what ends the wait.
                device.enqueue(it.stream, tag(header), Command::WaitValue(region::wait(&it)?))?;
                Ok(Default::default())
            }),
            Opcode::QueryLink => self.now::<wire::QueryLink>(header, payload, |it, _| {
                let (kind, hops) = device.link(it.from, it.to)?;
                Ok(wire::reply::QueryLink { kind, hops })
            }),
            Opcode::MemoryInfo => self.now::<wire::MemoryInfo>(header, payload, |it, _| {
                let memory = device.memory(it.device)?;
                Ok(wire::reply::MemoryInfo { free: memory.free, total: memory.total })
            }),
            Opcode::CreateStream => self.now::<wire::CreateStream>(header, payload, |it, _| {
                let non_blocking = it.flags & hipStreamNonBlocking != 0;
                device.create_stream(it.device, it.stream, non_blocking, it.priority)?;
                self.outbox.spans().stream(it.stream, it.device);
                Ok(Default::default())
            }),
            Opcode::DestroyStream => self.now::<wire::DestroyStream>(header, payload, |it, _| {
                device.destroy_stream(it.stream)?;
                self.outbox.spans().stream_gone(it.stream);
                Ok(Default::default())
            }),
            Opcode::SynchronizeStream => {
                self.wait::<wire::SynchronizeStream>(header, payload, |it| Scope::Stream(it.stream))
            }
            Opcode::SynchronizeDevice => {
                self.wait::<wire::SynchronizeDevice>(header, payload, |it| Scope::Device(it.device))
            }
            Opcode::SynchronizeEvent => {
                self.wait::<wire::SynchronizeEvent>(header, payload, |it| Scope::Event(it.event))
            }
            Opcode::QueryStream => self.now::<wire::QueryStream>(header, payload, |it, _| {
                Ok(wire::reply::QueryStream { done: self.is_done(Scope::Stream(it.stream))? })
            }),
            Opcode::QueryEvent => self.now::<wire::QueryEvent>(header, payload, |it, _| {
                Ok(wire::reply::QueryEvent { done: self.is_done(Scope::Event(it.event))? })
            }),
            Opcode::HostFunction => self.now::<wire::HostFunction>(header, payload, |it, _| {
                device.enqueue(it.stream, tag(header), Command::HostFunction { token: it.token })?;
                Ok(Default::default())
            }),
            Opcode::HostFunctionDone => {
                let graphs = &mut self.graphs;
                now(&self.outbox, &self.watches, header, payload, |it: wire::HostFunctionDone, _| {
                    if !graphs.was_called_off(it.token) {
                        device.host_function_done(it.token)?;
                    }
                    Ok(Default::default())
                });
            }
            Opcode::CreateEvent => self.now::<wire::CreateEvent>(header, payload, |it, _| {
                device.create_event(it.event, it.device, it.flags)?;
                Ok(Default::default())
            }),
            Opcode::DestroyEvent => self.now::<wire::DestroyEvent>(header, payload, |it, _| {
                device.destroy_event(it.event)?;
                Ok(Default::default())
            }),
            // Answered at once even as calls: they take no time themselves, and a program may record or wait long before the
            // stream gets there.
            Opcode::RecordEvent => self.now::<wire::RecordEvent>(header, payload, |it, _| {
                device.enqueue(it.stream, tag(header), Command::RecordEvent(it.event))?;
                Ok(Default::default())
            }),
            Opcode::QueryEventWatched => self.now::<wire::QueryEventWatched>(header, payload, |it, _| {
                let done = self.is_done(Scope::Event(it.event))?;
                if !done {
                    self.watches.add(it.event, Scope::Event(it.event), it.stamp);
                }
                Ok(wire::reply::QueryEventWatched { done })
            }),
            Opcode::Reach => self.queued::<wire::Reach>(header, payload, |it, _| {
                device.check(it.address, it.bytes)?;
                // An empty copy: it only takes its turn in the stream, as a real copy would.
                let nothing = Region::flat(it.address, 0);
                Ok((it.stream, Command::Copy { to: nothing, from: nothing }))
            }),
            Opcode::WriteKnown => self.now::<wire::WriteKnown>(header, payload, |it, _| {
                let content = self.store.as_ref().and_then(|store| store.get(&it.hash));
                let Some(content) = content.filter(|content| content.len() as u64 == it.bytes) else {
                    return Ok(wire::reply::WriteKnown { held: false });
                };
                let command = Command::write_flat(it.destination, content.to_vec());
                device.enqueue(it.stream, tag(header), command)?;
                self.outbox.mirrors().worked();
                Ok(wire::reply::WriteKnown { held: true })
            }),
            Opcode::RecordWatched => self.now::<wire::RecordWatched>(header, payload, |it, _| {
                device.enqueue(it.stream, tag(header), Command::RecordEvent(it.event))?;
                self.watches.add(it.stream, Scope::Event(it.event), it.stamp);
                Ok(Default::default())
            }),
            Opcode::QueryWatched => self.now::<wire::QueryWatched>(header, payload, |it, _| {
                let done = self.is_done(Scope::Stream(it.stream))?;
                if !done {
                    self.watches.add(it.stream, Scope::Stream(it.stream), it.stamp);
                }
                Ok(wire::reply::QueryWatched { done })
            }),
            Opcode::WaitEvent => self.now::<wire::WaitEvent>(header, payload, |it, _| {
                device.enqueue(it.stream, tag(header), Command::WaitEvent(it.event))?;
                Ok(Default::default())
            }),
            Opcode::ElapsedTime => self.now::<wire::ElapsedTime>(header, payload, |it, _| {
                Ok(wire::reply::ElapsedTime { milliseconds: device.elapsed(it.start, it.stop)? })
            }),
            Opcode::UnloadModule => self.now::<wire::UnloadModule>(header, payload, |it, _| {
                device.unload_module(it.module)?;
                Ok(Default::default())
            }),
            Opcode::ModuleGlobal => self.now::<wire::ModuleGlobal>(header, payload, |it, _| {
                let (address, bytes) = device.global(it.module, &it.name)?;
                Ok(wire::reply::ModuleGlobal { address, bytes })
            }),
            Opcode::DefineFunction => self.now::<wire::DefineFunction>(header, payload, |it, _| {
                device.define_function(it.function, it.module, &it.name)?;
                self.outbox.spans().name(it.function, &it.name);
                Ok(Default::default())
            }),
            Opcode::Launch => self.queued::<wire::Launch>(header, payload, |it, body| {
                let launch = Launch {
                    function: it.function,
                    grid: it.grid,
                    block: it.block,
                    shared_bytes: it.shared_bytes,
                    cooperative: it.flags & 1 != 0,
                    start_event: it.start_event,
                    stop_event: it.stop_event,
                    arguments: body.to_vec(),
                };
                Ok((it.stream, Command::Launch(launch)))
            }),
            Opcode::Compile => self.compile(header, payload),
            Opcode::Link => self.link(header, payload),
            Opcode::ResetDevice => {
                let graphs = &mut self.graphs;
                now(&self.outbox, &self.watches, header, payload, |it: wire::ResetDevice, _| {
                    self.outbox.mirrors().remove_of(it.device);
                    self.exchange.withdraw_all();
                    device.reset(it.device)?;
                    graphs.reset(device);
                    Ok(Default::default())
                });
            }
            Opcode::SetLimit => self.now::<wire::SetLimit>(header, payload, |it, _| {
                Ok(wire::reply::SetLimit { value: device.set_limit(it.device, it.limit, it.value)? })
            }),
            Opcode::BeginCounting => self.now::<wire::BeginCounting>(header, payload, |it, _| {
                device.begin_counting(it.device)?;
                Ok(Default::default())
            }),
            Opcode::EndCounting => self.now::<wire::EndCounting>(header, payload, |it, _| {
                Ok(wire::reply::EndCounting { numbers: device.end_counting(it.device)?.numbers() })
            }),
            Opcode::ReadClock => self.now::<wire::ReadClock>(header, payload, |_, _| {
                Ok(wire::reply::ReadClock { nanoseconds: self.outbox.spans().clock() })
            }),
            Opcode::RecordSpans => self.now::<wire::RecordSpans>(header, payload, |it, _| {
                self.outbox.spans().turn(it.on);
                device.record_spans(it.on);
                Ok(Default::default())
            }),
            Opcode::CreateMemory
            | Opcode::ReleaseMemory
            | Opcode::MapMemory
            | Opcode::UnmapMemory
            | Opcode::SetAccess
            | Opcode::ShareMemory
            | Opcode::ShareAllocation
            | Opcode::OpenMemory => self.virtual_memory(opcode, header, payload),
            Opcode::DefineGraph
            | Opcode::AddGraphNodes
            | Opcode::UpdateGraphNodes
            | Opcode::DestroyGraph
            | Opcode::LaunchGraph => self.graph(opcode, header, payload),
            other => {
                let text = format!("{} is not a request that a session handles", other.name());
                self.outbox.fail(header, &DeviceError::not_supported(text));
            }
        }
        Next::GoOn
    }

    /// Executes graph operations. A launch is answered once it is queued, even as a call: it may wait for the program itself.
    fn graph(&mut self, opcode: Opcode, header: &Header, payload: &[u8]) {
        let (device, outbox, watches, graphs) =
            (&*self.device, &self.outbox, &self.watches, &mut self.graphs);
        match opcode {
            Opcode::DefineGraph => now(outbox, watches, header, payload, |it: wire::DefineGraph, _| {
                graphs.define(it.graph).map(|()| Default::default())
            }),
            Opcode::AddGraphNodes => now(outbox, watches, header, payload, |it: wire::AddGraphNodes, _| {
                graphs.add(it.graph, it.nodes).map(|()| Default::default())
            }),
            Opcode::UpdateGraphNodes => {
                now(outbox, watches, header, payload, |it: wire::UpdateGraphNodes, _| {
                    graphs.update(it.graph, it.updates).map(|()| Default::default())
                })
            }
            Opcode::DestroyGraph => now(outbox, watches, header, payload, |it: wire::DestroyGraph, _| {
                graphs.destroy(device, it.graph).map(|()| Default::default())
            }),
            _ => now(outbox, watches, header, payload, |it: wire::LaunchGraph, body| {
                let site = Site { device, outbox, tag: tag(header) };
                let launched = graphs.launch(&site, &it, body);
                outbox.mirrors().worked();
                launched.map(|()| Default::default())
            }),
        }
    }

    /// Executes an operation whose result is available immediately.
    pub(crate) fn now<O: Operation>(
        &self,
        header: &Header,
        payload: &[u8],
        act: impl FnOnce(O, &[u8]) -> Result<O::Reply, DeviceError>,
    ) {
        now(&self.outbox, &self.watches, header, payload, act);
    }

    /// Executes an operation that waits for device work.
    fn wait<O: Operation>(&self, header: &Header, payload: &[u8], scope: impl FnOnce(O) -> Scope) {
        match decode::<O>(payload) {
            Ok((fields, _)) => self.device.synchronize(scope(fields), self.completion::<O>(header)),
            Err(error) => self.outbox.fail(header, &error),
        }
    }

    /// Executes an operation that queues work. As a call it is answered when the work has ended; a read is answered by its sink.
    fn queued<O: Operation>(
        &self,
        header: &Header,
        payload: &[u8],
        act: impl FnOnce(O, &[u8]) -> Result<(StreamId, Command), DeviceError>,
    ) {
        match decode::<O>(payload).and_then(|(fields, body)| act(fields, body)) {
            Ok((stream, command)) => self.enqueue::<O>(header, stream, command),
            Err(error) => self.outbox.fail(header, &error),
        }
    }

    /// Queues a copy or a fill.
    fn transfer<O: Transfer>(&self, header: &Header, payload: &[u8]) {
        self.queued::<O>(header, payload, |it, _| Ok(it.command()));
    }

    /// Queues a read whose rows, packed, are the reply.
    fn read_region<O: PackedTransfer>(&self, header: &Header, payload: &[u8]) {
        self.queued::<O>(header, payload, |it, _| {
            let (stream, from) = it.region();
            Ok((stream, read(from, self.reply_sink(header, None))?))
        });
    }

    pub(crate) fn enqueue<O: Operation>(&self, header: &Header, stream: StreamId, command: Command) {
        // The sink of a Read sends the reply. A ReadLater that is a call is answered when its snapshot has been taken.
        let answers = matches!(O::OPCODE, Opcode::Read | Opcode::ReadRect | Opcode::ReadBox);
        let reads = matches!(command, Command::Read { .. });
        let queued = self.device.enqueue(stream, tag(header), command);
        if !reads {
            self.outbox.mirrors().worked();
        }
        match queued {
            Err(error) => self.outbox.fail(header, &error),
            Ok(()) if header.is_posted() || answers => {}
            Ok(()) => self.device.synchronize(Scope::Stream(stream), self.completion::<O>(header)),
        }
    }

    fn completion<O: Operation>(&self, header: &Header) -> Completion {
        let (outbox, header, watches) = (Arc::clone(&self.outbox), *header, Arc::clone(&self.watches));
        Box::new(move |result| {
            watches.sweep();
            if result.is_ok() {
                outbox.tell_changes();
            }
            outbox.finish::<O>(&header, result.map(|()| Default::default()));
        })
    }

    /// Whether work has ended. If it has, sends the client the memory it changed before the reply reports completion.
    fn is_done(&self, scope: Scope) -> Result<bool, DeviceError> {
        let done = self.device.query(scope)?;
        if done {
            self.outbox.tell_changes();
        }
        Ok(done)
    }

    /// Registers newly mapped memory as mirrored on the client. Unmaps it if that fails.
    fn mirror(&self, owner: Option<u32>, address: u64, bytes: u64) -> Result<(), DeviceError> {
        let shared = self.outbox.mirrors().insert(&*self.device, owner, address, bytes);
        shared.inspect_err(|_| {
            let _ = self.device.unmap(address);
        })
    }

    /// Returns a sink that replies with the bytes of a read. `source` is their address if they are contiguous: mirrors then take
    /// note of what the client has seen.
    fn reply_sink(&self, header: &Header, source: Option<u64>) -> ReadSink {
        let (outbox, header, watches) = (Arc::clone(&self.outbox), *header, Arc::clone(&self.watches));
        Box::new(move |result| {
            watches.sweep();
            match result {
                Ok(bytes) => {
                    if let Some(source) = source {
                        outbox.mirrors().read(source, bytes);
                    }
                    outbox.tell_changes();
                    outbox.reply_body(&header, source, bytes);
                }
                Err(error) => outbox.fail(&header, &error),
            }
        })
    }

    /// Compiles on a separate thread, so that no other call is blocked.
    fn compile(&self, header: &Header, payload: &[u8]) {
        let request = match decode::<wire::Compile>(payload) {
            Ok((request, _)) => request,
            Err(error) => return self.outbox.fail(header, &error),
        };
        self.on_compiler::<wire::Compile>(header, Task::Compile(request), |result| result);
    }

    /// Links on a separate thread, like [`Self::compile`].
    fn link(&self, header: &Header, payload: &[u8]) {
        let request = match decode::<wire::Link>(payload) {
            Ok((request, _)) => request,
            Err(error) => return self.outbox.fail(header, &error),
        };
        self.on_compiler::<wire::Link>(header, Task::Link(request), |result| wire::reply::Link {
            status: result.status,
            log: result.log,
            code: result.code,
        });
    }

    /// Sends a task to the session's compiler service and replies with the result. Refuses the task if too many are pending.
    fn on_compiler<O: Operation>(
        &self,
        header: &Header,
        task: Task,
        reply: impl FnOnce(wire::reply::Compile) -> O::Reply + Send + 'static,
    ) {
        if self.compilations.fetch_add(1, Ordering::Relaxed) >= MAX_COMPILATIONS {
            self.compilations.fetch_sub(1, Ordering::Relaxed);
            let text = format!("{MAX_COMPILATIONS} compilations are already running or waiting");
            return self.outbox.fail(header, &DeviceError::new(hipErrorOutOfMemory, text));
        }
        let charge = match self.count_host(COMPILER_BYTES) {
            Ok(charge) => charge,
            Err(error) => {
                self.compilations.fetch_sub(1, Ordering::Relaxed);
                return self.outbox.fail(header, &error);
            }
        };
        let (outbox, compiler, compilations) =
            (Arc::clone(&self.outbox), Arc::clone(&self.compiler), Arc::clone(&self.compilations));
        let header_ = *header;
        let started = std::thread::Builder::new().name("compile".to_owned()).spawn(move || {
            let reply = reply(compiler.perform(&task));
            drop(charge);
            compilations.fetch_sub(1, Ordering::Relaxed);
            outbox.finish::<O>(&header_, Ok(reply));
        });
        if let Err(error) = started {
            self.compilations.fetch_sub(1, Ordering::Relaxed);
            self.outbox.fail(header, &DeviceError::new(hipErrorOutOfMemory, error.to_string()));
        }
    }
}

/// Forwards events from the device's threads to the client. Holds the outbox weakly, because the outbox holds the device.
struct Voice {
    outbox: Weak<Outbox>,
    watches: Weak<Watches>,
}

impl Notifier for Voice {
    fn failed(&self, tag: Tag, error: &DeviceError) {
        tracing::debug!(request = tag as u32, "command failed: {error}");
        if let Some(outbox) = self.outbox.upgrade() {
            outbox.late_error(tag as u32, (tag >> 32) as u16, error);
        }
    }

    fn host_function(&self, token: u64, status: Result<(), DeviceError>) {
        if let Some(watches) = self.watches.upgrade() {
            watches.sweep();
        }
        let status = status.err().map_or(0, |error| error.code.0 as i32);
        if let Some(outbox) = self.outbox.upgrade() {
            // The host function may read memory that earlier work changed.
            outbox.tell_changes();
            outbox.push(&wire::Callback { token, status }, &[]);
        }
    }

    fn spent(&self, span: &Span) {
        let Some(outbox) = self.outbox.upgrade() else { return };
        if outbox.spans().add(span) {
            outbox.spans().tell(&outbox);
        }
    }

    fn span_lost(&self) {
        if let Some(outbox) = self.outbox.upgrade() {
            outbox.spans().lose();
        }
    }

    fn output(&self, text: &[u8]) {
        self.print(libc::STDOUT_FILENO as u32, text);
    }

    fn error_output(&self, text: &[u8]) {
        self.print(libc::STDERR_FILENO as u32, text);
    }
}

impl Voice {
    fn print(&self, fd: u32, text: &[u8]) {
        let Some(outbox) = self.outbox.upgrade() else { return };
        for piece in text.chunks(MAX_DELIVER_PIECE as usize) {
            outbox.push(&wire::Output { fd }, piece);
        }
    }
}

fn now<O: Operation>(
    outbox: &Outbox,
    watches: &Watches,
    header: &Header,
    payload: &[u8],
    act: impl FnOnce(O, &[u8]) -> Result<O::Reply, DeviceError>,
) {
    let result = decode::<O>(payload).and_then(|(fields, body)| act(fields, body));
    if !header.is_posted() {
        watches.sweep();
    }
    outbox.finish::<O>(header, result);
}

/// Command for a read that is answered in one reply; fails if that would be too large.
fn read(from: Region, sink: ReadSink) -> Result<Command, DeviceError> {
    if from.bytes().is_none_or(|bytes| bytes > MAX_BODY_BYTES) {
        return Err(DeviceError::invalid_value(format!("a read of {:?} is too large", from.extent)));
    }
    Ok(Command::Read { from, sink })
}

/// Sends a snapshot in pieces. An empty one is sent as one empty piece.
pub(crate) fn deliver(outbox: &Outbox, token: u64, bytes: &[u8]) {
    let mut offset = 0;
    loop {
        let piece = &bytes[offset..bytes.len().min(offset + MAX_DELIVER_PIECE as usize)];
        outbox.push(&wire::Deliver { token, offset: offset as u64 }, piece);
        offset += piece.len();
        if offset >= bytes.len() {
            return;
        }
    }
}

/// Tag for late errors: the request and the HIP function that caused it.
pub(crate) fn tag(header: &Header) -> Tag {
    u64::from(header.request_id) | u64::from(header.function) << 32
}

pub(crate) fn decode<O: Operation>(payload: &[u8]) -> Result<(O, &[u8]), DeviceError> {
    decode_request::<O>(payload).map_err(|error| DeviceError::invalid_value(error.to_string()))
}

pub(crate) fn malformed(operation: &str) -> DeviceError {
    DeviceError::invalid_value(format!("{operation} is malformed"))
}
