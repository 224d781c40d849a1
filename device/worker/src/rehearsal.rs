//! Test harness: an in-process session that is fed raw bytes, for tests and fuzzing of hostile requests.

use std::sync::Arc;
use std::time::Duration;

use backend::{Arena, Device};
use transport::Link;
use wire::{Arrival, ReceiveCounter};

use crate::compile::client::CompileClient;
use crate::outgoing::Outgoing;
use crate::outgoing::outbox::Outbox;
use crate::request::exchange::Exchange;
use crate::request::inbox::{Broken, Inbox};
use crate::request::{Dispatcher, Next, Receipt};
use crate::session::migrate_in::Import;
use crate::session::snapshot::{Kind, SnapshotError, Writer};

/// Memory of the test device.
const MEMORY_BYTES: u64 = 64 << 20;
const WATCHDOG: Duration = Duration::from_millis(200);

/// Handles `bytes` as the requests of one connection; returns how many were handled before it broke.
///
/// For any input this returns without a panic, and allocates no more memory than the bytes justify.
pub fn rehearse(bytes: &[u8]) -> u64 {
    let Some(mut dispatcher) = stage(None) else { return 0 };
    let Ok((near, far)) = Link::pair() else { return 0 };
    let outgoing = Arc::clone(&dispatcher.outgoing);
    let outbox = &outgoing.outbox;
    if outbox.attach(near.clone(), &wire::Welcome::default(), 0).is_err() {
        return 0;
    }
    std::thread::scope(|scope| {
        let listener = far.clone();
        scope.spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while matches!(listener.read(&mut buffer), Ok(1..)) {}
        });
        let speaker = far.clone();
        scope.spawn(move || {
            let _ = speaker.write_all(bytes);
            // SAFETY: the descriptor is open; only its sending half is closed, so that replies can still be read.
            unsafe { libc::shutdown(speaker.raw_fd(), libc::SHUT_WR) };
        });
        let mut inbox = Inbox::new(near);
        let mut counter = ReceiveCounter::new();
        while let Ok(Next::GoOn) = step(&mut inbox, &mut dispatcher, &mut counter, outbox) {}
        outbox.close();
        outbox.detach();
        far.shutdown();
        counter.received()
    })
}

/// Reads `bytes` as a snapshot file: first as they are, then as kinds, lengths and payloads of sections with valid hashes.
/// Returns whether either could be resumed.
///
/// For any input this returns, as [`rehearse`] does.
pub fn rehearse_arrival(bytes: &[u8]) -> bool {
    let arrives = |file: &[u8]| {
        let Ok(import) = Import::begin(file) else { return false };
        let Some(mut dispatcher) = stage(Some(import.manifest.arena())) else { return false };
        import.restore(&mut dispatcher).is_ok()
    };
    arrives(bytes) || sealed(bytes).is_ok_and(|file| arrives(&file))
}

/// Builds a snapshot file with these sections.
fn sealed(mut rest: &[u8]) -> Result<Vec<u8>, SnapshotError> {
    let mut file = Writer::new(Vec::new())?;
    while let Some(([kind, low, high], payload)) = rest.split_first_chunk() {
        let kind = match kind % 5 {
            0 => Kind::Manifest,
            1 => Kind::Image,
            2 => Kind::Graph,
            3 => Kind::Frame,
            _ => Kind::Memory,
        };
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(payload.len());
        file.section(kind, &payload[..length])?;
        rest = &payload[length..];
    }
    file.finish()
}

/// Builds a session without a client.
pub(crate) fn stage(arena: Option<Arena>) -> Option<Dispatcher> {
    let options = backend_emulator::Options {
        devices: vec![backend_emulator::DeviceConfig {
            model: "mi300x".to_owned(),
            memory: Some(MEMORY_BYTES),
        }],
        arena,
        watchdog: Some(WATCHDOG),
        ..backend_emulator::Options::default()
    };
    let device: Arc<dyn Device> = Arc::new(backend_emulator::Emulator::open(&options).ok()?);
    let outgoing = Arc::new(Outgoing::new(Arc::clone(&device)));
    let compiler = Arc::new(CompileClient::default());
    let exchange = Arc::new(Exchange::new(None));
    Some(Dispatcher::new(device, outgoing, compiler, None, exchange, Arc::new(|| {})))
}

fn step(
    inbox: &mut Inbox,
    dispatcher: &mut Dispatcher,
    counter: &mut ReceiveCounter,
    outbox: &Outbox,
) -> Result<Next, Broken> {
    let header = inbox.header()?;
    match counter.arrive_request(&header)? {
        Arrival::Next(number) => dispatcher.request(number, &header, inbox, Receipt { counter, outbox }),
        Arrival::Duplicate | Arrival::Unsequenced => {
            inbox.skip(header.payload_len)?;
            Ok(Next::GoOn)
        }
    }
}
