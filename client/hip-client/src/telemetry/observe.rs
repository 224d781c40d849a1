//! Observation of calls: the trace (REMORA_TRACE), the summary table (REMORA_SUMMARY) and one line per call (TF_DEBUG).
//!
//! Connects calls, session and environment for this purpose. While nothing is enabled, an exported call costs one
//! relaxed load and the connection nothing. A forked child writes its own trace file, or none.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

use session::{Connection, Traffic, spawn_quietly};
use wire::{Header, Opcode, RecordSpans, Spans, Welcome, capability};

use super::clock::Reading;
use super::members::Members;
use super::report;
use super::summary::Summary;
use super::tally::Tally;
use super::trace_file::{self, Sent, Trace};
use crate::os::thread::{identity, now};
use crate::process::{env, soname};
use crate::state::thread;

/// One line per call.
const LINES: u32 = 1;
const TRACE: u32 = 2;
const SUMMARY: u32 = 4;
/// The environment has not been read yet, or is being read.
const UNREAD: u32 = 8;
const READING: u32 = 16;

static STATE: AtomicU32 = AtomicU32::new(UNREAD);
/// Both are null or leaked: threads may use them at any time.
static TRACING: AtomicPtr<Trace> = AtomicPtr::new(std::ptr::null_mut());
static SUMMING: AtomicPtr<Summary> = AtomicPtr::new(std::ptr::null_mut());
/// Counts forks: the trace row of a thread is valid only in the process that assigned it.
static GENERATION: AtomicU32 = AtomicU32::new(1);
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// How often the trace is flushed to its file, and how many flushes pass between clock readings.
const FLUSH: Duration = Duration::from_millis(100);
const FLUSHES_A_READING: u32 = 10;
/// Clock readings before a session begins: this many, unless they take too long.
const FIRST_READINGS: u32 = 8;
const FIRST_READINGS_NS: u64 = 30_000_000;

thread_local! {
    /// This thread's id, and the generation in which it has a trace row.
    static ROW: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

/// A call being observed.
#[derive(Debug)]
pub struct Open {
    seen: u32,
    number: u16,
    name: &'static str,
    begin: u64,
    arguments: Members,
    outer: Tally,
}

/// What is observed; 0 for nothing.
#[inline(always)]
pub fn state() -> u32 {
    STATE.load(Ordering::Relaxed)
}

/// Starts to observe a call. Returns `None` if nothing is enabled.
#[cold]
#[inline(never)]
pub fn begin(number: u16, name: &'static str, show: &dyn Fn(&mut Members)) -> Option<Box<Open>> {
    let seen = settled();
    if seen == 0 {
        return None;
    }
    let mut arguments = Members::default();
    if seen & TRACE != 0 {
        show(&mut arguments);
    }
    let outer = Tally::replace(Tally::default());
    Some(Box::new(Open { seen, number, name, begin: now(), arguments, outer }))
}

/// Ends a call; `failure` is the name of its error.
#[cold]
#[inline(never)]
#[allow(
    clippy::boxed_local,
    reason = "a pointer is all that the exports, into which this is not inlined, should move"
)]
pub fn end(open: Box<Open>, failure: Option<&'static str>) {
    let Open { seen, number, name, begin, mut arguments, outer } = *open;
    let end = now();
    let tally = Tally::current();
    Tally::replace(outer.plus(tally));
    if let Some(summary) = summary() {
        summary.count(number, end.saturating_sub(begin), &tally);
    }
    // Programs may register a hundred thousand kernels at start: those are counted in the table, but left out of the
    // trace.
    if let Some(trace) = trace()
        && !name.starts_with("__hipRegister")
    {
        if tally.frames > 0 {
            arguments.number("round_trips", tally.round_trips);
            arguments.number("sent", tally.sent);
            arguments.number("received", tally.received);
        }
        if let Some(failure) = failure {
            arguments.string("error", failure);
        }
        trace.call(row(trace), name, [begin, end], &arguments.text);
    }
    if seen & LINES != 0 {
        report::line(format_args!("{name} -> {:?}", thread::last_error()));
    }
}

/// The observer of the session's traffic, if a trace or a summary was requested.
pub fn traffic() -> Option<&'static dyn Traffic> {
    (settled() & (TRACE | SUMMARY) != 0).then_some(&Observer)
}

/// Records the traffic of a session in the trace, and in the tally of the calling thread.
#[derive(Debug)]
struct Observer;

impl Traffic for Observer {
    fn now(&self) -> u64 {
        now()
    }

    fn sent(&self, opcode: Opcode, number: u64, bytes: u64, waits: bool) {
        Tally::change(|tally| {
            tally.frames += 1;
            tally.round_trips += u64::from(waits);
            tally.sent += bytes;
        });
        if let Some(trace) = trace() {
            let (opcode, function) = (opcode.number(), thread::current_call());
            trace.sent(Sent { number, tid: row(trace), at: now(), opcode, function });
        }
    }

    fn received(&self, bytes: u64) {
        Tally::change(|tally| tally.received += bytes);
    }

    fn wrote(&self, first: u64, next: u64, bytes: u64) {
        if let Some(trace) = trace() {
            trace.wrote(first, next, bytes, now());
        }
    }

    fn acknowledged(&self, number: u64) {
        if let Some(trace) = trace() {
            trace.acknowledged(number, now());
        }
    }

    fn arrived(&self, header: &Header, begin: u64) {
        let (Some(trace), Ok(opcode)) = (trace(), header.known()) else { return };
        if header.is_reply() || opcode == Opcode::Deliver || opcode == Opcode::MirrorChanged {
            trace.arrived(opcode, Header::BYTES as u64 + header.payload_len, [begin, now()]);
        }
    }

    fn spans(&self, spans: Spans) {
        if let Some(trace) = trace() {
            trace.spans(spans);
        }
    }
}

/// Starts tracing a session: requests the device spans from its worker.
pub fn opened(connection: &Connection, welcome: &Welcome) {
    let Some(trace) = trace() else { return };
    let devices = welcome.devices.len() as u32;
    for device in &welcome.devices {
        let name = device.properties.0.split(|byte| *byte == 0).next().unwrap_or_default();
        trace.device(device.ordinal, &String::from_utf8_lossy(&name[..name.len().min(256)]));
    }
    let able = connection.capabilities() & capability::SPANS != 0;
    if able {
        // Not attributed to the call that happened to open the session.
        let tally = Tally::current();
        let _ = connection.post(&RecordSpans { on: true }, &[], 0);
        let start = now();
        for _ in 0..FIRST_READINGS {
            if !read_clock(trace, connection, devices) || now() - start > FIRST_READINGS_NS {
                break;
            }
        }
        Tally::replace(tally);
    } else {
        report::line(format_args!("the worker does not support device spans; the trace has no device rows"));
    }
    let connection = connection.leak();
    let keep_writing = move || {
        for round in 1u32.. {
            std::thread::sleep(FLUSH);
            if connection.is_ending() {
                return;
            }
            if let Err(error) = trace.flush() {
                cut_off(trace, &error);
                return;
            }
            if able && round.is_multiple_of(FLUSHES_A_READING) && !read_clock(trace, connection, devices) {
                return;
            }
        }
    };
    if let Err(error) = spawn_quietly("remora-trace", keep_writing) {
        report::line(format_args!("cannot start the thread that flushes the trace: {error}"));
    }
}

/// Reports that the trace file is incomplete.
fn cut_off(trace: &Trace, error: &std::io::Error) {
    let path = trace.path().display();
    report::line(format_args!("the trace {path} is truncated: it could not be written ({error})"));
}

/// Reads the worker's clock once. Returns false if it did not reply.
fn read_clock(trace: &Trace, connection: &Connection, devices: u32) -> bool {
    let before = now();
    let Ok(reply) = connection.call(&wire::ReadClock {}, 0) else { return false };
    let after = now();
    trace.reading(Reading::new(before, after, reply.nanoseconds), after, devices);
    true
}

fn trace() -> Option<&'static Trace> {
    // SAFETY: null or leaked, so valid forever.
    unsafe { TRACING.load(Ordering::Acquire).as_ref() }
}

fn summary() -> Option<&'static Summary> {
    // SAFETY: null or leaked, so valid forever.
    unsafe { SUMMING.load(Ordering::Acquire).as_ref() }
}

/// The id of this thread, which gets a trace row if it has none.
fn row(trace: &Trace) -> u32 {
    let generation = GENERATION.load(Ordering::Relaxed);
    let (tid, known) = ROW.get();
    if known == generation {
        return tid;
    }
    let (tid, name) = identity();
    trace.thread(tid, &name);
    ROW.set((tid, generation));
    tid
}

/// The enabled observations, read from the environment on first use.
fn settled() -> u32 {
    loop {
        match STATE.load(Ordering::Acquire) {
            UNREAD => {
                if STATE.compare_exchange(UNREAD, READING, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                    STATE.store(read(), Ordering::Release);
                }
            }
            READING => std::thread::yield_now(),
            settled => return settled,
        }
    }
}

fn read() -> u32 {
    let mut wanted = if env::debug() { LINES } else { 0 };
    if let Some(pattern) = env::trace() {
        let path = trace_file::file_name(&pattern, std::process::id(), soname::is_hiprtc());
        if IS_CHILD.load(Ordering::Relaxed) && !pattern.contains("%p") {
            report::line(format_args!(
                "the trace {path} belongs to the parent process: put %p (the process id) into its name for a trace of this child"
            ));
        } else {
            match Trace::create(path.as_ref(), &env::program()) {
                Ok(trace) => {
                    TRACING.store(Box::into_raw(Box::new(trace)), Ordering::Release);
                    wanted |= TRACE;
                }
                Err(error) => report::line(format_args!("cannot write the trace to {path}: {error}")),
            }
        }
    }
    if env::summary().is_some() {
        SUMMING.store(Box::into_raw(Box::new(Summary::new())), Ordering::Release);
        wanted |= SUMMARY;
    }
    wanted
}

/// Runs in the child after fork. Threads that do not exist here may hold locks, so only atomics are accessed.
pub fn forked() {
    #[cfg(unix)]
    if let Some(trace) = trace() {
        // SAFETY: the child's copy of the file descriptor; the parent's stays open, and nothing in the child writes to
        // it.
        unsafe { libc::close(trace.descriptor()) };
    }
    TRACING.store(std::ptr::null_mut(), Ordering::Release);
    SUMMING.store(std::ptr::null_mut(), Ordering::Release);
    GENERATION.fetch_add(1, Ordering::Relaxed);
    IS_CHILD.store(true, Ordering::Relaxed);
    STATE.store(UNREAD, Ordering::Release);
}

/// Runs at exit, after the session is closed.
pub fn finish() {
    // A panic must not unwind into C.
    let _ = std::panic::catch_unwind(|| {
        // A forked child that made no call has nothing to write, and does not read the environment either.
        let (trace, summary) = (trace(), summary());
        STATE.fetch_and(LINES | UNREAD, Ordering::AcqRel);
        if let Some(Err(error)) = trace.map(Trace::finish)
            && let Some(trace) = trace
        {
            cut_off(trace, &error);
        }
        if let (Some(summary), Some(place)) = (summary, env::summary()) {
            let pid = std::process::id();
            let table = summary.table(&env::program(), pid);
            match place {
                env::Place::StandardError => {
                    // Ignore a closed stderr.
                    let _ = std::io::Write::write_all(&mut std::io::stderr(), table.as_bytes());
                }
                env::Place::File(pattern) => {
                    let path = trace_file::file_name(&pattern, pid, soname::is_hiprtc());
                    if let Err(error) = std::fs::write(&path, table) {
                        report::line(format_args!("the summary cannot be written to {path}: {error}"));
                    }
                }
            }
        }
    });
}
