//! What people asked to see of calls: a trace, a table at the end, a line for each.
//!
//! The one place that calls, the connection and the environment meet for it. While nobody asked, an exported call costs one
//! relaxed load here and the connection nothing. A forked child sees to a file of its own or writes none.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

use wire::{Flags, Header, Opcode, RecordSpans, Spans, Welcome, capability};

use crate::arguments::Arguments;
use crate::chrome::{self, Sent, Trace};
use crate::clock::Reading;
use crate::connection::Shared;
use crate::outgoing::spawn_quietly;
use crate::summary::Summary;
use crate::{env, report, soname, thread};

/// A line for each call.
const LINES: u32 = 1;
const TRACE: u32 = 2;
const SUMMARY: u32 = 4;
/// The environment has not been read yet, or is being read.
const UNREAD: u32 = 8;
const READING: u32 = 16;

static STATE: AtomicU32 = AtomicU32::new(UNREAD);
/// Both null or leaked: threads may be using them at any time.
static TRACING: AtomicPtr<Trace> = AtomicPtr::new(std::ptr::null_mut());
static SUMMING: AtomicPtr<Summary> = AtomicPtr::new(std::ptr::null_mut());
/// Counts processes along a line of forks: what a thread knows of its parent's trace is of no use to the child.
static GENERATION: AtomicU32 = AtomicU32::new(1);
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// How often a trace is written to its file, and every how many times the clock is read.
const FLUSH: Duration = Duration::from_millis(100);
const FLUSHES_A_READING: u32 = 10;
/// Readings of the clock before a session begins: so many, unless they take too long.
const FIRST_READINGS: u32 = 8;
const FIRST_READINGS_NS: u64 = 30_000_000;

/// What a call had to do with the worker so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub frames: u64,
    pub round_trips: u64,
    pub sent: u64,
    pub received: u64,
}

thread_local! {
    static TALLY: Cell<Tally> = const { Cell::new(Tally { frames: 0, round_trips: 0, sent: 0, received: 0 }) };
    /// This thread's number, and the generation that has a row for it.
    static ROW: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

/// A call that is seen.
#[derive(Debug)]
pub struct Open {
    seen: u32,
    number: u16,
    name: &'static str,
    begin: u64,
    arguments: Arguments,
    outer: Tally,
}

/// Whether anybody wants to see calls; 0 if not.
#[inline(always)]
pub fn state() -> u32 {
    STATE.load(Ordering::Relaxed)
}

/// A call begins that somebody may want to see.
#[cold]
#[inline(never)]
pub fn begin(number: u16, name: &'static str, show: &dyn Fn(&mut Arguments)) -> Option<Box<Open>> {
    let seen = settled();
    if seen == 0 {
        return None;
    }
    let mut arguments = Arguments::default();
    if seen & TRACE != 0 {
        show(&mut arguments);
    }
    let outer = TALLY.replace(Tally::default());
    Some(Box::new(Open { seen, number, name, begin: now(), arguments, outer }))
}

/// It ends; `failure` is the name of its error.
#[cold]
#[inline(never)]
#[allow(
    clippy::boxed_local,
    reason = "a pointer is all that the exports, into which this is not inlined, should move"
)]
pub fn end(open: Box<Open>, failure: Option<&'static str>) {
    let Open { seen, number, name, begin, mut arguments, outer } = *open;
    let end = now();
    let tally = TALLY.get();
    TALLY.set(Tally {
        frames: outer.frames + tally.frames,
        round_trips: outer.round_trips + tally.round_trips,
        sent: outer.sent + tally.sent,
        received: outer.received + tally.received,
    });
    if let Some(summary) = summary() {
        summary.count(number, end.saturating_sub(begin), &tally);
    }
    // Programs may register a hundred thousand kernels before they begin: those are in the table, and in no picture.
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

/// Whether a session has to tell what it does.
pub fn is_wanted() -> bool {
    settled() & (TRACE | SUMMARY) != 0
}

/// Nanoseconds of the clock that traces are in: the system's own since it started, so that traces of several processes fit.
pub fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to the struct, which is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// This thread makes a request of `bytes` bytes, and will wait for its answer or not. Told before anybody can see the request.
#[cold]
pub fn sent(opcode: Opcode, number: u64, bytes: u64, waits: bool) {
    let mut tally = TALLY.get();
    tally.frames += 1;
    tally.round_trips += u64::from(waits);
    tally.sent += bytes;
    TALLY.set(tally);
    if let Some(trace) = trace() {
        let (opcode, function) = (opcode.number(), thread::current_call());
        trace.sent(Sent { number, tid: row(trace), at: now(), opcode, function });
    }
}

/// Bytes came for this thread, or will.
#[cold]
pub fn received(bytes: u64) {
    let mut tally = TALLY.get();
    tally.received += bytes;
    TALLY.set(tally);
}

/// Requests from `first` to before `next` went to the socket.
#[cold]
pub fn wrote(first: u64, next: u64, bytes: u64) {
    if let Some(trace) = trace() {
        trace.wrote(first, next, bytes, now());
    }
}

/// The worker has all requests up to this one.
#[cold]
pub fn acknowledged(number: u64) {
    if let Some(trace) = trace() {
        trace.acknowledged(number, now());
    }
}

/// A frame was read whose header came at `begin`.
#[cold]
pub fn arrived(header: &Header, begin: u64) {
    let (Some(trace), Ok(opcode)) = (trace(), header.known()) else { return };
    if header.is_reply() || opcode == Opcode::Deliver || opcode == Opcode::MirrorChanged {
        trace.arrived(opcode, Header::BYTES as u64 + header.payload_len, [begin, now()]);
    }
}

/// The worker told what its streams did.
pub fn spans(spans: Spans) {
    if let Some(trace) = trace() {
        trace.spans(spans);
    }
}

/// A session begins: asks its worker for the times of its devices.
pub fn opened(shared: &Arc<Shared>, welcome: &Welcome) {
    let Some(trace) = trace() else { return };
    let devices = welcome.devices.len() as u32;
    for device in &welcome.devices {
        let name = device.properties.0.split(|byte| *byte == 0).next().unwrap_or_default();
        trace.device(device.ordinal, &String::from_utf8_lossy(&name[..name.len().min(256)]));
    }
    let able = shared.session.capabilities & capability::SPANS != 0;
    if able {
        // Not the doing of the call that happened to need a session.
        let tally = TALLY.get();
        // SAFETY: nothing is lent.
        let _ = unsafe { shared.request(&RecordSpans { on: true }, &[], None, Flags::POSTED, 0) };
        let start = now();
        for _ in 0..FIRST_READINGS {
            if !read_clock(trace, shared, devices) || now() - start > FIRST_READINGS_NS {
                break;
            }
        }
        TALLY.set(tally);
    } else {
        report::line(format_args!("the worker cannot tell times of devices; the trace goes without"));
    }
    let shared = Arc::clone(shared);
    let keep_writing = move || {
        for round in 1u32.. {
            std::thread::sleep(FLUSH);
            if shared.over.load(Ordering::Acquire) || shared.closing.load(Ordering::Acquire) {
                return;
            }
            if let Err(error) = trace.flush() {
                cut_off(trace, &error);
                return;
            }
            if able && round.is_multiple_of(FLUSHES_A_READING) && !read_clock(trace, &shared, devices) {
                return;
            }
        }
    };
    if let Err(error) = spawn_quietly("remora-trace", keep_writing) {
        report::line(format_args!("no thread writes the trace as the program runs: {error}"));
    }
}

/// The file of the trace could not be written to its end.
fn cut_off(trace: &Trace, error: &std::io::Error) {
    let path = trace.path().display();
    report::line(format_args!("the trace {path} is truncated: it could not be written ({error})"));
}

/// Asks for the worker's clock once; whether it answered.
fn read_clock(trace: &Trace, shared: &Shared, devices: u32) -> bool {
    let before = now();
    // SAFETY: nothing is lent.
    let asked = unsafe { shared.request(&wire::ReadClock {}, &[], None, Flags::NONE, 0) };
    let Ok((header, payload)) = asked.and_then(|number| shared.wait_for(number, None)) else { return false };
    let after = now();
    match wire::decode_reply::<wire::ReadClock>(&header, &payload) {
        Ok(Ok((reply, _))) => {
            trace.reading(Reading::new(before, after, reply.nanoseconds), after, devices);
            true
        }
        _ => false,
    }
}

fn trace() -> Option<&'static Trace> {
    // SAFETY: null or leaked, so valid for ever.
    unsafe { TRACING.load(Ordering::Acquire).as_ref() }
}

fn summary() -> Option<&'static Summary> {
    // SAFETY: null or leaked, so valid for ever.
    unsafe { SUMMING.load(Ordering::Acquire).as_ref() }
}

/// The number of this thread, which has a row from now on.
fn row(trace: &Trace) -> u32 {
    let generation = GENERATION.load(Ordering::Relaxed);
    let (tid, known) = ROW.get();
    if known == generation {
        return tid;
    }
    let mut name = [0u8; 16];
    // SAFETY: returns a number; and writes at most 16 bytes, NUL included, to the array.
    let tid = unsafe {
        libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr());
        libc::syscall(libc::SYS_gettid) as u32
    };
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    trace.thread(tid, &String::from_utf8_lossy(name));
    ROW.set((tid, generation));
    tid
}

/// What is wanted, read from the environment on first use.
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
        let path = chrome::file_name(&pattern, std::process::id(), soname::is_hiprtc());
        if IS_CHILD.load(Ordering::Relaxed) && !pattern.contains("%p") {
            report::line(format_args!(
                "the trace {path} is the parent's: put %p, the number of the process, into its name for one of this child"
            ));
        } else {
            match Trace::create(path.as_ref(), &env::program()) {
                Ok(trace) => {
                    TRACING.store(Box::into_raw(Box::new(trace)), Ordering::Release);
                    wanted |= TRACE;
                }
                Err(error) => report::line(format_args!("no trace is written to {path}: {error}")),
            }
        }
    }
    if env::summary().is_some() {
        SUMMING.store(Box::into_raw(Box::new(Summary::new())), Ordering::Release);
        wanted |= SUMMARY;
    }
    wanted
}

/// In the child. Locks may be held by threads that do not exist here, so only atomics are touched.
pub fn forked() {
    if let Some(trace) = trace() {
        // SAFETY: the child's copy of the file; the parent's stays open, and nobody in the child writes to it.
        unsafe { libc::close(trace.descriptor()) };
    }
    TRACING.store(std::ptr::null_mut(), Ordering::Release);
    SUMMING.store(std::ptr::null_mut(), Ordering::Release);
    GENERATION.fetch_add(1, Ordering::Relaxed);
    IS_CHILD.store(true, Ordering::Relaxed);
    STATE.store(UNREAD, Ordering::Release);
}

/// At exit, after the session's own end.
pub fn finish() {
    // Nothing may unwind into C.
    let _ = std::panic::catch_unwind(|| {
        // A child that never called anything has nothing to tell; it does not ask what it should tell either.
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
                    // A closed stderr is no reason to fail.
                    let _ = std::io::Write::write_all(&mut std::io::stderr(), table.as_bytes());
                }
                env::Place::File(pattern) => {
                    let path = chrome::file_name(&pattern, pid, soname::is_hiprtc());
                    if let Err(error) = std::fs::write(&path, table) {
                        report::line(format_args!("the summary cannot be written to {path}: {error}"));
                    }
                }
            }
        }
    });
}
