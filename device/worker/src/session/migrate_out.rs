//! Migration, sending side: stops a session between two requests, waits until its work is done and every reply is sent, and
//! writes it out.
//!
//! Nothing is written before that. State that cannot be migrated is refused with the reason, and the session continues: its
//! client has only lost a connection, and reconnects.

use std::collections::{HashMap, HashSet};
use std::io::{BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use backend::{Device, DeviceError, Holding, Scope};
use transport::{Link, TransportError, greet};
use wire::{FinishMove, MAX_HANDSHAKE_BYTES, decision};
use worker_client::ChunkWriter;

use crate::request::Dispatcher;
use crate::request::exchange::Exchange;
use crate::request::graphs::Graphs;
use crate::session::manifest::{self, Manifest};
use crate::session::snapshot::{Kind, MEMORY_BYTES, MEMORY_HEAD_BYTES, SnapshotError, Writer};

/// Poll interval while waiting for the session to become idle.
const LOOK: Duration = Duration::from_millis(2);
/// Write timeout for each piece.
const CHUNK_PATIENCE: Duration = Duration::from_secs(60);
/// Timeout for the decision of the receiver, who may first restore the session elsewhere.
const DECISION_PATIENCE: Duration = Duration::from_secs(600);
/// Limit on code objects that are migrated only because the client was advertised that the worker has them: it may refer to them by hash.
const ADVERTISED_IMAGES_BYTES: u64 = 256 << 20;
const PAGE: usize = 4096;

/// Code objects and their hashes.
type Images = Vec<([u8; 32], Arc<[u8]>)>;

/// Hashes of code objects, so that each of them is hashed once.
#[derive(Default)]
pub(crate) struct ImageHashes {
    /// By address, which belongs to the object as long as it is kept here.
    known: HashMap<usize, (Arc<[u8]>, [u8; 32])>,
}

impl ImageHashes {
    fn hash(&mut self, image: &Arc<[u8]>) -> [u8; 32] {
        let compute = || (Arc::clone(image), *blake3::hash(image).as_bytes());
        self.known.entry(image.as_ptr().addr()).or_insert_with(compute).1
    }

    /// Forgets other objects, which may have been freed by their modules.
    fn retain(&mut self, images: &[([u8; 32], Arc<[u8]>)]) {
        let kept: HashSet<usize> = images.iter().map(|(_, image)| image.as_ptr().addr()).collect();
        self.known.retain(|address, _| kept.contains(address));
    }
}

/// A request to hand the session over.
pub(crate) struct Departure {
    pub(crate) link: Link,
    pub(crate) deadline: Instant,
    /// Whether an earlier attempt found a stream that waits for the program.
    pub(crate) waits_for_program: bool,
}

/// Reason why the session stays.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExportError {
    #[error("{0}")]
    Refused(String),
    /// A stream waits for the program, which must be allowed to continue first.
    #[error("a stream waits for the program: for a host function to return, or for a value in memory")]
    WaitsForProgram,
    #[error("its work did not finish in time{0}")]
    TooLong(&'static str),
    #[error("its state cannot be migrated")]
    Device(#[from] DeviceError),
    #[error("the snapshot could not be written")]
    Write(#[from] SnapshotError),
    #[error("the session could not be handed over")]
    Link(#[from] TransportError),
    #[error("the requester decided that the session stays")]
    Decided,
}

/// A session stopped between two requests.
pub(crate) struct Export<'a> {
    pub(crate) device: &'a dyn Device,
    pub(crate) dispatcher: &'a Dispatcher,
    pub(crate) exchange: &'a Exchange,
    pub(crate) session_id: u64,
    pub(crate) secret: [u8; 32],
    pub(crate) client: &'a str,
    pub(crate) pid: u32,
    pub(crate) worker: &'a str,
    /// Number of requests that have arrived.
    pub(crate) received: u64,
    /// Whether its client accesses device memory directly.
    pub(crate) is_reached_into: &'a AtomicBool,
    /// Whether the client stops that when it loses its connection, and says so with its next one.
    pub(crate) ends_direct_copies: bool,
}

impl Export<'_> {
    /// Hands the session over. `Ok` means that the session must end here, and holds its new endpoint if that is known.
    pub(crate) fn leave(&self, departure: &Departure) -> Result<Option<String>, ExportError> {
        let link = &departure.link;
        self.rest(departure.deadline)?;
        link.set_write_timeout(Some(CHUNK_PATIENCE)).map_err(TransportError::from)?;
        let mut chunks = BufWriter::new(ChunkWriter::new(link));
        self.write(&mut chunks)?;
        let chunks = chunks.into_inner().map_err(|error| SnapshotError::from(error.into_error()))?;
        chunks.finish().map_err(SnapshotError::from)?;
        link.set_read_timeout(Some(DECISION_PATIENCE)).map_err(TransportError::from)?;
        let FinishMove { decision, endpoint } = greet::expect(link, MAX_HANDSHAKE_BYTES)?;
        match decision {
            decision::SUSPEND => Ok(None),
            decision::MOVE => Ok(Some(endpoint)),
            _ => Err(ExportError::Decided),
        }
    }

    /// Whether no work is left and every reply is sent.
    pub(crate) fn is_resting(&self) -> bool {
        self.dispatcher.is_quiet() && self.device.query(Scope::Everything).is_ok_and(|idle| idle)
    }

    /// Waits until no work is left and every reply is sent.
    pub(crate) fn rest(&self, deadline: Instant) -> Result<(), ExportError> {
        if self.is_reached_into.load(Ordering::SeqCst) && !self.ends_direct_copies {
            let text = "its client is on this machine, accesses device memory directly, and is too old to interrupt that";
            return Err(ExportError::Refused(text.to_owned()));
        }
        while self.is_reached_into.load(Ordering::SeqCst) {
            if Instant::now() >= deadline {
                return Err(ExportError::TooLong(
                    ": its client, which accesses device memory directly, does not reconnect",
                ));
            }
            std::thread::sleep(LOOK);
        }
        if self.exchange.is_used() {
            return Err(ExportError::Refused("it has shared memory with other sessions".to_owned()));
        }
        loop {
            let idle = self.device.query(Scope::Everything)?;
            if idle && self.dispatcher.is_quiet() {
                return Ok(());
            }
            if !idle && self.device.waits_for_host() {
                return Err(ExportError::WaitsForProgram);
            }
            if Instant::now() >= deadline {
                return Err(ExportError::TooLong(match idle {
                    true => ": a compilation is still running",
                    false => ": a kernel is still running",
                }));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Describes the session, which must be idle, and returns the code objects that its snapshot needs. `by_hash`: its client may refer
    /// to those that it was advertised.
    pub(crate) fn manifest(
        &self,
        by_hash: bool,
        hashes: &mut ImageHashes,
    ) -> Result<(Manifest, Images), ExportError> {
        let outgoing = &self.dispatcher.outgoing;
        // Synchronizes mirrors, so that both sides hold the same bytes and no twin has to be carried.
        outgoing.mirrors.worked();
        outgoing.tell_changes();
        let mut inventory = self.device.capture()?;
        inventory.streams.retain(|it| !Graphs::is_own(it.stream));
        inventory.events.retain(|it| !Graphs::is_own(it.event));
        let advertised = self.dispatcher.store.as_ref().filter(|_| by_hash);
        let advertised = advertised
            .map(|store| store.advertised_code_objects(ADVERTISED_IMAGES_BYTES))
            .unwrap_or_default();
        let (changes_taken, mirrors) = outgoing.mirrors.capture();
        let (acknowledged, sent) = outgoing.outbox.progress();
        let mut graphs = 0;
        let called_off = self.dispatcher.graphs.capture(|_| {
            graphs += 1;
            Ok::<(), SnapshotError>(())
        })?;
        // Modules' images come first, since modules refer to them by index.
        let mut images: Images =
            inventory.images.drain(..).map(|image| (hashes.hash(&image), image)).collect();
        let mut known: HashSet<[u8; 32]> = images.iter().map(|(hash, _)| *hash).collect();
        let own = self.dispatcher.images.iter().map(|(hash, image)| (*hash, Arc::clone(image)));
        images.extend(own.filter(|(hash, _)| known.insert(*hash)));
        let advertised = advertised.into_iter().map(|image| (hashes.hash(&image), image));
        images.extend(advertised.filter(|(hash, _)| known.insert(*hash)));
        hashes.retain(&images);
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
            spans: outgoing.spans.is_on(),
            span_clock: outgoing.spans.clock(),
            inventory,
            checkpoint: None,
        };
        Ok((manifest, images))
    }

    /// Writes the snapshot. The session must be idle.
    pub(crate) fn write(&self, to: impl Write) -> Result<(), ExportError> {
        let outgoing = &self.dispatcher.outgoing;
        let (manifest, images) = self.manifest(true, &mut ImageHashes::default())?;
        let mut file = Writer::new(to)?;
        file.section(Kind::Manifest, &manifest.to_json()?)?;
        for (_, image) in &images {
            file.section(Kind::Image, image)?;
        }
        self.dispatcher.graphs.capture(|graph| file.section(Kind::Graph, graph))?;
        outgoing.outbox.kept(|frame| file.section(Kind::Frame, frame))?;
        for (holding, bytes) in manifest.inventory.holdings() {
            let mut written = Ok(());
            self.device.show(holding, 0..bytes, &mut |offset, bytes| {
                written = write_memory(&mut file, holding, offset, bytes);
                written.is_ok()
            })?;
            written?;
        }
        file.finish()?;
        Ok(())
    }
}

/// The payload of a memory section.
pub(crate) fn memory_section(holding: Holding, offset: u64, bytes: &[u8]) -> Vec<u8> {
    let (tag, number) = match holding {
        Holding::At(address) => (0, address),
        Holding::Memory(memory) => (1, memory),
    };
    let mut payload = Vec::with_capacity(MEMORY_HEAD_BYTES + bytes.len());
    payload.push(tag);
    payload.extend_from_slice(&number.to_le_bytes());
    payload.extend_from_slice(&offset.to_le_bytes());
    payload.extend_from_slice(bytes);
    payload
}

/// Writes memory without its all-zero pages.
fn write_memory(
    file: &mut Writer<impl Write>,
    holding: Holding,
    offset: u64,
    bytes: &[u8],
) -> Result<(), SnapshotError> {
    let mut put = |start: usize, end: usize| {
        for at in (start..end).step_by(MEMORY_BYTES) {
            let piece = &bytes[at..end.min(at + MEMORY_BYTES)];
            file.section(Kind::Memory, &memory_section(holding, offset + at as u64, piece))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_object_is_hashed_once_and_not_kept_longer_than_needed() {
        let mut hashes = ImageHashes::default();
        let images: Vec<Arc<[u8]>> = [b"first", b"other"].map(|it| Arc::from(&it[..])).into();
        let both: Images = images.iter().map(|it| (hashes.hash(it), Arc::clone(it))).collect();
        assert!(both.iter().all(|(hash, image)| hash == blake3::hash(image).as_bytes()));
        // What is known is returned without reading the object.
        hashes.known.get_mut(&images[0].as_ptr().addr()).unwrap().1 = [7; 32];
        assert_eq!(hashes.hash(&images[0]), [7; 32]);
        hashes.retain(&both[1..]);
        drop(both);
        assert_eq!(images.iter().map(Arc::strong_count).collect::<Vec<_>>(), [1, 2]);
    }
}
