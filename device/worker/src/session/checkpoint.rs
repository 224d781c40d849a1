//! Checkpoints of a running session, taken by its main thread between two requests.
//!
//! The session stops until its work has ended and the pages that have changed since the last checkpoint are copied; a thread then
//! writes them out. Changed pages are found by hash: that works for every back end and leaves kernels alone.

use std::collections::{HashMap, HashSet};
use std::io::BufWriter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use backend::Holding;
use parking_lot::Mutex;
use transport::{Link, TransportError, greet};
use wire::MAX_HANDSHAKE_BYTES;
use worker_client::ChunkWriter;
use xxhash_rust::xxh3::xxh3_128;

use crate::error::one_line;
use crate::session::manifest::{CheckpointRecord, Manifest};
use crate::session::migrate_out::{Export, ExportError, memory_section};
use crate::session::shared::Shared;
use crate::session::snapshot::{Kind, MEMORY_BYTES, SnapshotError, Writer};

const PAGE: u64 = 4096;
/// How long the session's work may take to end. If it takes longer, the checkpoint is tried again later.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_secs(1);
/// Timeout for the supervisor to store a checkpoint.
const STORE_TIMEOUT: Duration = Duration::from_secs(120);

/// The checkpoints of a session.
#[derive(Default)]
pub(crate) struct Checkpoints {
    /// Whether a request is waiting: the only cost of a session without checkpoints.
    due: AtomicBool,
    request: Mutex<Option<Request>>,
    /// What the supervisor has. Empty after a failure, so that the next checkpoint is complete.
    known: Mutex<Known>,
}

struct Request {
    link: Link,
    complete: bool,
    /// The worker that stores it; empty if this one does.
    place: String,
    not_before: Instant,
}

/// Hash of each page: 0 if the page is zero. A collision would need a program that attacks its own checkpoints.
type Pages = Vec<u128>;
/// Instead of a hash: the page counts as changed.
const UNKNOWN: u128 = u128::MAX;
static ZEROS: [u8; PAGE as usize] = [0; PAGE as usize];

/// What earlier checkpoints contain.
#[derive(Default)]
struct Known {
    number: u64,
    /// Hashes of the pages, by holding and its size.
    pages: HashMap<(Holding, u64), Pages>,
    images: HashSet<[u8; 32]>,
}

/// The state of a session as copied, not yet written.
struct Copied {
    manifest: Manifest,
    sections: Vec<(Kind, Vec<u8>)>,
    images: Vec<Arc<[u8]>>,
    /// Number of frames that the client had been sent.
    sent: u64,
}

impl Checkpoints {
    /// Requests a checkpoint, to be written to `link` at the next opportunity. A complete one does not refer to earlier ones.
    pub(crate) fn request(&self, link: Link, complete: bool, place: String) {
        *self.request.lock() = Some(Request { link, complete, place, not_before: Instant::now() });
        self.due.store(true, Ordering::Release);
    }

    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.due.load(Ordering::Relaxed)
    }

    fn take(&self) -> Option<Request> {
        let mut request = self.request.lock();
        let taken = request.take_if(|it| it.not_before <= Instant::now());
        self.due.store(request.is_some(), Ordering::Release);
        taken
    }

    fn put_back(&self, request: Request) {
        *self.request.lock() = Some(Request { not_before: Instant::now() + PAUSE, ..request });
        self.due.store(true, Ordering::Release);
    }
}

impl Shared {
    /// Takes the checkpoint that was requested. The caller is the main thread, between two requests.
    #[cold]
    pub(super) fn take_checkpoint(self: &Arc<Shared>, export: &Export<'_>) {
        let Some(request) = self.checkpoints.take() else { return };
        if let Err(error) = export.rest(Instant::now() + PATIENCE) {
            match error {
                ExportError::TooLong(_) | ExportError::WaitsForProgram => self.checkpoints.put_back(request),
                error => {
                    tracing::info!("no checkpoint of session {}: {}", export.session_id, one_line(&error))
                }
            }
            return;
        }
        if request.complete {
            *self.checkpoints.known.lock() = Known::default();
        }
        let start = Instant::now();
        let copied = self.copy_changes(export);
        let (id, stopped) = (export.session_id, start.elapsed().as_secs_f64() * 1e3);
        tracing::debug!("session {id} was stopped for {stopped:.1} ms to copy what has changed");
        let shared = Arc::clone(self);
        let write = move || {
            let written = copied.and_then(|copied| {
                let progress = (copied.manifest.received, copied.sent);
                copied.write(&request.link)?;
                Ok(progress)
            });
            match written {
                Ok((received, frames)) => {
                    shared.outgoing.outbox.send_unsequenced(&wire::Checkpointed {
                        received,
                        frames,
                        place: request.place,
                    });
                }
                Err(error) => {
                    tracing::warn!("checkpoint failed: {}", one_line(&error));
                    *shared.checkpoints.known.lock() = Known::default();
                }
            }
        };
        if let Err(error) = std::thread::Builder::new().name("checkpoint".to_owned()).spawn(write) {
            tracing::warn!("cannot start the thread that writes a checkpoint: {error}");
            *self.checkpoints.known.lock() = Known::default();
        }
    }

    /// Copies what has changed since the last checkpoint.
    fn copy_changes(&self, export: &Export<'_>) -> Result<Copied, ExportError> {
        let mut known = self.checkpoints.known.lock();
        let (mut manifest, images) = export.manifest()?;
        let hashes: Vec<[u8; 32]> = images.iter().map(|image| *blake3::hash(image).as_bytes()).collect();
        known.number += 1;
        let number = known.number;
        let fresh = images.iter().zip(&hashes).filter(|(_, hash)| known.images.insert(**hash));
        let fresh: Vec<Arc<[u8]>> = fresh.map(|(image, _)| Arc::clone(image)).collect();
        manifest.checkpoint = Some(CheckpointRecord { number, images: hashes });
        let sent = manifest.acknowledged + manifest.frames;
        let mut sections = Vec::new();
        let outgoing = &export.dispatcher.outgoing;
        let mut keep = |kind, bytes: &[u8]| {
            sections.push((kind, bytes.to_vec()));
            Ok::<(), SnapshotError>(())
        };
        export.dispatcher.graphs.capture(|graph| keep(Kind::Graph, graph))?;
        outgoing.outbox.kept(|frame| keep(Kind::Frame, frame))?;
        // A holding that is missing in one checkpoint, or has another size, is new in the next.
        let mut before = std::mem::take(&mut known.pages);
        for (holding, bytes) in manifest.inventory.holdings() {
            let pages = before.remove(&(holding, bytes));
            let mut changes = Changes::new(holding, bytes, pages, &mut sections);
            export.device.show(holding, &mut |offset, bytes| {
                changes.add(offset, bytes);
                true
            })?;
            known.pages.insert((holding, bytes), changes.finish());
        }
        Ok(Copied { manifest, sections, images: fresh, sent })
    }
}

/// Finds the changed pages of one holding. They are the pages of the address space, so a holding may begin and end within one.
struct Changes<'a> {
    holding: Holding,
    /// Size of the holding, and its offset in its first page.
    bytes: u64,
    skew: u64,
    pages: Pages,
    /// Pages that were shown.
    shown: Vec<bool>,
    sections: &'a mut Vec<(Kind, Vec<u8>)>,
}

impl<'a> Changes<'a> {
    fn new(
        holding: Holding,
        bytes: u64,
        known: Option<Pages>,
        sections: &'a mut Vec<(Kind, Vec<u8>)>,
    ) -> Changes<'a> {
        let skew = match holding {
            Holding::At(address) => address % PAGE,
            Holding::Memory(_) => 0,
        };
        let count = (skew + bytes).div_ceil(PAGE) as usize;
        let pages = known.unwrap_or_else(|| vec![0; count]);
        Changes { holding, bytes, skew, pages, shown: vec![false; count], sections }
    }

    /// Adds shown bytes.
    fn add(&mut self, offset: u64, bytes: &[u8]) {
        let (mut at, mut run) = (0, None);
        while at < bytes.len() {
            let start = offset + at as u64;
            let page = (start + self.skew) / PAGE;
            let end = (self.range(page).end - offset).min(bytes.len() as u64) as usize;
            if self.is_changed(page, start, &bytes[at..end]) {
                run.get_or_insert(at);
            } else if let Some(from) = run.take() {
                self.send(offset + from as u64, &bytes[from..at]);
            }
            at = end;
        }
        if let Some(from) = run {
            self.send(offset + from as u64, &bytes[from..]);
        }
    }

    fn is_changed(&mut self, page: u64, start: u64, bytes: &[u8]) -> bool {
        let (index, range) = (page as usize, self.range(page));
        if range != (start..start + bytes.len() as u64) {
            // Shown in parts: sent as a whole, now and the next time.
            if !std::mem::replace(&mut self.shown[index], true) {
                self.send(range.start, &ZEROS[..(range.end - range.start) as usize]);
            }
            self.pages[index] = UNKNOWN;
            return true;
        }
        self.shown[index] = true;
        let hash = match bytes == &ZEROS[..bytes.len()] {
            true => 0,
            false => xxh3_128(bytes).clamp(1, UNKNOWN - 1),
        };
        std::mem::replace(&mut self.pages[index], hash) != hash
    }

    /// The offsets of a page.
    fn range(&self, page: u64) -> std::ops::Range<u64> {
        (page * PAGE).saturating_sub(self.skew)..((page + 1) * PAGE - self.skew).min(self.bytes)
    }

    fn send(&mut self, offset: u64, bytes: &[u8]) {
        for (index, piece) in bytes.chunks(MEMORY_BYTES).enumerate() {
            let offset = offset + (index * MEMORY_BYTES) as u64;
            self.sections.push((Kind::Memory, memory_section(self.holding, offset, piece)));
        }
    }

    /// Sends zeros for pages that an earlier checkpoint has and that were not shown.
    fn finish(mut self) -> Pages {
        for index in 0..self.pages.len() {
            if !self.shown[index] && std::mem::take(&mut self.pages[index]) != 0 {
                let range = self.range(index as u64);
                self.send(range.start, &ZEROS[..(range.end - range.start) as usize]);
            }
        }
        self.pages
    }
}

impl Copied {
    /// Writes the checkpoint and waits until it is stored.
    fn write(&self, link: &Link) -> Result<(), ExportError> {
        link.set_write_timeout(Some(STORE_TIMEOUT)).map_err(TransportError::from)?;
        let mut file = Writer::new(BufWriter::new(ChunkWriter::new(link)))?;
        file.section(Kind::Manifest, &self.manifest.to_json()?)?;
        for image in &self.images {
            file.section(Kind::Image, image)?;
        }
        for (kind, section) in &self.sections {
            file.section(*kind, section)?;
        }
        let chunks = file.finish()?.into_inner().map_err(|error| SnapshotError::from(error.into_error()))?;
        chunks.finish().map_err(SnapshotError::from)?;
        link.set_read_timeout(Some(STORE_TIMEOUT)).map_err(TransportError::from)?;
        greet::expect::<wire::Done>(link, MAX_HANDSHAKE_BYTES)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A holding that begins 100 bytes before the end of a page and ends 100 bytes after the start of another one.
    const START: u64 = 8 * PAGE - 100;
    const SIZE: usize = 3 * PAGE as usize + 200;

    /// Sends a holding, shown in pieces. Returns offset and size of what was sent, and the pages.
    fn send(shown: &[(usize, &[u8])], known: Option<Pages>) -> (Vec<(u64, usize)>, Pages) {
        let mut sections = Vec::new();
        let mut changes = Changes::new(Holding::At(START), SIZE as u64, known, &mut sections);
        for (offset, bytes) in shown {
            changes.add(*offset as u64, bytes);
        }
        let pages = changes.finish();
        let parts = sections.iter().map(|(_, section)| {
            let (_, offset, bytes) = crate::session::migrate_in::memory_parts(section).unwrap();
            (offset, bytes.len())
        });
        (parts.collect(), pages)
    }

    #[test]
    fn only_changed_pages_are_sent() {
        let page = PAGE as usize;
        let mut content = vec![0u8; SIZE];
        (content[5], content[SIZE - 1]) = (1, 2);
        let (sent, pages) = send(&[(0, &content)], None);
        assert_eq!(sent, [(0, 100), (3 * PAGE + 100, 100)], "zeros need not be sent");
        let (sent, pages) = send(&[(0, &content[..100]), (100, &content[100..])], Some(pages));
        assert!(sent.is_empty(), "{sent:?}");
        (content[5], content[100]) = (0, 3);
        let (sent, pages) = send(&[(0, &content)], Some(pages));
        assert_eq!(sent, [(0, 100 + page)], "a page that has become zero has changed");
        let (sent, _) = send(&[(0, &content[..100])], Some(pages));
        assert_eq!(sent, [(100, page), (3 * PAGE + 100, 100)], "pages that are not shown any more are zero");
    }

    #[test]
    fn a_page_that_is_shown_in_parts_is_always_sent() {
        let content = vec![7u8; SIZE];
        let parts = [(0, &content[..200]), (200, &content[200..])];
        let (_, pages) = send(&parts, None);
        let (sent, _) = send(&parts, Some(pages));
        assert_eq!(sent, [(100, PAGE as usize), (100, 100), (200, PAGE as usize - 100)], "after its zeros");
    }
}
