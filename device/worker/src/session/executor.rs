//! The executor: the process of one session. Opens the device, serves the client's connections one after another, and exits.
//!
//! The main thread reads requests. A control thread carries out what the supervisor requests, a housekeeping thread sends
//! acknowledgements and measures load. Whatever ends the session ends the process, and the kernel frees all its resources.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use backend::{Arena, Device, DeviceError};
use limits::{HostMemory, SessionSlot};
use parking_lot::Mutex;
use transport::{Link, greet};
use wire::{ReceiveCounter, RejectCode};
use worker_client::ChunkReader;

use crate::compile::client::CompileClient;
use crate::config::{BackendConfig, SessionConfig};
use crate::confine::{PreopenedResources, confine};
use crate::control::{CONTROL_FD, Control, ToSession, ToSupervisor};
use crate::error::{WorkerError, one_line};
use crate::growth::Growth;
use crate::outgoing::Outgoing;
use crate::request::Dispatcher;
use crate::request::exchange::Exchange;
use crate::seat::occupy_seat;
use crate::session::checkpoint::Checkpoints;
use crate::session::control_thread::decode_hello;
use crate::session::migrate_in::Import;
use crate::session::shared::{Attachment, ConnectionState, Counters, Facts, Shared};
use crate::store::{self, Store};
use crate::supervision::Supervision;

/// Read timeout between two chunks of a migrating session, and how long a refused one is drained.
const CHUNK_PATIENCE: Duration = Duration::from_secs(60);
const LAST_CHUNKS: Duration = Duration::from_secs(10);

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
    seat: Option<SessionSlot>,
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
    let shares_memory = seat.as_ref().is_some_and(SessionSlot::shares_memory);
    let device = match open_device(config, Some(offered), seat, &resources) {
        Ok(device) => device,
        Err(error) => {
            refuse(error.to_string());
            return Err(WorkerError::Device(error));
        }
    };
    let identity = Identity { shares_memory, ..identity };
    let (shared, dispatcher) = equip(Arc::new(control), config, identity, device, &resources, false);
    shared.connection.pending.lock().attachment = Some(Attachment { link, hello, version });
    shared.serve(config, dispatcher, ReceiveCounter::new(), Duration::ZERO)
}

/// Continues a session that arrives over a link, once all of its state is restored.
fn resume(
    control: Control,
    config: &SessionConfig,
    (worker, has_compiler): (String, bool),
    link: &Link,
    seat: Option<SessionSlot>,
    growth: Arc<Growth>,
) -> Result<(), WorkerError> {
    let refuse_as = |code: RejectCode, text: String| {
        tracing::warn!("session not resumed: {text}");
        let _ = greet::send(link, &code.reject(text.clone()));
        // Drains what the sender is still writing: closing with unread bytes resets the connection, and the reason could be lost.
        let _ = link.set_read_timeout(Some(LAST_CHUNKS));
        let deadline = Instant::now() + LAST_CHUNKS;
        let mut rest = vec![0; 64 << 10];
        while Instant::now() < deadline && matches!(link.read(&mut rest), Ok(1..)) {}
        Err(WorkerError::Control(text))
    };
    let refuse = |text: String| refuse_as(RejectCode::Failed, text);
    let resources = match confine(config) {
        Ok(resources) => resources,
        Err(error) => return refuse(one_line(&error)),
    };
    let _ = link.set_read_timeout(Some(CHUNK_PATIENCE));
    let import = match Import::begin(ChunkReader::new(link)) {
        Ok(import) => import,
        Err(error) => return refuse(one_line(&error)),
    };
    let shares_memory = seat.as_ref().is_some_and(SessionSlot::shares_memory);
    let host = HostMemory::new(seat.clone());
    let device = match open_device(config, Some(import.manifest.arena()), seat, &resources) {
        Ok(device) => device,
        Err(error) => return refuse(error.to_string()),
    };
    if let Err(error) = import.fits(&*device) {
        return refuse_as(error.code(), one_line(&error));
    }
    let (session_id, secret) = (import.manifest.session_id, import.manifest.secret);
    let control = Arc::new(control);
    let identity = Identity { session_id, secret, worker, has_compiler, shares_memory, host, growth };
    let (shared, mut dispatcher) = equip(Arc::clone(&control), config, identity, device, &resources, true);
    let manifest = match import.restore(&mut dispatcher) {
        Ok(manifest) => manifest,
        Err(error) => return refuse_as(error.code(), one_line(&error)),
    };
    *shared.connection.client.lock() = (manifest.client.clone(), manifest.pid);
    shared.counters.requests.store(manifest.received, Ordering::Relaxed);
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
    let supervision = Arc::new(Supervision::default());
    growth.over(&control, &supervision);
    let compiler = Arc::new(CompileClient::new(Arc::clone(&control), Arc::clone(&supervision)));
    let store = resources.uploads.as_ref().and_then(|uploads| {
        let opened = Store::open(uploads);
        opened.inspect_err(|error| tracing::warn!("upload cache disabled: {error}")).ok()
    });
    let observed = matches!(&config.backend, BackendConfig::Emulator { observe: Some(_), .. });
    let exchange = Arc::new(Exchange::new(Some(Arc::clone(&control))));
    let (sender, receiver) = mpsc::channel();
    let shared = Arc::new(Shared {
        facts: Facts {
            session_id,
            secret,
            worker,
            has_compiler,
            resumed,
            shares_memory,
            limits_host: config.limits_host_memory(),
            owner: resources.owner,
            is_reachable: device.capabilities().direct_writes && !observed,
            grace_lost: config.grace_lost,
            grace_closed: config.grace_closed,
        },
        connection: ConnectionState::default(),
        counters: Counters::default(),
        exchange,
        store,
        growth,
        supervision,
        outgoing: Arc::new(Outgoing::new(Arc::clone(&device))),
        device,
        compiler: Arc::clone(&compiler),
        control: Arc::clone(&control),
        departing: AtomicBool::new(false),
        checkpoints: Checkpoints::default(),
        observed: AtomicBool::new(false),
        verdicts: (Mutex::new(sender), Mutex::new(receiver)),
        ending: AtomicBool::new(false),
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
    spawn("control", &shared, move |shared| shared.handle_control(&control));
    spawn("housekeeper", &shared, |shared| shared.run_housekeeping());
    (shared, dispatcher)
}

/// Opens the devices of a session.
pub(crate) fn open_device(
    config: &SessionConfig,
    arena: Option<Arena>,
    seat: Option<SessionSlot>,
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
        BackendConfig::Cuda { library, model } => {
            let options = backend_cuda::Options {
                library: library.clone(),
                model: model.clone(),
                arena,
                seat,
                // Beside the tenant's uploads: the only folder that a session may write to. Tenants must not share compiled
                // kernels, since a session that was taken over could store others under their names.
                cache: resources.uploads.as_ref().map(|uploads| uploads.folder.join(store::COMPILED)),
                translator: Arc::new(backend_cuda::Lifter),
            };
            Arc::new(backend_cuda::Cuda::open(options)?)
        }
    })
}

fn spawn(name: &str, shared: &Arc<Shared>, body: impl FnOnce(&Arc<Shared>) + Send + 'static) {
    let shared = Arc::clone(shared);
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(move || body(&shared));
    if let Err(error) = spawned {
        tracing::error!("cannot start the {name} thread: {error}");
        std::process::exit(1);
    }
}
