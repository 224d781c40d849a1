//! The device as the judge uses it: the runner process, which places buffers and runs kernels, and for the host shape the process of
//! the solution.

use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use board_contract::Counters;
use sandbox::Stop;
use transport::Endpoint;
use worker_client::{Observer, WorkerAddress};

use crate::channel::Channel;
pub(crate) use crate::channel::{Fault, Late};
use crate::host_solution::{HostSolution, HostWork};
use crate::message::{self, CHUNK, Call, CallReport, DESCRIPTOR, Fill, Generate, Preparation, Request};
use crate::times::{Step, Times};
use crate::tools::Tools;

/// Timeout for connecting to the worker.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit of one request of the judge's own, such as to read a part of a buffer. A device that needs longer hangs.
pub(crate) const OWN_REQUEST: Duration = Duration::from_secs(60);

/// Output and exit status of an ended process.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessEnd {
    pub output: Vec<u8>,
    pub error: Vec<u8>,
    /// How it ended, if it was sandboxed.
    pub stop: Option<Stop>,
}

/// Result of a call, with what the judge itself has seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Called {
    pub report: CallReport,
    /// What a solution of the host shape did on the device.
    pub work: Option<HostWork>,
}

/// The device.
pub(crate) struct Session {
    channel: Channel,
    /// The runner process; `None` after it was ended.
    process: Option<RunnerProcess>,
    /// The solution, if it has the host shape.
    solution: Option<HostSolution>,
    /// The worker, until its session is observed.
    worker: Option<WorkerAddress>,
    /// Observer of the runner's session.
    observer: Option<Observer>,
    /// Time that the solution has left, and that it has used since the start.
    left: Duration,
    used: Duration,
    /// Where the time of the judge goes.
    times: Arc<Times>,
    /// Memory for replies with contents of buffers.
    received: Vec<u8>,
}

struct RunnerProcess {
    child: Child,
    output: JoinHandle<Vec<u8>>,
    error: JoinHandle<Vec<u8>>,
}

impl Session {
    /// Starts a runner process.
    pub fn start(
        tools: &Tools,
        worker: &str,
        token: Option<&str>,
        limit: u64,
        whole: Duration,
    ) -> std::io::Result<Session> {
        let (channel, theirs) = Channel::new(whole)?;
        let program = tools.runner.first().ok_or(std::io::ErrorKind::NotFound)?;
        let mut command = Command::new(program);
        command.args(&tools.runner[1..]).arg(tools.library()).env_clear().current_dir("/");
        command.env("REMORA_WORKER", worker).env("REMORA_LOG", "warn");
        if let Some(token) = token {
            command.env("REMORA_TOKEN", token);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let descriptor = theirs.as_raw_fd();
        // SAFETY: between fork and exec the closure only makes system calls, on a descriptor that stays open until the child runs.
        unsafe {
            command.pre_exec(move || {
                // `dup2` with equal descriptors would not clear the close-on-exec flag.
                let done = match descriptor {
                    DESCRIPTOR => libc::fcntl(descriptor, libc::F_SETFD, 0),
                    _ => libc::dup2(descriptor, DESCRIPTOR),
                };
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
                if done < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
            });
        }
        let mut child = command.spawn()?;
        drop(theirs);
        let output = drain(child.stdout.take(), limit);
        let error = drain(child.stderr.take(), limit);
        let process = Some(RunnerProcess { child, output, error });
        Ok(Session {
            channel,
            process,
            solution: None,
            worker: address(worker, token),
            observer: None,
            left: whole,
            used: Duration::ZERO,
            times: Arc::default(),
            received: Vec::new(),
        })
    }

    /// Uses a device at the other end of a connection.
    #[cfg(test)]
    pub fn of(channel: Channel) -> Session {
        Session {
            channel,
            process: None,
            solution: None,
            worker: None,
            observer: None,
            left: OWN_REQUEST,
            used: Duration::ZERO,
            times: Arc::default(),
            received: Vec::new(),
        }
    }

    /// Returns where the time of the judge goes.
    pub fn times(&self) -> &Arc<Times> {
        &self.times
    }

    /// Has calls go to a solution of the host shape.
    pub fn call_through(&mut self, solution: HostSolution) {
        self.solution = Some(solution);
    }

    /// Gives the solution so much time, for all of its following calls together. What the judge does between them takes none of it.
    pub fn allow(&mut self, time: Duration) {
        self.left = time;
    }

    /// Returns the time that the solution has used since the start of the session.
    pub fn used(&self) -> Duration {
        self.used
    }

    /// Does something that the solution's code can delay, in the solution's time.
    fn charged<T>(&mut self, body: impl FnOnce(&mut Session) -> Result<T, Fault>) -> Result<T, Fault> {
        self.channel.allow(self.left, Late::Solution);
        self.solution.iter_mut().for_each(|solution| solution.allow(self.left));
        let start = Instant::now();
        let result = body(self);
        let took = start.elapsed();
        self.left = self.left.saturating_sub(took);
        self.used += took;
        result
    }

    pub fn device(&mut self) -> Result<String, Fault> {
        let name = self.ask(&Request::Device)?;
        Ok(String::from_utf8_lossy(&name).into_owned())
    }

    pub fn device_count(&mut self) -> Result<u32, Fault> {
        let reply = self.ask(&Request::DeviceCount)?;
        let count = reply.try_into().map(u32::from_le_bytes);
        count.map_err(|_| Fault::InvalidReply("invalid number of devices".to_owned()))
    }

    pub fn load(&mut self, code: &[u8], kernel: &str) -> Result<(), Fault> {
        let request = Request::Load { code: code.to_vec(), kernel: kernel.to_owned() };
        self.charged(|it| it.send(&request)).map(drop)
    }

    /// Resets the state of a kernel's module.
    pub fn reload(&mut self) -> Result<(), Fault> {
        self.charged(|it| it.send(&Request::Reload)).map(drop)
    }

    /// Allocates a buffer on a device. Its contents are undefined: a solution may have written to it when it was mapped.
    pub fn allocate(&mut self, device: u32, buffer: u32, bytes: u64) -> Result<(), Fault> {
        if self.solution.is_none() {
            return self.ask(&Request::Allocate { device, buffer, bytes }).map(drop);
        }
        let handle = self.ask(&Request::Share { device, buffer, bytes })?;
        self.charged(|it| {
            it.solution.as_mut().map_or(Ok(()), |solution| solution.open(device, buffer, &handle))
        })
    }

    pub fn free(&mut self, buffer: u32) -> Result<(), Fault> {
        self.charged(|it| it.solution.as_mut().map_or(Ok(()), |solution| solution.close(buffer)))?;
        self.ask(&Request::Free { buffer }).map(drop)
    }

    pub fn write(&mut self, buffer: u32, offset: u64, bytes: &[u8]) -> Result<(), Fault> {
        let times = Arc::clone(&self.times);
        times.of(Step::Upload, || {
            for (index, part) in bytes.chunks(CHUNK).enumerate() {
                let offset = offset + (index * CHUNK) as u64;
                self.channel.allow(OWN_REQUEST, Late::Request);
                self.channel.post(&[&message::write_head(buffer, offset, part.len()), part])?;
                self.channel.reply(&mut self.received)?;
            }
            Ok(())
        })
    }

    pub fn read(&mut self, buffer: u32, offset: u64, bytes: u64) -> Result<Vec<u8>, Fault> {
        let mut all = Vec::with_capacity(bytes as usize);
        self.read_each(buffer, offset, bytes, |part| all.extend_from_slice(part))?;
        Ok(all)
    }

    /// Reads a range of a buffer in parts, in ascending order. While one is processed the next one is read.
    pub fn read_each(
        &mut self,
        buffer: u32,
        offset: u64,
        bytes: u64,
        mut process: impl FnMut(&[u8]),
    ) -> Result<(), Fault> {
        let times = Arc::clone(&self.times);
        let size = |start: u64| (bytes - start).min(CHUNK as u64);
        let request =
            |start: u64| Request::Read { buffer, offset: offset + start, bytes: size(start) }.encode();
        let mut received = std::mem::take(&mut self.received);
        let mut failed = None;
        // Offsets up to which the buffer was requested and received.
        let (mut requested, mut start) = (0, 0);
        while start < requested || (requested < bytes && failed.is_none()) {
            self.channel.allow(OWN_REQUEST, Late::Request);
            while requested < bytes.min(start + 2 * CHUNK as u64) && failed.is_none() {
                self.channel.post(&[&request(requested)])?;
                requested += size(requested);
            }
            match times.of(Step::Download, || self.channel.reply(&mut received)) {
                Ok(part) if part.len() as u64 == size(start) => process(part),
                Ok(_) => {
                    let text = "a part of a buffer does not have the requested size";
                    failed = Some(Fault::InvalidReply(text.to_owned()));
                }
                // The reply to the next request is still to come, and must be received.
                Err(fault @ Fault::Hip { .. }) => failed = failed.or(Some(fault)),
                Err(fault) => return Err(fault),
            }
            start += size(start);
        }
        self.received = received;
        failed.map_or(Ok(()), Err)
    }

    /// Loads the kernel that generates inputs.
    pub fn load_generator(&mut self, code: &[u8]) -> Result<(), Fault> {
        self.ask(&Request::Generator { code: code.to_vec() }).map(drop)
    }

    /// Generates an input on the device.
    pub fn generate(&mut self, generate: Generate) -> Result<(), Fault> {
        self.ask(&Request::Generate(generate)).map(drop)
    }

    pub fn fill(&mut self, fills: Vec<Fill>) -> Result<(), Fault> {
        self.ask(&Request::Fill(fills)).map(drop)
    }

    /// Calls the solution. Times and counters are those of the worker, and of this process.
    pub fn call(&mut self, preparation: Preparation, call: Call) -> Result<Called, Fault> {
        self.ask(&Request::Prepare(preparation))?;
        if self.solution.is_none() {
            self.observe()?;
        }
        self.charged(|it| it.measured_call(call))
    }

    fn measured_call(&mut self, call: Call) -> Result<Called, Fault> {
        let start = Instant::now();
        let elapsed_ms = || start.elapsed().as_secs_f64() * 1e3;
        if let Some(solution) = &mut self.solution {
            let work = self.times.of(Step::Device, || solution.call(&call.slots, call.count))?;
            let counts = counts(&work.counters);
            let report = CallReport { device_ms: work.time_ns as f64 / 1e6, host_ms: elapsed_ms(), counts };
            return Ok(Called { report, work: Some(work) });
        }
        let count = call.count;
        if let Some(observer) = &self.observer {
            observer.start(count).map_err(|error| Fault::Worker(error.to_string()))?;
        }
        // The observer counts, and so sees as many devices as the worker has.
        let call = Call { count: count && self.observer.is_none(), ..call };
        let reply = self.send(&Request::Call(call))?;
        let report = CallReport::decode(&reply)
            .ok_or_else(|| Fault::InvalidReply("invalid reply to a call".to_owned()))?;
        let report = CallReport { host_ms: elapsed_ms(), ..report };
        let Some(observer) = &self.observer else { return Ok(Called { report, work: None }) };
        let measured =
            observer.end(0, self.channel.left()).map_err(|error| Fault::Worker(error.to_string()))?;
        if measured.lost > 0 || measured.kernels != 1 {
            let text = format!("the worker has times of {} kernels instead of one", measured.kernels);
            return Err(Fault::Worker(text));
        }
        let device_ms = (measured.end - measured.begin) as f64 / 1e6;
        Ok(Called {
            report: CallReport { device_ms, counts: counts(&measured.counters), ..report },
            work: None,
        })
    }

    /// Observes the session of the runner, if the worker permits that. Its times are those of the kernel alone, as for host code: events
    /// would include what the worker does between two commands.
    fn observe(&mut self) -> Result<(), Fault> {
        let Some(worker) = self.worker.take() else { return Ok(()) };
        let session = self.ask(&Request::SessionId)?.try_into().map(u64::from_le_bytes);
        let session = session.map_err(|_| Fault::InvalidReply("invalid id of a session".to_owned()))?;
        if session != 0 {
            self.observer = Observer::new(&worker, session).ok();
        }
        Ok(())
    }

    /// Ends the processes. Returns the output of the solution, or of the runner if no user code runs on the host.
    pub fn end(&mut self) -> ProcessEnd {
        let solution = self.solution.as_mut().map(HostSolution::end);
        self.channel.close();
        let Some(RunnerProcess { mut child, output, error }) = self.process.take() else {
            return solution.unwrap_or_default();
        };
        // It exits when the connection is closed, unless it hangs in the device.
        for _ in 0..20 {
            if !matches!(child.try_wait(), Ok(None)) {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // SAFETY: the process group was created for this child. Either the leader has not been waited for, or the group is gone.
        unsafe { libc::kill(-(child.id() as libc::pid_t), libc::SIGKILL) };
        let _ = child.kill();
        let _ = child.wait();
        let runner = ProcessEnd {
            output: output.join().unwrap_or_default(),
            error: error.join().unwrap_or_default(),
            stop: None,
        };
        solution.unwrap_or(runner)
    }

    /// Ends the processes and the sessions on the worker. The gate of a solution ends its session only when it is dropped.
    pub fn close(&mut self) {
        self.end();
        self.solution = None;
    }

    /// Sends a request of the judge's own, which takes the solution no time.
    fn ask(&mut self, request: &Request) -> Result<Vec<u8>, Fault> {
        self.channel.allow(OWN_REQUEST, Late::Request);
        self.send(request)
    }

    fn send(&mut self, request: &Request) -> Result<Vec<u8>, Fault> {
        let times = Arc::clone(&self.times);
        times.of(Step::Device, || self.channel.ask(&request.encode()))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}

/// The address of a worker; `None` if it is not valid, which the runner reports.
fn address(worker: &str, token: Option<&str>) -> Option<WorkerAddress> {
    let endpoint: Endpoint = worker.parse().ok()?;
    let token = token.map(|token| token.as_bytes().to_vec());
    Some(WorkerAddress { endpoint, token, trust: None, connect_timeout: CONNECT_TIMEOUT })
}

/// Counters as an array, if there are enough of them.
fn counts(counters: &[u64]) -> Option<[u64; Counters::COUNT]> {
    counters.get(..Counters::COUNT)?.try_into().ok()
}

/// Keeps the first bytes of an output and discards the rest, so that the writer does not block.
fn drain(stream: Option<impl Read + Send + 'static>, limit: u64) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        let Some(mut stream) = stream else { return kept };
        let _ = stream.by_ref().take(limit).read_to_end(&mut kept);
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
        kept
    })
}
