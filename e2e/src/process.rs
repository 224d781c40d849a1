//! Child processes with captured output and a time limit, killed at the end of the test.

use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Time limit of a process, after which it counts as hung.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Timeout for conditions in [`eventually`].
const CONDITION_TIMEOUT: Duration = Duration::from_secs(20);

/// A running process. Killed on drop.
#[derive(Debug)]
pub struct Running {
    child: Child,
    name: String,
    started: Instant,
    stdout: Collector,
    stderr: Collector,
}

/// Result of a process that has exited.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    /// Time from start to exit.
    pub time: Duration,
}

impl Running {
    pub fn start(command: &mut Command) -> Running {
        let name = command.get_program().to_string_lossy().into_owned();
        let started = Instant::now();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        let stdout = Collector::start(child.stdout.take().expect("stdout is a pipe"));
        let stderr = Collector::start(child.stderr.take().expect("stderr is a pipe"));
        Running { child, name, started, stdout, stderr }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process has exited. Its status stays available.
    pub fn has_ended(&self) -> bool {
        // SAFETY: all-zero is a valid siginfo_t, which is writable for the call; WNOWAIT does not reap the child.
        unsafe {
            let mut news: libc::siginfo_t = std::mem::zeroed();
            let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            libc::waitid(libc::P_PID, self.child.id(), &raw mut news, flags) == 0 && news.si_pid() != 0
        }
    }

    pub fn send_line(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().expect("stdin is open");
        writeln!(stdin, "{line}").and_then(|()| stdin.flush()).expect("the process reads its input");
    }

    pub fn close_input(&mut self) {
        drop(self.child.stdin.take());
    }

    pub fn signal(&self, signal: libc::c_int) {
        let pid = libc::pid_t::try_from(self.child.id()).expect("a process id fits");
        // SAFETY: kill takes no pointers; the child has not been reaped, so the PID is still its own.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0, "cannot send a signal to {}", self.name);
    }

    /// Waits until standard output has a line with this start, and returns the line.
    pub fn wait_for_line(&self, start: &str) -> String {
        match self.stdout.wait_for(|text| line_starting(text, start), TIME_LIMIT) {
            Some(line) => line,
            None => panic!(
                "{} did not print a line starting with {start:?}\nstdout:\n{}\nstderr:\n{}",
                self.name,
                self.stdout.text(),
                self.stderr.text()
            ),
        }
    }

    pub fn stdout_so_far(&self) -> String {
        self.stdout.text()
    }

    pub fn stderr_so_far(&self) -> String {
        self.stderr.text()
    }

    /// Closes the process's input and waits until it exits.
    pub fn finish(mut self) -> Ended {
        let asked = Instant::now();
        self.close_input();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                break status;
            }
            if asked.elapsed() > TIME_LIMIT {
                let _ = self.child.kill();
                let _ = self.child.wait();
                panic!(
                    "{} did not end within {} s\nstdout:\n{}\nstderr:\n{}",
                    self.name,
                    TIME_LIMIT.as_secs(),
                    self.stdout.text(),
                    self.stderr.text()
                );
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let time = self.started.elapsed();
        Ended { status, stdout: self.stdout.finish(), stderr: self.stderr.finish(), time }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Ended {
    /// Asserts that the process exited with status 0 and wrote nothing to stderr.
    #[track_caller]
    pub fn expect_silent_success(&self) -> &Ended {
        self.expect_success();
        assert_eq!(self.stderr, "", "stderr should be empty; stdout:\n{}", self.stdout);
        self
    }

    #[track_caller]
    pub fn expect_success(&self) -> &Ended {
        assert!(self.status.success(), "{}\nstdout:\n{}\nstderr:\n{}", self.status, self.stdout, self.stderr);
        self
    }

    /// Asserts that standard output has this line.
    #[track_caller]
    pub fn expect_line(&self, line: &str) -> &Ended {
        assert!(
            self.stdout.lines().any(|found| found == line),
            "no line {line:?}\nstdout:\n{}\nstderr:\n{}",
            self.stdout,
            self.stderr
        );
        self
    }

    /// The value after `name=` at the start of a line of standard output.
    #[track_caller]
    pub fn value(&self, name: &str) -> &str {
        let start = format!("{name}=");
        match self.stdout.lines().find_map(|line| line.strip_prefix(&start)) {
            Some(value) => value,
            None => panic!("no {start}\nstdout:\n{}\nstderr:\n{}", self.stdout, self.stderr),
        }
    }
}

/// Waits until a condition holds; fails the test on timeout.
#[track_caller]
pub fn eventually(claim: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(
            started.elapsed() < CONDITION_TIMEOUT,
            "not within {} s: {claim}",
            CONDITION_TIMEOUT.as_secs()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn line_starting(text: &str, start: &str) -> Option<String> {
    // A line without its newline may be incomplete.
    text.split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n'))
        .find(|line| line.starts_with(start))
        .map(str::to_owned)
}

/// Reads a pipe to its end on a separate thread, so that the writer never blocks.
#[derive(Debug)]
struct Collector {
    shared: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    ended: bool,
}

impl Collector {
    fn start(mut pipe: impl Read + Send + 'static) -> Collector {
        let shared = Arc::new((Mutex::new(State::default()), Condvar::new()));
        std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let mut buffer = [0; 4096];
                loop {
                    let read = pipe.read(&mut buffer).unwrap_or(0);
                    let mut state = shared.0.lock().expect("no reader panics");
                    state.bytes.extend_from_slice(&buffer[..read]);
                    state.ended = read == 0;
                    shared.1.notify_all();
                    if state.ended {
                        return;
                    }
                }
            }
        });
        Collector { shared }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.shared.0.lock().expect("no reader panics").bytes).into_owned()
    }

    fn wait_for<T>(&self, mut find: impl FnMut(&str) -> Option<T>, limit: Duration) -> Option<T> {
        let deadline = Instant::now() + limit;
        let mut state = self.shared.0.lock().expect("no reader panics");
        loop {
            if let Some(found) = find(&String::from_utf8_lossy(&state.bytes)) {
                return Some(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if state.ended || left.is_zero() {
                return None;
            }
            state = self.shared.1.wait_timeout(state, left).expect("no reader panics").0;
        }
    }

    /// All output so far. A grandchild may keep the pipe open, so the wait for its end has a timeout.
    fn finish(&self) -> String {
        let _ = self.wait_for(|_| None::<()>, Duration::from_secs(5));
        self.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_collected_and_the_status_kept() {
        let ended = Running::start(Command::new("sh").args(["-c", "echo a=1; echo b >&2; exit 3"])).finish();
        assert_eq!((ended.status.code(), ended.value("a"), ended.stderr.as_str()), (Some(3), "1", "b\n"));
    }

    #[test]
    fn only_a_whole_line_counts() {
        assert_eq!(line_starting("x\nlist", "list"), None);
        assert_eq!(line_starting("x\nlistening on y\n", "list").as_deref(), Some("listening on y"));
    }

    #[test]
    fn a_dropped_process_is_gone() {
        let running = Running::start(&mut Command::new("cat"));
        let folder = format!("/proc/{}", running.pid());
        assert!(std::path::Path::new(&folder).exists());
        drop(running);
        assert!(!std::path::Path::new(&folder).exists());
    }
}
