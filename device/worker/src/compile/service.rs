//! The compiler service of one session: a separate process, because the session's own is confined and cannot start processes.
//!
//! The supervisor starts it when the session first compiles. It reads tasks from a socket to the session's process, runs
//! compilers in sandboxes and returns results. When the session's process exits, the socket closes, and the service exits
//! together with every compiler it started. It trusts the session's process with nothing but the right to compile.

use std::os::unix::net::UnixStream;
use std::sync::Arc;

use hip_api::types::HIPRTC_ERROR_INTERNAL_ERROR;
use parking_lot::{Condvar, Mutex};

use crate::compile::budget::{self, CompileBudget};
use crate::compile::channel::{Task, receive_task, send_result};
use crate::compile::compiler::Compiler;
use crate::compile::task::{Request, Response, finished};
use crate::control::{CONTROL_FD, Control, ToSession};
use crate::error::WorkerError;
use crate::seat::occupy_seat;

/// Main function of the compiler service's process. Returns when its session has ended.
pub fn serve_compiler() -> Result<(), WorkerError> {
    // SAFETY: the supervisor starts this process with its end of the control socket as this descriptor; nothing else in the
    // process uses it.
    let control = unsafe { Control::from_raw(CONTROL_FD) };
    let failed = |source| WorkerError::Io { what: "the control socket failed", source };
    control.close_on_exec().map_err(failed)?;
    let mut first = control.receive().map_err(failed)?;
    let (mut charged, mut limited) = (None, None);
    if let Some((ToSession::Sit { limits, seat }, page)) = first {
        charged = Some(CompileBudget::new(occupy_seat(&limits, page, seat, &Arc::default())?));
        limited = Some(limits);
        first = control.receive().map_err(failed)?;
    }
    let Some((ToSession::Serve { config }, Some(fd))) = first else {
        return Err(WorkerError::Control("the first order must be Serve".to_owned()));
    };
    let stream = UnixStream::from(fd);
    let compiler = Compiler::new(&config).with_budget(charged);
    Service::new(stream, compiler, budget::at_once(limited.as_ref())).serve();
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
    use crate::compile::channel::{receive_result, send_task};
    use crate::compile::task::CompilerConfig;

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
