//! The thread of the journal: it compresses segments, prepares memory for later ones, and frees what the journal drops, so that the
//! threads of the program do none of that.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use transport::{lower_priority, spawn_quietly};

use super::journal::{Content, Requests, SEGMENT_BYTES};
use super::packed::{Packed, Shelf};

/// Distance at which memory is written to, so that the system provides all its pages.
const PAGE: usize = 4096;

/// What the thread is to do. It ends when the sender of jobs is dropped.
#[derive(Debug)]
enum Job {
    Pack { segment: u64, requests: Arc<Requests> },
    Prepare,
    Free(Content),
}

/// What the thread has done.
#[derive(Debug)]
pub(super) enum Done {
    Packed(Spilled),
    /// Memory for a segment, whose pages exist.
    Prepared(Requests),
}

/// A segment that was compressed and stored, or not.
#[derive(Debug)]
pub(super) struct Spilled {
    /// The segment, by the number of its first request.
    pub(super) segment: u64,
    pub(super) requests: Arc<Requests>,
    pub(super) result: io::Result<Packed>,
}

/// Hands work to the thread.
#[derive(Debug)]
pub(super) struct Spiller {
    jobs: Sender<Job>,
    results: Receiver<Done>,
    /// Number of segments that are being packed.
    pending: usize,
    preparing: bool,
}

impl Spiller {
    /// Starts the thread, which keeps segments on `shelf`.
    pub(super) fn start(mut shelf: Shelf) -> io::Result<Spiller> {
        let (jobs, received) = channel();
        let (finished, results) = channel();
        spawn_quietly("remora-journal", move || {
            lower_priority();
            for job in received {
                let done = match job {
                    Job::Pack { segment, requests } => {
                        let result = shelf.pack(&requests);
                        Done::Packed(Spilled { segment, requests, result })
                    }
                    Job::Prepare => Done::Prepared(prepared()),
                    Job::Free(content) => {
                        drop(content);
                        continue;
                    }
                };
                if finished.send(done).is_err() {
                    return;
                }
            }
        })?;
        Ok(Spiller { jobs, results, pending: 0, preparing: false })
    }

    /// One whose thread does nothing, and the other ends of its channels.
    #[cfg(test)]
    pub(super) fn stuck() -> (Spiller, impl Sized) {
        let (jobs, received) = channel();
        let (finished, results) = channel();
        (Spiller { jobs, results, pending: 0, preparing: false }, (received, finished))
    }

    /// Number of segments that are being packed.
    pub(super) fn pending(&self) -> usize {
        self.pending
    }

    /// Has a segment packed.
    pub(super) fn pack(&mut self, segment: u64, requests: Arc<Requests>) -> io::Result<()> {
        self.jobs.send(Job::Pack { segment, requests }).map_err(|_| ended())?;
        self.pending += 1;
        Ok(())
    }

    /// Has memory for one segment prepared, unless that is under way.
    pub(super) fn prepare(&mut self) {
        // Without the thread, the journal allocates memory itself.
        self.preparing = self.preparing || self.jobs.send(Job::Prepare).is_ok();
    }

    /// Has what a segment consisted of freed.
    pub(super) fn free(&self, content: Content) {
        // Without the thread, it is freed here.
        let _ = self.jobs.send(Job::Free(content));
    }

    /// The next thing that was done; waits up to `patience` for it. `None` if the time is over.
    pub(super) fn done(&mut self, patience: Duration) -> io::Result<Option<Done>> {
        let done = match self.results.recv_timeout(patience) {
            Ok(done) => done,
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => return Err(ended()),
        };
        match done {
            Done::Packed(_) => self.pending -= 1,
            Done::Prepared(_) => self.preparing = false,
        }
        Ok(Some(done))
    }
}

fn ended() -> io::Error {
    io::Error::other("the thread of the journal has ended")
}

/// Memory for a segment, whose pages exist.
fn prepared() -> Requests {
    let mut requests = Requests { bytes: Vec::with_capacity(SEGMENT_BYTES), ends: Vec::new() };
    for byte in requests.bytes.spare_capacity_mut().iter_mut().step_by(PAGE) {
        byte.write(0);
    }
    requests
}
