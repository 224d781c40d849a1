//! Checkpoints of a running session, taken by its main thread between two requests, if possible when it has no work.
//!
//! The session stops until its work has ended and the pages that have changed since the last checkpoint are copied; a thread then
//! writes them out. `changes.rs` finds those pages.

use std::collections::HashSet;
use std::io::BufWriter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use transport::{Link, TransportError, greet, lower_priority};
use wire::MAX_HANDSHAKE_BYTES;
use worker_client::ChunkWriter;

use crate::error::one_line;
use crate::session::changes::{KnownPages, Section, changes};
use crate::session::manifest::{CheckpointRecord, Manifest};
use crate::session::migrate_out::{Export, ExportError, ImageHashes};
use crate::session::shared::Shared;
use crate::session::snapshot::{Kind, SnapshotError, Writer};

/// How long a checkpoint waits for a moment without work. After that it stops the session until its work has ended.
const QUIET: Duration = Duration::from_secs(2);
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
    hashes: Mutex<ImageHashes>,
}

struct Request {
    link: Link,
    complete: bool,
    /// The worker that stores it; empty if this one does.
    place: String,
    not_before: Instant,
    /// Until then it waits for a moment without work.
    quiet_until: Instant,
}

/// What earlier checkpoints contain.
#[derive(Default)]
struct Known {
    number: u64,
    pages: KnownPages,
    images: HashSet<[u8; 32]>,
}

/// The state of a session as copied, not yet written.
struct Copied {
    manifest: Manifest,
    sections: Vec<Section>,
    images: Vec<Arc<[u8]>>,
    /// Number of frames that the client had been sent.
    sent: u64,
}

impl Checkpoints {
    /// Requests a checkpoint, to be written to `link` at the next opportunity. A complete one does not refer to earlier ones.
    pub(crate) fn request(&self, link: Link, complete: bool, place: String) {
        let not_before = Instant::now();
        let request = Request { link, complete, place, not_before, quiet_until: not_before + QUIET };
        *self.request.lock() = Some(request);
        self.due.store(true, Ordering::Release);
    }

    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.due.load(Ordering::Relaxed)
    }

    /// Takes the request if it is time for it: the session has no work, or has had some for too long.
    fn take(&self, now: Instant, is_resting: impl FnOnce() -> bool) -> Option<Request> {
        let mut request = self.request.lock();
        let taken = request.take_if(|it| it.not_before <= now && (it.quiet_until <= now || is_resting()));
        self.due.store(request.is_some(), Ordering::Release);
        taken
    }

    fn put_back(&self, request: Request) {
        let not_before = Instant::now() + PAUSE;
        *self.request.lock() = Some(Request { not_before, quiet_until: not_before + QUIET, ..request });
        self.due.store(true, Ordering::Release);
    }
}

impl Shared {
    /// Takes the checkpoint that was requested, if this is a good moment. The caller is the main thread, between two requests.
    #[cold]
    pub(super) fn take_checkpoint(self: &Arc<Shared>, export: &Export<'_>) {
        let request = self.checkpoints.take(Instant::now(), || export.is_resting());
        let Some(request) = request else { return };
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
            lower_priority();
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
        // A client that keeps a journal refers to no contents by hash: its journal has them all.
        let (mut manifest, images) = export.manifest(false, &mut self.checkpoints.hashes.lock())?;
        let hashes: Vec<[u8; 32]> = images.iter().map(|(hash, _)| *hash).collect();
        known.number += 1;
        let number = known.number;
        let fresh = images.into_iter().filter(|(hash, _)| known.images.insert(*hash));
        let fresh: Vec<Arc<[u8]>> = fresh.map(|(_, image)| image).collect();
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
        let holdings = manifest.inventory.holdings();
        sections.extend(changes(export.device, holdings, &mut known.pages)?);
        Ok(Copied { manifest, sections, images: fresh, sent })
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

    #[test]
    fn a_checkpoint_waits_a_while_for_a_moment_without_work() {
        let checkpoints = Checkpoints::default();
        let begin = Instant::now();
        let (link, _other) = Link::pair().unwrap();
        checkpoints.request(link, true, String::new());
        let end = Instant::now() + QUIET;
        assert!(checkpoints.take(begin - PAUSE, || true).is_none(), "not before it was requested");
        assert!(checkpoints.take(begin + QUIET / 2, || false).is_none() && checkpoints.is_due());
        let request = checkpoints.take(end, || false).expect("it does not wait any longer");
        assert!(!checkpoints.is_due());
        checkpoints.put_back(request);
        assert!(checkpoints.take(Instant::now(), || true).is_none(), "it pauses");
        let later = Instant::now() + PAUSE;
        assert!(checkpoints.take(later, || false).is_none() && checkpoints.is_due());
        assert!(checkpoints.take(later, || true).is_some());
    }
}
