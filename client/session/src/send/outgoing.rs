//! The state of the sending side of a connection.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Thread;

use transport::{Link, StripedStream};

use super::ring::Cursor;
use crate::link::extra_links::Throughput;
use crate::os::barrier;

/// The state of the sending side. The thread that holds its lock is the writer.
#[derive(Debug)]
pub struct Outgoing {
    pub stream: StripedStream,
    pub cursor: Cursor,
    /// Unsequenced frames being sent; they go between sequenced ones.
    pub(super) control: Vec<u8>,
    pub(super) control_sent: usize,
    /// Links to start spreading over once `control` is sent; its last frame is the Spread announcement.
    pub(super) spreading: Option<Vec<Link>>,
    pub(super) lengths: Vec<u64>,
    /// Throughput while the socket buffer is full.
    pub(super) throughput: Throughput,
    /// The connection failed; nothing is sent until it is replaced.
    pub broken: bool,
}

/// The connection failed.
#[derive(Debug)]
pub struct Broken;

impl Outgoing {
    pub fn new(link: Link) -> Outgoing {
        Outgoing {
            stream: StripedStream::new(link),
            cursor: Cursor { number: 1, offset: 0 },
            control: Vec::new(),
            control_sent: 0,
            spreading: None,
            lengths: Vec::new(),
            throughput: Throughput::default(),
            broken: false,
        }
    }

    /// Continues on a new connection whose worker has `received` frames.
    pub fn resume(&mut self, link: Link, received: u64) {
        self.stream = StripedStream::new(link);
        self.spreading = None;
        self.cursor = Cursor { number: received + 1, offset: 0 };
        self.control.clear();
        self.control_sent = 0;
        self.broken = false;
    }
}

/// The part of the sending side that other threads access without its lock.
#[derive(Debug, Default)]
pub struct Sender {
    pub(super) thread: OnceLock<Thread>,
    pub(super) parked: AtomicBool,
    /// The last frame that was completely written to the socket.
    pub(super) sent: AtomicU64,
    /// The pending acknowledgement, or 0.
    pub(super) acknowledgement: AtomicU64,
    pub(super) ping: AtomicBool,
    pub(super) pong: AtomicBool,
    /// Request to check whether the connection has ended.
    pub(super) look: AtomicBool,
}

impl Sender {
    /// Ensures that the sender thread sees what was just appended. No system call unless it is parked.
    #[inline]
    pub fn wake(&self) {
        // Pairs with `barrier::heavy` in `Shared::run_sender`: either this thread sees `parked`, or the sender sees the appended
        // frame.
        barrier::light();
        if self.parked.load(Ordering::Relaxed) {
            self.unpark();
        }
    }

    #[cold]
    fn unpark(&self) {
        if self.parked.swap(false, Ordering::Relaxed)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Queues an acknowledgement for the next write. If the previous one has not been written yet, no writes are
    /// happening, and the sender thread is woken.
    pub fn acknowledge(&self, received: u64) {
        if self.acknowledgement.swap(received, Ordering::AcqRel) != 0 {
            self.wake();
        }
    }

    pub fn ping(&self) {
        self.ping.store(true, Ordering::Release);
        self.wake();
    }

    /// Makes the sender thread replace the connection if it has ended.
    pub fn look_at_link(&self) {
        self.look.store(true, Ordering::Release);
        self.wake();
    }

    pub fn pong(&self) {
        self.pong.store(true, Ordering::Release);
        self.wake();
    }

    /// The sender thread, once it runs.
    pub fn thread(&self) -> Option<&Thread> {
        self.thread.get()
    }

    /// Whether the current thread is the sender thread.
    pub(super) fn is_current(&self) -> bool {
        self.thread.get().is_some_and(|thread| thread.id() == std::thread::current().id())
    }

    /// The last frame that was completely written to the socket. Exact for the holder of the outgoing lock.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Acquire)
    }

    pub fn resume(&self, received: u64) {
        self.sent.store(received, Ordering::Release);
        self.acknowledgement.store(0, Ordering::Release);
    }
}
