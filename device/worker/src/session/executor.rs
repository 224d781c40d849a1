//! The executor: the process of one session. Opens the device, serves the client's connections one after another, and exits.
//!
//! The main thread reads requests. A control thread receives orders from the supervisor, a housekeeping thread sends
//! acknowledgements and measures load. Whatever ends the session ends the process, and the kernel frees all its resources.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use backend::{Arena, Device, DeviceError};
use limits::{HostMemory, Seat};
use parking_lot::{Condvar, Mutex};
use transport::{Link, greet};
use wire::{
    Arrival, Header, Hello, MAX_LINKS, Opcode, ReceiveCounter, RejectCode, Welcome, WireError, capability,
    decode_request,
};

use crate::compile::client::CompileClient;
use crate::config::{BackendConfig, SessionConfig};
use crate::confine::{PreopenedResources, confine};
use crate::control::{CONTROL_FD, Control, ToSession, ToSupervisor};
use crate::error::WorkerError;
use crate::error::one_line;
use crate::growth::Growth;
use crate::outgoing::Outgoing;
use crate::request::exchange::Exchange;
use crate::request::inbox::{Activity, Broken, Inbox};
use crate::request::{Dispatcher, Next, Receipt};
use crate::seat::occupy_seat;
use crate::session::chunks::ChunkReader;
use crate::session::migrate_in::Arriving;
use crate::session::migrate_out::{Departure, Leaving, Stay};
use crate::status::SessionReport;
use crate::store::Store;

/// Period of the housekeeping thread.
const TICK: Duration = Duration::from_millis(50);
/// Ticks between two load measurements.
const LOAD_TICKS: u32 = 20;
/// Ticks between two heartbeats while the worker is busy with one frame.
const BEAT_TICKS: u32 = 3;
/// Timeout for the last log line when a session ends: a log pipe that nobody reads must not block the exit.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// Timeout for writing pending uploads to the store when a session ends.
const LAST_UPLOADS: Duration = Duration::from_secs(10);
/// Read timeout between two chunks of a migrating session, and how long a refused one is drained.
const CHUNK_PATIENCE: Duration = Duration::from_secs(60);
const LAST_CHUNKS: Duration = Duration::from_secs(10);
/// How long a program that must run before its session can migrate gets between two attempts.
const PROGRAMS_TURN: Duration = Duration::from_millis(100);
/// Time limit for the queued work of a client that has said goodbye.
const FAREWELL: Duration = Duration::from_secs(30);

/// Serves one session over the control socket inherited as file descriptor 3. Returns only if the session cannot start.
pub fn execute() -> Result<(), WorkerError> {
    // SAFETY: the supervisor starts this process with its end of the control socket as this descriptor; nothing else in the
    // process uses it.
    let control = unsafe { Control::from_raw(CONTROL_FD) };
    let failed = |source| WorkerError::Io { what: "the control socket failed", source };
    control.close_on_exec().map_err(failed)?;
    // Caches the value before confinement, after which the process cannot read it from the system.
    limits::machine_memory();
    let mut first = control.receive().map_err(failed)?;
    let mut seat = None;
    let growth = Arc::new(Growth::default());
    if let Some((ToSession::Sit { limits, seat: place }, page)) = first {
        seat = Some(occupy_seat(&limits, page, place, &growth)?);
        first = control.receive().map_err(failed)?;
    }
    match first {
        Some((ToSession::Start { config, session_id, secret, worker, has_compiler }, _)) => {
            let host = HostMemory::new(seat.clone());
            let identity =
                Identity { session_id, secret, worker, has_compiler, shares_memory: false, host, growth };
            begin(control, &config, identity, seat)
        }
        Some((ToSession::Resume { config, worker, has_compiler }, Some(fd))) => {
            resume(control, &config, (worker, has_compiler), &Link::from_fd(fd), seat, growth)
        }
        _ => Err(WorkerError::Control("the first order must be Start or Resume".to_owned())),
    }
}

/// Serves a new session.
fn begin(
    control: Control,
    config: &SessionConfig,
    identity: Identity,
    seat: Option<Seat>,
) -> Result<(), WorkerError> {
    let failed = |source| WorkerError::Io { what: "the control socket failed", source };
    let Some((ToSession::Attach { hello, version }, Some(fd))) = control.receive().map_err(failed)? else {
        return Err(WorkerError::Control("the second order must be Attach with a connection".to_owned()));
    };
    let link = Link::from_fd(fd);
    let refuse = |text: String| {
        tracing::error!("session {}: {text}", wire::SessionId(identity.session_id));
        let _ = greet::send(&link, &RejectCode::Failed.reject(text));
    };
    let resources = confine(config).inspect_err(|error| refuse(one_line(error)))?;
    let hello = decode_hello(&hello)?;
    let offered = Arena { base: hello.arena_base, bytes: hello.arena_bytes };
    let shares_memory = seat.as_ref().is_some_and(Seat::shares_memory);
    let device = match open_device(config, Some(offered), seat, &resources) {
        Ok(device) => device,
        Err(error) => {
            refuse(error.to_string());
            return Err(WorkerError::Device(error));
        }
    };
    let identity = Identity { shares_memory, ..identity };
    let (shared, dispatcher) = equip(Arc::new(control), config, identity, device, &resources, false);
    shared.pending.lock().attachment = Some(Attachment { link, hello, version });
    shared.serve(config, dispatcher, ReceiveCounter::new(), Duration::ZERO)
}

/// Continues a session that arrives over a link, once all of its state is restored.
fn resume(
    control: Control,
    config: &SessionConfig,
    (worker, has_compiler): (String, bool),
    link: &Link,
    seat: Option<Seat>,
    growth: Arc<Growth>,
) -> Result<(), WorkerError> {
    let refuse = |text: String| {
        tracing::warn!("session not resumed: {text}");
        let _ = greet::send(link, &RejectCode::Failed.reject(text.clone()));
        // Drains what the sender is still writing: closing with unread bytes resets the connection, and the reason could be lost.
        let _ = link.set_read_timeout(Some(LAST_CHUNKS));
        let deadline = Instant::now() + LAST_CHUNKS;
        let mut rest = vec![0; 64 << 10];
        while Instant::now() < deadline && matches!(link.read(&mut rest), Ok(1..)) {}
        Err(WorkerError::Control(text))
    };
    let resources = match confine(config) {
        Ok(resources) => resources,
        Err(error) => return refuse(one_line(&error)),
    };
    let _ = link.set_read_timeout(Some(CHUNK_PATIENCE));
    let arriving = match Arriving::begin(ChunkReader::new(link)) {
        Ok(arriving) => arriving,
        Err(error) => return refuse(one_line(&error)),
    };
    let shares_memory = seat.as_ref().is_some_and(Seat::shares_memory);
    let host = HostMemory::new(seat.clone());
    let device = match open_device(config, Some(arriving.manifest.arena()), seat, &resources) {
        Ok(device) => device,
        Err(error) => return refuse(error.to_string()),
    };
    if let Err(error) = arriving.fits(&*device) {
        return refuse(one_line(&error));
    }
    let (session_id, secret) = (arriving.manifest.session_id, arriving.manifest.secret);
    let control = Arc::new(control);
    let identity = Identity { session_id, secret, worker, has_compiler, shares_memory, host, growth };
    let (shared, mut dispatcher) = equip(Arc::clone(&control), config, identity, device, &resources, true);
    let manifest = match arriving.settle(&mut dispatcher) {
        Ok(manifest) => manifest,
        Err(error) => return refuse(one_line(&error)),
    };
    *shared.client.lock() = (manifest.client.clone(), manifest.pid);
    shared.requests.store(manifest.received, Ordering::Relaxed);
    let arrived =
        ToSupervisor::Arrived { session_id, secret, client: manifest.client.clone(), pid: manifest.pid };
    let failed = |source| WorkerError::Io { what: "the control socket failed", source };
    control.send(&arrived, None).map_err(failed)?;
    match shared.verdicts.1.lock().recv() {
        Ok(Ok(())) => {}
        Ok(Err(text)) => return refuse(text),
        Err(_) => return refuse("the worker is shutting down".to_owned()),
    }
    let _ = greet::send(link, &wire::Done { session: session_id });
    shared.serve(config, dispatcher, ReceiveCounter::resumed(manifest.received), config.grace_lost)
}

/// Identity of a session and the resources its process was started with.
struct Identity {
    session_id: u64,
    secret: [u8; 32],
    worker: String,
    has_compiler: bool,
    shares_memory: bool,
    host: Arc<HostMemory>,
    growth: Arc<Growth>,
}

/// Builds the state shared by the session's threads and starts all threads except the reader, which is the calling thread.
fn equip(
    control: Arc<Control>,
    config: &SessionConfig,
    identity: Identity,
    device: Arc<dyn Device>,
    resources: &PreopenedResources,
    resumed: bool,
) -> (Arc<Shared>, Dispatcher) {
    let Identity { session_id, secret, worker, has_compiler, shares_memory, host, growth } = identity;
    growth.over(&control);
    let compiler = Arc::new(CompileClient::new(Arc::clone(&control)));
    let store = resources.uploads.as_ref().and_then(|uploads| {
        let opened = Store::open(uploads);
        opened.inspect_err(|error| tracing::warn!("upload cache disabled: {error}")).ok()
    });
    let observed = matches!(&config.backend, BackendConfig::Emulator { observe: Some(_), .. });
    let exchange = Arc::new(Exchange::new(Some(Arc::clone(&control))));
    let (sender, receiver) = mpsc::channel();
    let shared = Arc::new(Shared {
        exchange,
        store,
        shares_memory,
        owner: resources.owner,
        limits_host: config.limits_host_memory(),
        growth,
        is_reachable: device.capabilities().direct_writes && !observed,
        outgoing: Arc::new(Outgoing::new(Arc::clone(&device))),
        device,
        session_id,
        secret,
        worker,
        has_compiler,
        compiler: Arc::clone(&compiler),
        grace_lost: config.grace_lost,
        grace_closed: config.grace_closed,
        reading: Mutex::default(),
        activity: Arc::default(),
        wants_beats: AtomicBool::new(false),
        pending: Mutex::default(),
        control: Arc::clone(&control),
        resumed,
        client: Mutex::default(),
        is_reached_into: AtomicBool::new(false),
        departing: AtomicBool::new(false),
        verdicts: (Mutex::new(sender), Mutex::new(receiver)),
        strands: Mutex::default(),
        arrived: Condvar::new(),
        ending: AtomicBool::new(false),
        loads: Mutex::new(Vec::new()),
        requests: AtomicU64::new(0),
        round_trips: AtomicU64::new(0),
        bytes_received: AtomicU64::new(0),
    });
    let ender = Arc::clone(&shared);
    let farewell = Arc::new(move || ender.end("the client said goodbye"));
    let mut dispatcher = Dispatcher::new(
        Arc::clone(&shared.device),
        Arc::clone(&shared.outgoing),
        compiler,
        shared.store.clone(),
        Arc::clone(&shared.exchange),
        farewell,
    );
    dispatcher.count_against(host);
    spawn("control", &shared, move |shared| shared.obey(&control));
    spawn("housekeeper", &shared, |shared| shared.keep_house());
    (shared, dispatcher)
}

/// Opens the devices of a session.
pub(crate) fn open_device(
    config: &SessionConfig,
    arena: Option<Arena>,
    seat: Option<Seat>,
    resources: &PreopenedResources,
) -> Result<Arc<dyn Device>, DeviceError> {
    Ok(match &config.backend {
        BackendConfig::Emulator { devices, observe } => {
            let devices = devices
                .iter()
                .map(|device| backend_emulator::DeviceConfig {
                    model: device.model.clone(),
                    memory: device.memory,
                })
                .collect();
            let options = backend_emulator::Options {
                devices,
                arena,
                watchdog: config.watchdog,
                observe: observe.clone(),
                observe_files: resources.observe_files.clone(),
                seat,
                host: resources.host.clone(),
            };
            Arc::new(backend_emulator::Emulator::open(&options)?)
        }
        BackendConfig::Hip { library } => Arc::new(backend_hip::Hip::open(library.as_deref(), arena, seat)?),
    })
}

/// A client connection of this session.
struct Attachment {
    link: Link,
    hello: Hello,
    version: u16,
}

/// Next work for the main thread. A departure takes precedence over a connection.
#[derive(Default)]
struct PendingWork {
    attachment: Option<Attachment>,
    departure: Option<Departure>,
}

enum MainWork {
    Attachment(Attachment),
    Departure(Departure),
}

impl PendingWork {
    fn take(&mut self) -> Option<MainWork> {
        let departure = self.departure.take().map(MainWork::Departure);
        departure.or_else(|| self.attachment.take().map(MainWork::Attachment))
    }
}

type Verdict = Result<(), String>;

struct Shared {
    exchange: Arc<Exchange>,
    store: Option<Arc<Store>>,
    /// Whether sessions share a memory limit, so that another one may take memory this one has not allocated yet.
    shares_memory: bool,
    /// User id that the worker runs as.
    owner: u32,
    /// Whether an operator limit may refuse host memory that the machine has.
    limits_host: bool,
    growth: Arc<Growth>,
    /// Whether device memory is memory of this process and may be written directly by the client (no observer has to see the
    /// writes).
    is_reachable: bool,
    device: Arc<dyn Device>,
    outgoing: Arc<Outgoing>,
    session_id: u64,
    secret: [u8; 32],
    worker: String,
    has_compiler: bool,
    compiler: Arc<CompileClient>,
    grace_lost: Duration,
    grace_closed: Duration,
    pending: Mutex<PendingWork>,
    /// The connection that requests are read from.
    reading: Mutex<Option<Link>>,
    /// Activity of the main thread on that connection.
    activity: Arc<Activity>,
    /// Whether the client counts heartbeats as signs of life.
    wants_beats: AtomicBool,
    control: Arc<Control>,
    /// Whether the session began in another process and was resumed here.
    resumed: bool,
    /// Program name and process id, from the client's latest Hello.
    client: Mutex<(String, u32)>,
    /// Whether the client was told that it may access device memory directly.
    is_reached_into: AtomicBool,
    departing: AtomicBool,
    /// The supervisor's decision whether to accept a resumed session.
    verdicts: (Mutex<mpsc::Sender<Verdict>>, Mutex<mpsc::Receiver<Verdict>>),
    /// Links that have joined the connection and are not used yet, by index.
    strands: Mutex<BTreeMap<u16, Link>>,
    arrived: Condvar,
    ending: AtomicBool,
    loads: Mutex<Vec<f32>>,
    requests: AtomicU64,
    round_trips: AtomicU64,
    bytes_received: AtomicU64,
}

impl Shared {
    /// The main thread: serves one connection after another until the session ends.
    fn serve(
        self: &Arc<Shared>,
        config: &SessionConfig,
        mut dispatcher: Dispatcher,
        mut counter: ReceiveCounter,
        mut grace: Duration,
    ) -> ! {
        loop {
            let attachment = match self.wait_for_work(grace) {
                Some(MainWork::Attachment(attachment)) => attachment,
                Some(MainWork::Departure(departure)) => {
                    self.depart(departure, &dispatcher, counter.received());
                    // This side closed the connection, so the client has the grace period of a lost one.
                    grace = config.grace_lost;
                    continue;
                }
                None => self.end("its client did not reconnect in time"),
            };
            let link = attachment.link.clone();
            let welcome = self.welcome(&attachment, counter.received());
            if let Err(error) = self.outgoing.outbox.attach(link.clone(), &welcome, attachment.hello.received)
            {
                tracing::warn!("session {}: cannot resume the connection: {error}", self.session_id);
                let _ = greet::send(&link, &RejectCode::UnknownSession.reject(error.to_string()));
                self.end("the frame count of its client does not match");
            }
            counter.told_by_handshake();
            let Hello { client, pid, capabilities, .. } = attachment.hello;
            self.wants_beats.store(capabilities & capability::HEARTBEAT != 0, Ordering::Relaxed);
            *self.client.lock() = (client, pid);
            if self.pending.lock().departure.is_some() {
                self.outgoing.outbox.detach();
                continue;
            }
            *self.reading.lock() = Some(link.clone());
            let broken = self.read(Inbox::new(link).noting(&self.activity), &mut dispatcher, &mut counter);
            *self.reading.lock() = None;
            self.outgoing.outbox.detach();
            if self.ending.load(Ordering::Relaxed) {
                self.end("the client disconnected after its goodbye");
            }
            match &broken {
                Broken::Protocol(error) => {
                    tracing::warn!("session {}: connection closed: {error}", self.session_id);
                }
                other => tracing::debug!("session {}: {other}", self.session_id),
            }
            grace = if broken.is_closed() { config.grace_closed } else { config.grace_lost };
        }
    }

    /// Handles the requests of one connection until it breaks.
    fn read(&self, mut inbox: Inbox, dispatcher: &mut Dispatcher, counter: &mut ReceiveCounter) -> Broken {
        loop {
            let step = self.read_one(&mut inbox, dispatcher, counter);
            match step {
                Ok(Next::GoOn) => {}
                Ok(Next::End) => {
                    self.ending.store(true, Ordering::Relaxed);
                    let outgoing = Arc::clone(&self.outgoing);
                    // A watchdog: work that never ends must not keep the process alive after its client has left.
                    let _ = std::thread::Builder::new().spawn(move || {
                        std::thread::sleep(FAREWELL);
                        end(&outgoing, "its queued work did not finish in time after the goodbye");
                    });
                }
                Err(broken) => return broken,
            }
        }
    }

    fn read_one(
        &self,
        inbox: &mut Inbox,
        dispatcher: &mut Dispatcher,
        counter: &mut ReceiveCounter,
    ) -> Result<Next, Broken> {
        let header = inbox.header()?;
        match counter.arrive_request(&header)? {
            Arrival::Duplicate => {
                inbox.skip(header.payload_len)?;
                Ok(Next::GoOn)
            }
            Arrival::Unsequenced => {
                let payload = inbox.read_vec(header.payload_len)?;
                match header.known() {
                    Ok(Opcode::Spread) => self.spread(inbox, &payload)?,
                    _ => self.unsequenced(&header, &payload)?,
                }
                Ok(Next::GoOn)
            }
            Arrival::Next(number) => {
                let receipt = Receipt { counter: &mut *counter, outbox: &self.outgoing.outbox };
                let next = dispatcher.request(number, &header, inbox, receipt)?;
                // Single writer, so a plain load and store suffice; other threads only read.
                let count = |counter: &AtomicU64, more: u64| {
                    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
                };
                count(&self.requests, 1);
                count(&self.round_trips, u64::from(!header.is_posted()));
                count(&self.bytes_received, Header::BYTES as u64 + header.payload_len);
                if counter.ack_due() && counter.take_ack().is_some() {
                    self.outgoing.outbox.acknowledge();
                }
                Ok(next)
            }
        }
    }

    fn unsequenced(&self, header: &Header, payload: &[u8]) -> Result<(), Broken> {
        match header.known() {
            Ok(Opcode::Ack) => {
                let (ack, _) = decode_request::<wire::Ack>(payload)?;
                self.outgoing.outbox.acknowledged(ack.received)?;
            }
            Ok(Opcode::Ping) => self.outgoing.outbox.pong(),
            Ok(Opcode::Pong) => {}
            _ => tracing::warn!(
                "session {}: ignored unexpected {}",
                self.session_id,
                wire::name(header.opcode)
            ),
        }
        Ok(())
    }

    /// Handles Spread: from here on both directions of the connection use several links.
    fn spread(&self, inbox: &mut Inbox, payload: &[u8]) -> Result<(), Broken> {
        let (wire::Spread { links }, _) = decode_request(payload)?;
        let mut joined = self.strands.lock();
        let strands: Vec<Link> = (1..links.min(MAX_LINKS)).map_while(|place| joined.remove(&place)).collect();
        drop(joined);
        if strands.is_empty() || strands.len() + 1 != usize::from(links) {
            let (what, value) = ("the number of links to spread over", links.into());
            return Err(WireError::Value { what, value }.into());
        }
        inbox.spread(strands.clone())?;
        self.outgoing.outbox.spread(strands);
        Ok(())
    }

    fn welcome(&self, attachment: &Attachment, received: u64) -> Welcome {
        let mut capabilities =
            capability::PACKED | capability::STRANDS | capability::SPANS | capability::HEARTBEAT;
        if self.device.capabilities().placed_modules {
            capabilities |= capability::PLACED_MODULES;
        }
        if self.shares_memory {
            capabilities |= capability::SHARED_MEMORY;
        }
        if self.limits_host {
            capabilities |= capability::HOST_LIMIT;
        }
        if self.has_compiler {
            capabilities |= capability::COMPILE;
        }
        if self.resumed {
            capabilities |= capability::RESUMED;
        }
        let mut known = Vec::new();
        if let Some(store) = &self.store {
            capabilities |= capability::UPLOADS;
            // Only for new sessions: a client that reconnects has this list already, plus what it uploaded since.
            if attachment.hello.session_id == 0 && attachment.hello.capabilities & capability::UPLOADS != 0 {
                known.extend_from_slice(store.told());
            }
        }
        let arena = self.device.arena();
        let devices = self.device.info().iter().zip(0..).map(|(info, ordinal)| wire::DeviceSnapshot {
            ordinal,
            isa: info.isa.clone(),
            properties: wire::Bytes(info.properties_bytes().to_vec()),
            attributes: info.attributes.clone(),
            limits: info.limits.clone(),
            total_memory: info.total_memory,
            quota: info.quota,
            least_priority: info.least_priority,
            greatest_priority: info.greatest_priority,
            driver_version: info.driver_version,
            runtime_version: info.runtime_version,
        });
        Welcome {
            version: attachment.version,
            capabilities,
            session_id: self.session_id,
            session_secret: self.secret,
            received,
            arena_base: arena.base,
            arena_bytes: arena.bytes,
            grace_ms: u32::try_from(self.grace_lost.as_millis()).unwrap_or(u32::MAX),
            worker: self.worker.clone(),
            devices: devices.collect(),
            known: wire::Bytes(known),
            neighbour: self.neighbour(attachment),
        }
    }

    /// Process id of this executor if the client runs as the same user on this machine, otherwise 0. Uses the kernel's peer
    /// credentials. Such a client may copy between its memory and device memory itself (process_vm_readv and process_vm_writev).
    fn neighbour(&self, attachment: &Attachment) -> u32 {
        match attachment.link.unix_peer() {
            // Clients use it only when a session starts.
            Some(peer)
                if self.is_reachable
                    && attachment.hello.session_id == 0
                    && peer.uid == self.owner
                    && peer.pid == attachment.hello.pid =>
            {
                // Yama may restrict ptrace access to ancestors: this grants it to the client. Without Yama the call fails, which
                // is harmless.
                // SAFETY: passes integers and touches no memory.
                unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::c_ulong::from(peer.pid)) };
                // SAFETY: returns a number and cannot fail.
                if unsafe { libc::geteuid() } == self.owner {
                    // The client's user has all rights to this process already, and confined processes are blocked by their own
                    // filters. An executor that runs as a dedicated user stays non-dumpable: root has the privilege to access it
                    // anyway, or copies over the socket.
                    // SAFETY: passes integers and touches no memory.
                    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
                }
                self.is_reached_into.store(true, Ordering::Relaxed);
                std::process::id()
            }
            _ => 0,
        }
    }

    /// Ends the session after its pending uploads are written.
    fn end(&self, why: &'static str) -> ! {
        if let Some(store) = &self.store {
            store.settle(LAST_UPLOADS);
        }
        end(&self.outgoing, why)
    }

    /// Waits up to `grace` for a connection or a departure.
    fn wait_for_work(&self, grace: Duration) -> Option<MainWork> {
        let deadline = Instant::now() + grace;
        let mut pending = self.pending.lock();
        loop {
            let work = pending.take();
            if work.is_some() || self.arrived.wait_until(&mut pending, deadline).timed_out() {
                return work.or_else(|| pending.take());
            }
        }
    }

    /// Migrates the session. Returns if it stays.
    fn depart(self: &Arc<Shared>, departure: Departure, dispatcher: &Dispatcher, received: u64) {
        let (client, pid) = self.client.lock().clone();
        let leaving = Leaving {
            device: &*self.device,
            dispatcher,
            exchange: &self.exchange,
            session_id: self.session_id,
            secret: self.secret,
            client: &client,
            pid,
            worker: &self.worker,
            received,
            is_reached_into: self.is_reached_into.load(Ordering::Relaxed),
        };
        match leaving.leave(&departure) {
            Ok(endpoint) => {
                // Order matters: once the receiver sees Done, the worker must already know where the session is.
                let _ = self.control.send(&ToSupervisor::Left { endpoint }, None);
                let _ = greet::send(&departure.link, &wire::Done { session: self.session_id });
                self.end("it was migrated or suspended");
            }
            Err(Stay::WaitsForProgram) if Instant::now() + PROGRAMS_TURN < departure.deadline => {
                self.departing.store(false, Ordering::SeqCst);
                let shared = Arc::clone(self);
                // If no thread can be started, the link closes, which tells the requester of the failure.
                let _ = std::thread::Builder::new().spawn(move || {
                    std::thread::sleep(PROGRAMS_TURN);
                    shared.ask_to_depart(departure);
                });
            }
            Err(Stay::Decided) => {
                self.departing.store(false, Ordering::SeqCst);
                let _ = greet::send(&departure.link, &wire::Done { session: self.session_id });
            }
            Err(stay) => {
                let text = one_line(&stay);
                tracing::info!("session {} was not migrated: {text}", wire::SessionId(self.session_id));
                self.departing.store(false, Ordering::SeqCst);
                let _ = greet::send(&departure.link, &RejectCode::Failed.reject(text));
            }
        }
    }

    /// Makes the main thread stop between two requests and migrate the session.
    fn ask_to_depart(self: &Arc<Shared>, departure: Departure) {
        if self.ending.load(Ordering::Relaxed) || self.departing.swap(true, Ordering::SeqCst) {
            let text = "the session is ending, or is already being migrated or suspended";
            let _ = greet::send(&departure.link, &RejectCode::Failed.reject(text));
            return;
        }
        let patience = departure.deadline.saturating_duration_since(Instant::now());
        let shared = Arc::clone(self);
        // Enforces the deadline from a separate thread: the main thread may itself be blocked by work that does not end.
        let _ = std::thread::Builder::new().spawn(move || {
            std::thread::sleep(patience + PROGRAMS_TURN);
            let mut pending = shared.pending.lock();
            let late = pending.departure.take_if(|it| it.deadline <= Instant::now());
            drop(pending);
            if let Some(departure) = late {
                shared.departing.store(false, Ordering::SeqCst);
                let text = Stay::TooLong(": the queue is full").to_string();
                let _ = greet::send(&departure.link, &RejectCode::Failed.reject(text));
            }
        });
        self.pending.lock().departure = Some(departure);
        // Order matters: a connection that starts after this point finds the departure and detaches itself.
        self.outgoing.outbox.detach();
        self.arrived.notify_all();
    }

    /// The control thread. Ends the session when the supervisor exits.
    fn obey(self: &Arc<Shared>, control: &Control) {
        loop {
            match control.receive::<ToSession>() {
                Ok(Some((ToSession::Attach { hello, version }, Some(fd)))) => self.adopt(&hello, version, fd),
                Ok(Some((ToSession::Join { place }, Some(fd)))) => self.join(place, fd),
                Ok(Some((ToSession::Depart { patience_ms }, Some(fd)))) => {
                    let deadline = Instant::now() + Duration::from_millis(patience_ms.into());
                    self.ask_to_depart(Departure { link: Link::from_fd(fd), deadline });
                }
                Ok(Some((ToSession::Grown { ticket, granted }, _))) => self.growth.hear(ticket, granted),
                Ok(Some((ToSession::Adopted, _))) => {
                    let _ = self.verdicts.0.lock().send(Ok(()));
                }
                Ok(Some((ToSession::Refused { ticket: 0, text }, _))) => {
                    let _ = self.verdicts.0.lock().send(Err(text));
                }
                Ok(Some((ToSession::Report { ticket }, _))) => {
                    let _ = control.send(&ToSupervisor::Report { ticket, report: self.report() }, None);
                }
                Ok(Some((ToSession::Compiler { refused }, socket))) => self.compiler.hear(refused, socket),
                Ok(Some((order, attached))) => {
                    if let Some(order) = self.exchange.hear(order, attached) {
                        tracing::warn!("ignored unexpected order: {order:?}");
                    }
                }
                Ok(None) | Err(_) => end(&self.outgoing, "the supervisor exited"),
            }
        }
    }

    /// Hands a new connection to the main thread. Closing the old connection wakes it.
    fn adopt(&self, hello: &[u8], version: u16, fd: OwnedFd) {
        let Ok(hello) = decode_hello(hello) else { return };
        let link = Link::from_fd(fd);
        if self.departing.load(Ordering::SeqCst) {
            // Reattaching may have to wait long; this reject code keeps the client from treating the wait as a broken connection.
            let _ =
                greet::send(&link, &RejectCode::Away.reject("the session is being migrated or suspended"));
            return;
        }
        let attachment = Attachment { link, hello, version };
        // First, so that the old connection is the one that closes.
        self.outgoing.outbox.detach();
        self.strands.lock().clear();
        self.pending.lock().attachment = Some(attachment);
        self.arrived.notify_all();
    }

    /// Keeps a link until the client sends Spread.
    fn join(&self, place: u16, fd: OwnedFd) {
        let link = Link::from_fd(fd);
        // Before the reply: the client may use the link as soon as it receives that.
        self.strands.lock().insert(place, link.clone());
        if greet::send(&link, &wire::Joined {}).is_err() {
            self.strands.lock().remove(&place);
        }
    }

    fn report(&self) -> SessionReport {
        let devices = 0..self.device.info().len() as u32;
        SessionReport {
            memory_used: devices.map(|at| self.device.memory(at).map_or(0, |memory| memory.used)).collect(),
            load_percent: self.loads.lock().clone(),
            connected: self.outgoing.outbox.is_connected(),
            requests: self.requests.load(Ordering::Relaxed),
            round_trips: self.round_trips.load(Ordering::Relaxed),
            bytes_received: self.bytes_received.load(Ordering::Relaxed),
            bytes_sent: self.outgoing.outbox.sent(),
        }
    }

    /// Whether the client closed its end while its requests are still being read, and no other connection has arrived since.
    fn is_alone(&self) -> bool {
        let ended = self.reading.lock().as_ref().is_some_and(Link::has_ended);
        let pending = self.pending.lock();
        ended
            && pending.attachment.is_none()
            && pending.departure.is_none()
            && !self.ending.load(Ordering::Relaxed)
    }

    /// Sends a heartbeat while a frame takes long to receive or handle: a large body over a slow network, or work that waits for
    /// room in a queue. The client's Pings are stuck behind that frame, and the client would take the silence for a dead link.
    fn beat(&self, before: &mut Beaten) {
        let requests = self.outgoing.outbox.received();
        let same_frame = std::mem::replace(&mut before.requests, requests) == requests;
        if self.activity.is_busy(&mut before.bytes)
            && same_frame
            && self.wants_beats.load(Ordering::Relaxed)
            && self.reading.lock().is_some()
        {
            self.outgoing.outbox.pong();
        }
    }

    /// The housekeeping thread: acknowledges requests when no reply has done so, and measures device load.
    fn keep_house(&self) {
        let devices = self.device.info().len() as u32;
        let mut before: Vec<u64> = vec![0; devices as usize];
        let mut measured = Instant::now();
        let mut seen = 0;
        let mut alone = None;
        let mut beaten = Beaten::default();
        for tick in 0u32.. {
            std::thread::sleep(TICK);
            // Before anything that may block on the socket.
            self.outgoing.outbox.send_due_pong();
            if tick % BEAT_TICKS == 0 {
                self.beat(&mut beaten);
            }
            let received = self.outgoing.outbox.received();
            // A full queue behind work that never ends blocks the reader, which then never sees that its client has closed the
            // connection.
            let is_alone = received == seen && self.is_alone();
            alone = is_alone.then(|| alone.unwrap_or_else(Instant::now));
            if alone.is_some_and(|since: Instant| since.elapsed() >= self.grace_closed) {
                self.end("its client disconnected while its work was still running");
            }
            if received == seen {
                // Nothing arrived for a whole tick: the client is idle and can free the frames it keeps.
                self.outgoing.outbox.acknowledge();
            }
            seen = received;
            self.outgoing.spans.tell(&self.outgoing.outbox);
            if tick % LOAD_TICKS == 0 {
                let elapsed = measured.elapsed().as_nanos().max(1) as f32;
                measured = Instant::now();
                let now: Vec<u64> = (0..devices).map(|device| self.device.busy_ns(device)).collect();
                let load = now.iter().zip(&before).map(|(now, before)| {
                    (now.saturating_sub(*before) as f32 / elapsed * 100.0).clamp(0.0, 100.0)
                });
                *self.loads.lock() = load.collect();
                before = now;
            }
        }
    }
}

/// Receive counters at the housekeeping thread's last heartbeat check.
#[derive(Default)]
struct Beaten {
    requests: u64,
    bytes: u64,
}

fn spawn(name: &str, shared: &Arc<Shared>, body: impl FnOnce(&Arc<Shared>) + Send + 'static) {
    let shared = Arc::clone(shared);
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(move || body(&shared));
    if let Err(error) = spawned {
        tracing::error!("cannot start the {name} thread: {error}");
        std::process::exit(1);
    }
}

fn decode_hello(bytes: &[u8]) -> Result<Hello, WorkerError> {
    match decode_request::<Hello>(bytes) {
        Ok((hello, _)) => Ok(hello),
        Err(error) => Err(WorkerError::Control(error.to_string())),
    }
}

/// Ends the session and the process. Destructors are skipped: the kernel frees everything at once.
fn end(outgoing: &Outgoing, why: &'static str) -> ! {
    outgoing.outbox.close();
    outgoing.device.close();
    // On a separate thread: the log pipe may be full and unread, and the process must exit regardless.
    let (sender, logged) = mpsc::channel();
    let log = move || {
        tracing::info!("session over: {why}");
        let _ = sender.send(());
    };
    if std::thread::Builder::new().spawn(log).is_ok() {
        let _ = logged.recv_timeout(LAST_WORDS);
    }
    // SAFETY: ends the process at once; threads inside device code must not keep running while statics are torn down.
    unsafe { libc::_exit(0) }
}
