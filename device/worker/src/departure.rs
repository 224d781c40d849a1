//! A session leaves its process: stopped between two requests, with no work left and every answer given, and written out.
//!
//! Nothing is written before all of that holds. What cannot be carried is refused with the reason, and the session goes on as if
//! nobody had asked: its client has lost a connection, which it replaces.

use std::collections::HashSet;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use backend::{Device, DeviceError, Holding, Scope};
use transport::{Link, TransportError, greet};
use wire::{Decide, MAX_HANDSHAKE_BYTES, decision};

use crate::broker::Exchange;
use crate::dispatch::Dispatcher;
use crate::graph::Graphs;
use crate::manifest::{self, Manifest};
use crate::pieces::PieceWriter;
use crate::snapshot::{Kind, MEMORY_BYTES, SnapshotError, Writer};

/// How often a session that does not rest yet is looked at.
const LOOK: Duration = Duration::from_millis(2);
/// Who takes a session has this long for each piece.
const PIECE_PATIENCE: Duration = Duration::from_secs(60);
/// And this long to say what becomes of it, which may mean to put it in place elsewhere.
const DECISION_PATIENCE: Duration = Duration::from_secs(600);
/// Code objects that the client may ask for by their hashes, because it was told that the worker has them.
const TOLD_IMAGES_BYTES: u64 = 256 << 20;
const PAGE: usize = 4096;

/// Somebody wants the session.
pub(crate) struct Departure {
    pub(crate) link: Link,
    pub(crate) deadline: Instant,
}

/// Why the session stays.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stay {
    #[error("{0}")]
    Refused(String),
    /// A stream waits for the program, which has to be let go on.
    #[error("a stream waits for the program: for a host function to return, or for a value in memory")]
    WaitsForProgram,
    #[error("its work did not end in time{0}")]
    TooLong(&'static str),
    #[error("what it has cannot be carried")]
    Device(#[from] DeviceError),
    #[error("it could not be written")]
    Write(#[from] SnapshotError),
    #[error("it could not be handed over")]
    Link(#[from] TransportError),
    #[error("it was decided that it goes on here")]
    Decided,
}

/// A session as it stands between two requests.
pub(crate) struct Leaving<'a> {
    pub(crate) device: &'a dyn Device,
    pub(crate) dispatcher: &'a Dispatcher,
    pub(crate) exchange: &'a Exchange,
    pub(crate) session_id: u64,
    pub(crate) secret: [u8; 32],
    pub(crate) client: &'a str,
    pub(crate) pid: u32,
    pub(crate) worker: &'a str,
    /// Requests that have arrived.
    pub(crate) received: u64,
    /// Its client may move bytes to and from device memory by itself, at any time.
    pub(crate) is_reached_into: bool,
}

impl Leaving<'_> {
    /// Hands the session over. `Ok` says where it is to be found from now on, if that is known: the session must end here.
    pub(crate) fn leave(&self, departure: &Departure) -> Result<Option<String>, Stay> {
        let link = &departure.link;
        self.rest(departure.deadline)?;
        link.set_write_timeout(Some(PIECE_PATIENCE)).map_err(TransportError::from)?;
        let mut pieces = BufWriter::new(PieceWriter::new(link));
        self.write(&mut pieces)?;
        let pieces = pieces.into_inner().map_err(|error| SnapshotError::from(error.into_error()))?;
        pieces.finish().map_err(SnapshotError::from)?;
        link.set_read_timeout(Some(DECISION_PATIENCE)).map_err(TransportError::from)?;
        let Decide { decision, endpoint } = greet::expect(link, MAX_HANDSHAKE_BYTES)?;
        match decision {
            decision::SUSPEND => Ok(None),
            decision::MOVE => Ok(Some(endpoint)),
            _ => Err(Stay::Decided),
        }
    }

    /// Waits until no work is left and every answer is given.
    fn rest(&self, deadline: Instant) -> Result<(), Stay> {
        if self.is_reached_into {
            let text = "its client is on this machine and copies to and from device memory by itself";
            return Err(Stay::Refused(text.to_owned()));
        }
        if self.exchange.is_used() {
            return Err(Stay::Refused("it has shared memory with other sessions".to_owned()));
        }
        loop {
            let idle = self.device.query(Scope::Everything)?;
            if idle && self.dispatcher.is_quiet() {
                return Ok(());
            }
            if !idle && self.device.waits_for_host() {
                return Err(Stay::WaitsForProgram);
            }
            if Instant::now() >= deadline {
                return Err(Stay::TooLong(match idle {
                    true => ": a compilation still runs",
                    false => ": a kernel still runs",
                }));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Writes everything. The session rests.
    pub(crate) fn write(&self, to: impl Write) -> Result<(), Stay> {
        let outbox = &self.dispatcher.outbox;
        // Both sides hold the same in mirrors from here on, so that no twin has to be carried.
        outbox.mirrors().worked();
        outbox.tell_changes();
        let mut inventory = self.device.capture()?;
        inventory.streams.retain(|it| !Graphs::is_own(it.stream));
        inventory.events.retain(|it| !Graphs::is_own(it.event));
        let told = self.dispatcher.store.as_ref();
        let told = told.map(|store| store.told_code_objects(TOLD_IMAGES_BYTES)).unwrap_or_default();
        let (changes_taken, mirrors) = outbox.mirrors().capture();
        let (acknowledged, sent) = outbox.progress();
        let mut graphs = 0;
        let called_off = self.dispatcher.graphs.capture(|_| {
            graphs += 1;
            Ok::<(), SnapshotError>(())
        })?;
        // Those of modules first, since modules know them by their places.
        let mut images: Vec<Arc<[u8]>> = inventory.images.drain(..).collect();
        let hash = |image: &Arc<[u8]>| *blake3::hash(image).as_bytes();
        let mut known: HashSet<[u8; 32]> = images.iter().map(hash).collect();
        let others = self.dispatcher.images.values().cloned().chain(told);
        images.extend(others.filter(|image| known.insert(hash(image))));
        let arena = self.device.arena();
        let manifest = Manifest {
            session_id: self.session_id,
            secret: self.secret,
            client: self.client.to_owned(),
            pid: self.pid,
            worker: self.worker.to_owned(),
            taken_at: manifest::now(),
            arena: (arena.base, arena.bytes),
            devices: manifest::describe(self.device),
            received: self.received,
            acknowledged,
            frames: sent - acknowledged,
            images: images.len() as u64,
            graphs,
            called_off,
            changes_taken,
            mirrors,
            spans: outbox.spans().is_on(),
            span_clock: outbox.spans().clock(),
            inventory,
        };
        let mut file = Writer::new(to)?;
        let text =
            serde_json::to_vec(&manifest).map_err(|error| SnapshotError::from(io::Error::from(error)))?;
        file.section(Kind::Manifest, &text)?;
        for image in &images {
            file.section(Kind::Image, image)?;
        }
        self.dispatcher.graphs.capture(|graph| file.section(Kind::Graph, graph))?;
        outbox.kept(|frame| file.section(Kind::Frame, frame))?;
        for (holding, _) in manifest.inventory.holdings() {
            let mut written = Ok(());
            self.device.show(holding, &mut |offset, bytes| {
                written = write_memory(&mut file, holding, offset, bytes);
                written.is_ok()
            })?;
            written?;
        }
        file.finish()?;
        Ok(())
    }
}

/// Writes what is not zero, page by page.
fn write_memory(
    file: &mut Writer<impl Write>,
    holding: Holding,
    offset: u64,
    bytes: &[u8],
) -> Result<(), SnapshotError> {
    let (tag, number) = match holding {
        Holding::At(address) => (0, address),
        Holding::Memory(memory) => (1, memory),
    };
    let mut put = |start: usize, end: usize| {
        for at in (start..end).step_by(MEMORY_BYTES) {
            let piece = &bytes[at..end.min(at + MEMORY_BYTES)];
            let mut payload = vec![tag];
            payload.extend_from_slice(&number.to_le_bytes());
            payload.extend_from_slice(&(offset + at as u64).to_le_bytes());
            payload.extend_from_slice(piece);
            file.section(Kind::Memory, &payload)?;
        }
        Ok(())
    };
    let mut start = None;
    for at in (0..bytes.len()).step_by(PAGE) {
        let page = &bytes[at..bytes.len().min(at + PAGE)];
        match (page.iter().all(|byte| *byte == 0), start) {
            (true, Some(from)) => {
                put(from, at)?;
                start = None;
            }
            (false, None) => start = Some(at),
            _ => {}
        }
    }
    start.map_or(Ok(()), |from| put(from, bytes.len()))
}
