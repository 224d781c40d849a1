//! The trace file, in the trace event format of chrome://tracing and ui.perfetto.dev, written while the program runs.
//!
//! Owns the file and the state of the trace's rows. The file is a JSON array with one event per line. It stays readable
//! if truncated at any line, because readers of the format do not need the closing bracket. Memory is bounded: what does
//! not fit is counted and left out.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
#[cfg(unix)]
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use wire::{Opcode, Span, Spans, span_kind};

use super::clock::{Clock, Reading};
use super::members::escape;
use crate::os::demangle::demangled;

/// The buffer is written to the file at this size, or on a flush.
const BUFFER: usize = 64 << 10;
/// Requests whose callers are remembered, so that an arrow can be drawn from the call to its device work. A power of two.
const RECENT: usize = 1 << 16;
/// Limit of socket writes that wait for their acknowledgement; further ones are merged into the newest.
const MOST_FLIGHTS: usize = 1 << 10;
/// Trace rows for writes to the worker.
const LANES: u32 = 16;
const MOST_STREAMS: usize = 1 << 16;
const MOST_NAMES: usize = 1 << 18;
/// Process ids of the system are below this. Rows that are not threads of a real process use process ids above.
const PROCESSES: u32 = 1 << 22;

/// A trace that is being written.
#[derive(Debug)]
pub struct Trace {
    pid: u32,
    path: PathBuf,
    #[cfg(unix)]
    descriptor: RawFd,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    buffer: String,
    is_first: bool,
    /// Finished, or the file cannot be written.
    closed: bool,
    /// The write error, until it is reported.
    failure: Option<io::Error>,
    clock: Clock,
    streams: HashMap<(u32, u64), Row>,
    functions: HashMap<u64, String>,
    recent: Box<[Sent]>,
    flights: VecDeque<Flight>,
    /// The last request that the worker is known to have received.
    acknowledged: u64,
    /// Number of link rows that have a name.
    lanes: u32,
    /// Spans that the worker could not send, and spans that could not be shown here.
    lost_there: u64,
    lost_here: u64,
}

/// The trace row of a stream.
#[derive(Debug)]
struct Row {
    tid: usize,
    end: u64,
    request_id: u32,
}

/// A request and the call that made it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sent {
    pub number: u64,
    pub tid: u32,
    pub at: u64,
    pub opcode: u16,
    pub function: u16,
}

/// A socket write that is not acknowledged yet.
#[derive(Debug)]
struct Flight {
    first: u64,
    last: u64,
    bytes: u64,
    begin: u64,
    lane: u32,
    name: &'static str,
}

/// The file name for this process: `%p` is replaced by its id. The hiprtc library writes separate files.
pub fn file_name(pattern: &str, pid: u32, is_hiprtc: bool) -> String {
    let name = pattern.replace("%p", &pid.to_string());
    if !is_hiprtc {
        return name;
    }
    let start = name.rfind('/').map_or(0, |at| at + 1);
    match name[start..].rfind('.').filter(|at| *at > 0) {
        Some(at) => format!("{}.hiprtc{}", &name[..start + at], &name[start + at..]),
        None => name + ".hiprtc",
    }
}

impl Trace {
    /// Starts a trace. Fails if another process is writing the file.
    pub fn create(path: &Path, program: &str) -> io::Result<Trace> {
        let file = File::options().create(true).truncate(false).write(true).open(path)?;
        if file.try_lock().is_err() {
            let text = "another process is writing it; put %p (the process id) into its name";
            return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
        }
        // A pipe or a terminal has no length.
        if file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        let pid = std::process::id();
        #[cfg(unix)]
        let descriptor = file.as_raw_fd();
        let state = State {
            file,
            buffer: "[".to_owned(),
            is_first: true,
            closed: false,
            failure: None,
            clock: Clock::default(),
            streams: HashMap::new(),
            functions: HashMap::new(),
            recent: vec![Sent::default(); RECENT].into_boxed_slice(),
            flights: VecDeque::new(),
            acknowledged: 0,
            lanes: 0,
            lost_there: 0,
            lost_here: 0,
        };
        let trace = Trace {
            pid,
            path: path.to_owned(),
            #[cfg(unix)]
            descriptor,
            state: Mutex::new(state),
        };
        let mut state = trace.state.lock();
        trace.name(&mut state, "process_name", pid, 0, program);
        trace.order(&mut state, pid, 0);
        let link = trace.link();
        trace.name(&mut state, "process_name", link, 0, "link to the worker");
        trace.order(&mut state, link, 1);
        trace.name(&mut state, "thread_name", link, 0, "from the worker");
        drop(state);
        Ok(trace)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    #[cfg(unix)]
    pub fn descriptor(&self) -> RawFd {
        self.descriptor
    }

    /// Names the row of a device of the worker.
    pub fn device(&self, ordinal: u32, name: &str) {
        let mut state = self.state.lock();
        let pid = self.device_process(ordinal);
        self.name(&mut state, "process_name", pid, 0, &format!("device {ordinal}: {name}"));
        self.order(&mut state, pid, 2 + ordinal);
    }

    /// Names the row of a thread of the program.
    pub fn thread(&self, tid: u32, name: &str) {
        self.name(&mut self.state.lock(), "thread_name", self.pid, tid as usize, name);
    }

    /// Adds a finished call; `arguments` are JSON members, each preceded by a comma.
    pub fn call(&self, tid: u32, name: &str, time: [u64; 2], arguments: &str) {
        let arguments = arguments.strip_prefix(',').unwrap_or(arguments);
        let mut state = self.state.lock();
        state.slice(self.pid, tid as usize, "call", name, time, arguments);
    }

    /// Remembers a request.
    pub fn sent(&self, sent: Sent) {
        self.state.lock().recent[sent.number as usize % RECENT] = sent;
    }

    /// Records that requests from `first` up to, but not including, `next` were written to the socket; the last may be
    /// partial.
    pub fn wrote(&self, first: u64, next: u64, bytes: u64, now: u64) {
        let mut state = self.state.lock();
        let last = next.max(first + 1) - 1;
        let is_full = state.flights.len() >= MOST_FLIGHTS;
        if let Some(newest) = state.flights.back_mut().filter(|newest| newest.last == last || is_full) {
            // More bytes of the same request, or the limit of separate flights is reached.
            newest.last = newest.last.max(last);
            newest.bytes += bytes;
            return;
        }
        let taken = state.flights.iter().fold(0u32, |taken, flight| taken | 1 << flight.lane);
        let lane = (0..LANES).find(|lane| taken & 1 << lane == 0).unwrap_or(LANES - 1);
        if lane == state.lanes {
            state.lanes += 1;
            let name = "to the worker, until acknowledged";
            self.name(&mut state, "thread_name", self.link(), lane as usize + 1, name);
        }
        let sent = state.recent[last as usize % RECENT];
        let known = Opcode::from_number(sent.opcode).filter(|_| sent.number == last);
        let name = known.map_or("requests", Opcode::name);
        state.flights.push_back(Flight { first, last, bytes, begin: now, lane, name });
        // The acknowledgement may arrive before the sending thread gets here.
        let received = state.acknowledged;
        self.land(&mut state, received, now);
    }

    /// Records that the worker has received all requests up to this one.
    pub fn acknowledged(&self, received: u64, now: u64) {
        let mut state = self.state.lock();
        state.acknowledged = state.acknowledged.max(received);
        self.land(&mut state, received, now);
    }

    fn land(&self, state: &mut State, received: u64, now: u64) {
        while state.flights.front().is_some_and(|flight| flight.last <= received) {
            let Some(flight) = state.flights.pop_front() else { return };
            let Flight { first, last, bytes, begin, lane, name } = flight;
            let arguments = format!("\"bytes\":{bytes},\"requests\":{}", last + 1 - first);
            state.slice(self.link(), lane as usize + 1, "wire", name, [begin, now.max(begin)], &arguments);
        }
    }

    /// Adds a frame received from the worker.
    pub fn arrived(&self, opcode: Opcode, bytes: u64, time: [u64; 2]) {
        self.state.lock().slice(self.link(), 0, "wire", opcode.name(), time, &format!("\"bytes\":{bytes}"));
    }

    /// Adds a reading of the worker's clock.
    pub fn reading(&self, reading: Reading, now: u64, devices: u32) {
        let mut state = self.state.lock();
        if !state.clock.take(reading) {
            return;
        }
        let Reading { offset, uncertainty, .. } = reading;
        let link = self.link();
        state.event(|out| {
            let _ =
                write!(out, "{{\"ph\":\"i\",\"s\":\"p\",\"pid\":{link},\"tid\":0,\"name\":\"clock\",\"ts\":");
            time_of(out, now);
            let _ = write!(
                out,
                ",\"args\":{{\"worker_less_client_ns\":{offset},\"uncertainty_ns\":{uncertainty}}}}}"
            );
        });
        for device in 0..devices {
            let labels = format!("times accurate to {:.1} us", uncertainty as f64 / 1000.0);
            let pid = self.device_process(device);
            state.event(|out| {
                let _ = write!(
                    out,
                    "{{\"ph\":\"M\",\"pid\":{pid},\"name\":\"process_labels\",\"args\":{{\"labels\":\"{labels}\",\
                     \"uncertainty_ns\":{uncertainty}}}}}"
                );
            });
        }
    }

    /// Adds device spans of the worker's streams.
    pub fn spans(&self, spans: Spans) {
        let mut state = self.state.lock();
        state.lost_there = spans.lost;
        for (function, name) in spans.functions {
            if state.functions.len() < MOST_NAMES {
                state.functions.insert(function, demangled(&name));
            }
        }
        for span in &spans.spans {
            self.span(&mut state, span);
        }
    }

    fn span(&self, state: &mut State, span: &Span) {
        let pid = self.device_process(span.device);
        let key = (span.device, span.stream);
        if !state.streams.contains_key(&key) {
            if state.streams.len() >= MOST_STREAMS {
                state.lost_here += 1;
                return;
            }
            let tid = state.streams.len() + 1;
            let name = match span.stream {
                0..=0xff => "null stream".to_owned(),
                stream if stream >> 63 == 1 => format!("branch {:#x} of a graph", stream << 1 >> 1),
                stream => format!("stream {stream:#x}"),
            };
            self.name(state, "thread_name", pid, tid, &name);
            state.streams.insert(key, Row { tid, end: 0, request_id: 0 });
        }
        let (begin, end) = (state.clock.here(span.begin), state.clock.here(span.end));
        let (Some(begin), Some(end), Some(row)) = (begin, end, state.streams.get_mut(&key)) else {
            state.lost_here += 1;
            return;
        };
        // A stream runs one command at a time; an apparent overlap comes from a better clock reading, so clamp it.
        let begin = begin.max(row.end);
        let end = end.max(begin);
        let is_next = row.request_id != span.request_id;
        (row.end, row.request_id) = (end, span.request_id);
        let tid = row.tid;
        let sent = state.recent[span.request_id as usize % RECENT];
        let sent = (sent.number as u32 == span.request_id && sent.number != 0).then_some(sent);
        let mut arguments = match span.kind {
            span_kind::KERNEL => format!("\"work_items\":{}", span.amount),
            _ => format!("\"bytes\":{}", span.amount),
        };
        if let Some(call) = sent.and_then(|sent| hip_api::meta::function_name(sent.function)) {
            let _ = write!(arguments, ",\"call\":\"{call}\"");
        }
        let name = match span.kind {
            span_kind::KERNEL => state.functions.get(&span.function).cloned().unwrap_or("kernel".to_owned()),
            span_kind::COPY => "copy".to_owned(),
            span_kind::FILL => "fill".to_owned(),
            span_kind::WRITE => "write".to_owned(),
            _ => "read".to_owned(),
        };
        state.slice(pid, tid, "device", &name, [begin, end], &arguments);
        if let Some(sent) = sent.filter(|_| is_next) {
            state.arrow("s", self.pid, sent.tid as usize, sent.number, sent.at);
            state.arrow("f\",\"bp\":\"e", pid, tid, sent.number, begin);
        }
    }

    /// Writes the buffered events to the file.
    pub fn flush(&self) -> Result<(), io::Error> {
        self.state.lock().flush()
    }

    /// Ends the file. An error means that the trace is incomplete and that this was not reported before.
    pub fn finish(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        let lost = state.lost_there + state.lost_here;
        if lost > 0 {
            let link = self.link();
            state.event(|out| {
                let _ = write!(
                    out,
                    "{{\"ph\":\"M\",\"pid\":{link},\"name\":\"process_labels\",\"args\":{{\"labels\":\
                     \"{lost} device spans are missing\"}}}}"
                );
            });
        }
        state.buffer.push_str("\n]\n");
        let written = state.flush();
        state.closed = true;
        written
    }

    fn link(&self) -> u32 {
        PROCESSES + self.pid
    }

    fn device_process(&self, ordinal: u32) -> u32 {
        PROCESSES * (2 + ordinal % 500) + self.pid
    }

    fn name(&self, state: &mut State, kind: &str, pid: u32, tid: usize, name: &str) {
        state.event(|out| {
            let _ = write!(
                out,
                "{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"name\":\"{kind}\",\"args\":{{\"name\":\""
            );
            escape(out, name);
            out.push_str("\"}}");
        });
    }

    fn order(&self, state: &mut State, pid: u32, place: u32) {
        state.event(|out| {
            let _ = write!(
                out,
                "{{\"ph\":\"M\",\"pid\":{pid},\"name\":\"process_sort_index\",\"args\":{{\"sort_index\":{place}}}}}"
            );
        });
    }
}

impl State {
    fn event(&mut self, write: impl FnOnce(&mut String)) {
        if self.closed {
            return;
        }
        self.buffer.push_str(if std::mem::take(&mut self.is_first) { "\n" } else { ",\n" });
        write(&mut self.buffer);
        if self.buffer.len() >= BUFFER
            && let Err(error) = self.flush()
        {
            // Not reported from a call of the program; the next flush reports it.
            self.failure = Some(error);
        }
    }

    fn slice(&mut self, pid: u32, tid: usize, cat: &str, name: &str, time: [u64; 2], arguments: &str) {
        self.event(|out| {
            let _ = write!(out, "{{\"ph\":\"X\",\"pid\":{pid},\"tid\":{tid},\"cat\":\"{cat}\",\"name\":\"");
            escape(out, name);
            out.push_str("\",\"ts\":");
            time_of(out, time[0]);
            out.push_str(",\"dur\":");
            time_of(out, time[1].saturating_sub(time[0]));
            let _ = write!(out, ",\"args\":{{{arguments}}}}}");
        });
    }

    /// One end of an arrow from a call to its device work.
    fn arrow(&mut self, end: &str, pid: u32, tid: usize, id: u64, at: u64) {
        let process = std::process::id();
        self.event(|out| {
            let _ = write!(
                out,
                "{{\"ph\":\"{end}\",\"pid\":{pid},\"tid\":{tid},\"cat\":\"request\",\"name\":\"request\",\
                 \"id\":\"{process}.{id}\",\"ts\":"
            );
            time_of(out, at);
            out.push('}');
        });
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        if self.closed || self.buffer.is_empty() {
            return Ok(());
        }
        let written = self.file.write_all(self.buffer.as_bytes());
        self.buffer.clear();
        self.closed |= written.is_err();
        written
    }
}

/// Formats nanoseconds as microseconds, the unit of the format.
fn time_of(out: &mut String, nanoseconds: u64) {
    let _ = write!(out, "{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_have_the_process_and_tell_two_libraries_apart() {
        assert_eq!(file_name("a/%p-%p.json", 7, false), "a/7-7.json");
        assert_eq!(file_name("a.b/trace", 7, true), "a.b/trace.hiprtc");
        assert_eq!(file_name("trace.%p.json", 7, true), "trace.7.hiprtc.json");
        assert_eq!(file_name(".json", 7, true), ".json.hiprtc");
    }

    #[test]
    fn a_file_that_is_being_written_is_left_alone() {
        let path = std::env::temp_dir().join(format!("remora-trace-{}.json", std::process::id()));
        let first = Trace::create(&path, "first").unwrap();
        assert!(Trace::create(&path, "second").is_err());
        first.call(1, "hipMalloc", [1000, 2500], ",\"size\":64");
        first.finish().unwrap();
        first.call(1, "late", [1, 2], "");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(text.starts_with("[\n{") && text.ends_with("}\n]\n"), "{text}");
        assert!(
            text.contains("\"name\":\"hipMalloc\",\"ts\":1.000,\"dur\":1.500,\"args\":{\"size\":64}"),
            "{text}"
        );
        assert!(!text.contains("late") && !text.contains("second"), "{text}");
    }

    #[test]
    fn a_trace_whose_file_is_full_says_so_once() {
        let full = || Trace::create("/dev/full".as_ref(), "program").unwrap();
        let short = full();
        short.call(1, "hipMalloc", [1, 2], "");
        let error = short.finish().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
        drop(short);
        // Enough events that a call of the program writes them, not the thread that reports errors.
        let long = full();
        for _ in 0..BUFFER / 32 {
            long.call(1, "hipMalloc", [1, 2], "");
        }
        assert_eq!(long.flush().unwrap_err().raw_os_error(), Some(libc::ENOSPC));
        assert!(long.flush().is_ok() && long.finish().is_ok(), "the error was reported once");
    }

    #[test]
    fn a_stream_never_seems_to_do_two_things_at_once() {
        let path = std::env::temp_dir().join(format!("remora-spans-{}.json", std::process::id()));
        let trace = Trace::create(&path, "program").unwrap();
        trace.reading(Reading::new(0, 1000, 0), 0, 1);
        let span = |begin, end| Span { stream: 0x500, begin, end, kind: span_kind::COPY, ..Span::default() };
        trace.spans(Spans { spans: vec![span(10_000, 20_000)], ..Spans::default() });
        // A better clock reading, by which the next span began before the last one ended.
        trace.reading(Reading::new(0, 100, 5_000), 0, 1);
        trace.spans(Spans {
            lost: 3,
            spans: vec![span(21_000, 22_000), span(40_000, 41_000)],
            ..Spans::default()
        });
        trace.finish().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        for time in
            ["\"ts\":10.500,\"dur\":10.000", "\"ts\":20.500,\"dur\":0.000", "\"ts\":35.050,\"dur\":1.000"]
        {
            assert!(text.contains(time), "{time} in\n{text}");
        }
        assert!(text.contains("3 device spans are missing"), "{text}");
    }
}
