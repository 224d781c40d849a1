//! The compiler service of one session: a separate process, because the session's own is confined and cannot start processes.
//!
//! The supervisor starts it when the session first compiles. It reads tasks from a socket to the session's process, runs
//! compilers in sandboxes and returns results. When the session's process exits, the socket closes, and the service exits
//! together with every compiler it started. It trusts the session's process with nothing but the right to compile.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use hip_api::types::HIPRTC_ERROR_INTERNAL_ERROR;
use parking_lot::{Condvar, Mutex};

use crate::allowance::{self, Taken};
use crate::compile::{Compiler, CompilerConfig, Request, Response, finished};
use crate::compile_budget::{self, CompileBudget};
use crate::compile_channel::{Task, receive_task, send_result};
use crate::config::WorkerError;
use crate::control::{CONTROL_FD, Control, Order};

/// Handle of a session's compiler service in the supervisor. Kills the service when dropped.
#[derive(Debug)]
pub(crate) struct CompilerProcess {
    child: Child,
}

impl CompilerProcess {
    /// Starts a service. Returns it and the socket for the session's process.
    pub(crate) fn start(
        program: &[PathBuf],
        config: &CompilerConfig,
        seat: Option<(limits::LimitConfig, &Taken)>,
    ) -> std::io::Result<(CompilerProcess, OwnedFd)> {
        let Some((program, arguments)) = program.split_first() else {
            return Err(std::io::Error::other("no program is configured for compiler services"));
        };
        let (control, theirs) = Control::pair()?;
        let (session, service) = UnixStream::pair()?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
        let child = spawn(command, &theirs)?;
        let process = CompilerProcess { child };
        drop(theirs);
        if let Some((limits, taken)) = seat {
            control.send(&Order::Sit { limits, seat: taken.number() }, Some(taken.descriptor()))?;
        }
        let order = Order::Serve { config: config.clone() };
        control.send(&order, Some(service.as_raw_fd()))?;
        Ok((process, session.into()))
    }
}

impl Drop for CompilerProcess {
    fn drop(&mut self) {
        // Its compilers detect that it is gone, and exit.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(mut command: Command, control: &Control) -> std::io::Result<Child> {
    let fd = control.raw_fd();
    // SAFETY: only async-signal-safe calls between fork and exec. They move the control socket to its descriptor number, unblock
    // the signals that the supervisor blocks, and make this process die with the thread that supervises the session.
    unsafe {
        command.pre_exec(move || {
            let placed = match fd == CONTROL_FD {
                true => libc::fcntl(fd, libc::F_SETFD, 0),
                false => libc::dup2(fd, CONTROL_FD),
            };
            if placed < 0 || libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) < 0 {
                return Err(std::io::Error::last_os_error());
            }
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
            libc::setpgid(0, 0);
            Ok(())
        });
    }
    command.spawn()
}

/// Main function of the compiler service's process. Returns when its session has ended.
pub fn serve_compiler() -> Result<(), WorkerError> {
    // SAFETY: the supervisor starts this process with its end of the control socket as this descriptor; nothing else in the
    // process uses it.
    let control = unsafe { Control::from_raw(CONTROL_FD) };
    let failed = |source| WorkerError::Io { what: "the control socket failed", source };
    control.close_on_exec().map_err(failed)?;
    let mut first = control.receive().map_err(failed)?;
    let (mut budget, mut limited) = (None, None);
    if let Some((Order::Sit { limits, seat }, page)) = first {
        budget = Some(CompileBudget::new(allowance::sit_down(&limits, page, seat, &Arc::default())?));
        limited = Some(limits);
        first = control.receive().map_err(failed)?;
    }
    let Some((Order::Serve { config }, Some(fd))) = first else {
        return Err(WorkerError::Control("the first order must be Serve".to_owned()));
    };
    let stream = UnixStream::from(fd);
    let compiler = Compiler::new(&config).with_budget(budget);
    Service::new(stream, compiler, compile_budget::at_once(limited.as_ref())).serve();
    // Destructors are skipped: compilers that still run exit with this process.
    // SAFETY: ends the process.
    unsafe { libc::_exit(0) }
}

struct Service {
    stream: UnixStream,
    compiler: Compiler,
    writing: Mutex<()>,
    /// How many more tasks may start.
    free: Mutex<usize>,
    freed: Condvar,
}

impl Service {
    fn new(stream: UnixStream, compiler: Compiler, at_once: usize) -> Arc<Service> {
        Arc::new(Service {
            stream,
            compiler,
            writing: Mutex::new(()),
            free: Mutex::new(at_once),
            freed: Condvar::new(),
        })
    }

    /// Handles tasks until the session's process has exited. Tasks beyond the limit wait in the socket. The end of the session
    /// then goes unnoticed here, but the supervisor notices it too and kills this process.
    fn serve(self: Arc<Service>) {
        loop {
            let (ticket, task) = match receive_task(&self.stream) {
                Ok(Some(task)) => task,
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!("compiler service: {error}");
                    return;
                }
            };
            let mut free = self.free.lock();
            while *free == 0 {
                self.freed.wait(&mut free);
            }
            *free -= 1;
            drop(free);
            let service = Arc::clone(&self);
            let work = move || service.work(ticket, task);
            if let Err(error) = std::thread::Builder::new().name("compile".to_owned()).spawn(work) {
                let text = format!("the compiler service cannot start a thread: {error}");
                self.answer(ticket, finished(HIPRTC_ERROR_INTERNAL_ERROR, text));
            }
        }
    }

    fn work(&self, ticket: u64, task: Task) {
        // Reports a panic as a failure: otherwise the session would wait forever.
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.perform(task)));
        let failed = || finished(HIPRTC_ERROR_INTERNAL_ERROR, "the compiler service panicked".to_owned());
        self.answer(ticket, done.unwrap_or_else(|_| failed()));
    }

    fn perform(&self, task: Task) -> Response {
        match task {
            Task::Link(request) => self.compiler.link(&request.isa, &request.inputs),
            Task::Compile(request) => self.compiler.compile(&Request {
                isa: request.isa,
                name: request.name,
                source: request.source,
                headers: request.headers,
                options: request.options,
                expressions: request.expressions,
            }),
        }
    }

    /// Sends a result and frees a slot for another task.
    fn answer(&self, ticket: u64, response: Response) {
        let result = wire::reply::Compile {
            status: response.status.0 as i32,
            log: response.log,
            lowered: response.lowered,
            code: wire::Bytes(response.code),
            bitcode: wire::Bytes(response.bitcode),
        };
        let writing = self.writing.lock();
        // The session's process may have exited, which the reader detects.
        let _ = send_result(&self.stream, ticket, &result);
        drop(writing);
        *self.free.lock() += 1;
        self.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile_channel::{receive_result, send_task};

    #[test]
    fn every_task_is_answered_in_turn_where_only_one_may_run() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let config = CompilerConfig { toolchain: Some("/nonexistent".into()), ..CompilerConfig::default() };
        let service = Service::new(theirs, Compiler::new(&config), 1);
        let served = std::thread::spawn(move || service.serve());
        for ticket in 0..20 {
            let task = match ticket % 2 {
                0 => Task::Compile(wire::Compile::default()),
                _ => Task::Link(wire::Link::default()),
            };
            send_task(&ours, ticket, &task).unwrap();
        }
        let tickets = (0..20).map(|_| receive_result(&ours).unwrap().unwrap().0);
        let mut tickets: Vec<u64> = tickets.collect();
        tickets.sort_unstable();
        assert_eq!(tickets, (0..20).collect::<Vec<_>>());
        drop(ours);
        served.join().unwrap();
    }
}
