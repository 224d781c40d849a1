//! The judge process of one submission.
//!
//! It reads a job from standard input and writes events to standard output, one per line. The server does not rely on it: time and output
//! are limited, invalid lines are skipped, and the process is killed with all its children.

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use board_contract::Event;
use board_judge::{DEVICE_REQUEST, Grant, Job};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

/// Largest event in bytes; the longest is a disassembly.
const LINE: u64 = 32 << 20;
/// Most bytes of all events of a submission together.
const OUTPUT: usize = 256 << 20;
/// Most bytes of a failed judge's standard error that are reported.
const LAST_WORDS: usize = 4096;

/// Error of a judge process.
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    #[error("{program} could not be started")]
    Start { program: String, source: std::io::Error },
    #[error("communication with the judge failed")]
    Talk(#[from] std::io::Error),
    #[error("the judge wrote more than {OUTPUT} bytes")]
    TooMuch,
    #[error("the judge ended ({status}) without a verdict{words}")]
    NoVerdict { status: String, words: String },
    #[error("the judge took longer than {0:?}")]
    TooLong(Duration),
}

/// What a judge says.
#[derive(Debug)]
pub enum Said {
    Event(Event),
    /// It has compiled the submission and waits for a device.
    DeviceRequest,
}

/// A running judge. Dropping it kills the process.
#[derive(Debug)]
pub struct Judge {
    child: Child,
    input: ChildStdin,
    lines: BufReader<ChildStdout>,
    /// Task that reads standard error and keeps its end. A full pipe would block the judge.
    words: Option<JoinHandle<Vec<u8>>>,
    deadline: tokio::time::Instant,
    limit: Duration,
    taken: usize,
}

impl Judge {
    /// Starts a judge, which may take this long until it requests a device.
    pub async fn start(command: &[OsString], job: &Job, limit: Duration) -> Result<Judge, JudgeError> {
        let nothing = OsString::from("(no judge is configured)");
        let program = command.first().unwrap_or(&nothing);
        let named = |source| JudgeError::Start { program: Path::new(program).display().to_string(), source };
        let mut builder = Command::new(program);
        builder.args(command.get(1..).unwrap_or_default());
        builder.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        builder.process_group(0).kill_on_drop(true);
        // SAFETY: between fork and exec the closure makes only one system call, which accesses no memory.
        unsafe {
            builder.pre_exec(|| {
                // If the server is killed, its judges are killed too, because their submissions run again.
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let mut child = builder.spawn().map_err(named)?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(JudgeError::NoVerdict { status: "no pipes".to_owned(), words: String::new() });
        };
        let words = child.stderr.take().map(|stderr| tokio::spawn(end_of(stderr)));
        let deadline = tokio::time::Instant::now() + limit;
        let mut judge =
            Judge { child, input, lines: BufReader::new(output), words, deadline, limit, taken: 0 };
        judge.send(job).await;
        Ok(judge)
    }

    /// Gives the judge its device, on which it may take this long.
    pub async fn grant(&mut self, device: &Grant, limit: Duration) {
        self.limit = limit;
        self.deadline = tokio::time::Instant::now() + limit;
        self.send(device).await;
    }

    async fn send(&mut self, message: &impl serde::Serialize) {
        // Messages have only fields that JSON can represent.
        let mut text = serde_json::to_vec(message).unwrap_or_default();
        text.push(b'\n');
        // Errors are ignored: a judge that does not read gives no verdict, which is reported.
        let _ = tokio::time::timeout_at(self.deadline, self.input.write_all(&text)).await;
    }

    /// Returns what the judge says next. It is an error if the output ends before a terminal event.
    pub async fn next(&mut self) -> Result<Said, JudgeError> {
        loop {
            let mut line = Vec::new();
            let mut limited = (&mut self.lines).take(LINE);
            let read = limited.read_until(b'\n', &mut line);
            let read = match tokio::time::timeout_at(self.deadline, read).await {
                Ok(read) => read?,
                Err(_) => return Err(JudgeError::TooLong(self.limit)),
            };
            self.taken += read;
            if self.taken > OUTPUT || read as u64 >= LINE {
                return Err(JudgeError::TooMuch);
            }
            if read == 0 {
                return Err(self.last_words().await);
            }
            if let Ok(event) = serde_json::from_slice::<Event>(&line) {
                return Ok(Said::Event(event));
            }
            if line.trim_ascii_end() == DEVICE_REQUEST.as_bytes() {
                return Ok(Said::DeviceRequest);
            }
            tracing::warn!(
                "the judge wrote a line that is not an event: {}",
                String::from_utf8_lossy(&line).trim_end()
            );
        }
    }

    async fn last_words(&mut self) -> JudgeError {
        let status = match tokio::time::timeout_at(self.deadline, self.child.wait()).await {
            Ok(Ok(status)) => status.to_string(),
            _ => "still running".to_owned(),
        };
        let words = match self.words.take() {
            Some(words) => tokio::time::timeout(Duration::from_secs(1), words).await,
            None => Ok(Ok(Vec::new())),
        };
        let words = words.ok().and_then(Result::ok).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).trim().to_owned();
        let words = if words.is_empty() { words } else { format!(": {words}") };
        JudgeError::NoVerdict { status, words }
    }

    /// Kills the judge and its children.
    pub async fn end(mut self) {
        self.kill();
        let _ = self.child.wait().await;
    }

    fn kill(&self) {
        if let Some(pid) = self.child.id() {
            // SAFETY: the process is a child that has not been waited for, and the leader of its own process group.
            unsafe { libc::kill(-(pid as libc::pid_t), libc::SIGKILL) };
        }
    }
}

impl Drop for Judge {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Reads standard error to the end and keeps its last bytes.
async fn end_of(mut stderr: ChildStderr) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut part = [0; LAST_WORDS];
    while let Ok(read @ 1..) = stderr.read(&mut part).await {
        kept.extend_from_slice(&part[..read]);
        kept.drain(..kept.len().saturating_sub(LAST_WORDS));
    }
    kept
}
