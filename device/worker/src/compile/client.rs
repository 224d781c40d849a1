//! The session's client of its compiler service: requests a service from the supervisor with the first task, sends tasks and
//! waits for results.
//!
//! Starts and opens nothing: the service's socket arrives over the control socket, so a confined process can use it.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use hip_api::types::HIPRTC_ERROR_INTERNAL_ERROR;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::compile::channel::{Task, receive_result, send_task};
use crate::control::{Control, ToSupervisor};
use crate::supervision::Supervision;

/// Timeout for the supervisor to start a service.
const START: Duration = Duration::from_secs(60);

/// Client of this session's compiler service.
#[derive(Debug, Default)]
pub(crate) struct CompileClient {
    /// `None` if there is no supervisor, as in tests.
    control: Option<Arc<Control>>,
    supervision: Arc<Supervision>,
    state: Mutex<State>,
    changed: Condvar,
    writing: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    stream: Option<Arc<UnixStream>>,
    /// A service was requested and the supervisor has not replied yet.
    asked: bool,
    refused: Option<String>,
    waiting: HashMap<u64, Sender<wire::reply::Compile>>,
    tickets: u64,
}

impl CompileClient {
    pub(crate) fn new(control: Arc<Control>, supervision: Arc<Supervision>) -> CompileClient {
        CompileClient { control: Some(control), supervision, ..CompileClient::default() }
    }

    /// Performs a task and waits for its result.
    pub(crate) fn perform(&self, task: &Task) -> wire::reply::Compile {
        let mut result = self.try_perform(task);
        // A service ends with its supervisor, which this process learns only later. So a task is always tried twice.
        if result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
            result = self.try_perform(task);
        }
        result.unwrap_or_else(|error| wire::reply::Compile {
            status: HIPRTC_ERROR_INTERNAL_ERROR.0 as i32,
            log: format!("the worker's compiler service failed: {error}"),
            ..wire::reply::Compile::default()
        })
    }

    fn try_perform(&self, task: &Task) -> io::Result<wire::reply::Compile> {
        let stream = self.connected()?;
        let (sender, result) = channel();
        let mut state = self.state.lock();
        state.tickets += 1;
        let ticket = state.tickets;
        state.waiting.insert(ticket, sender);
        drop(state);
        let writing = self.writing.lock();
        let sent = send_task(&stream, ticket, task);
        drop(writing);
        if let Err(error) = sent {
            self.lose(&stream);
            self.state.lock().waiting.remove(&ticket);
            return Err(error);
        }
        // When the service exits, every sender is dropped.
        let ended = "it ended before it sent the result";
        result.recv().map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, ended))
    }

    /// Returns the socket to the service; requests a service if there is none.
    fn connected(&self) -> io::Result<Arc<UnixStream>> {
        let mut deadline = Instant::now() + START;
        let mut state = self.state.lock();
        loop {
            if let Some(stream) = &state.stream {
                return Ok(Arc::clone(stream));
            }
            if let Some(text) = state.refused.take() {
                return Err(io::Error::other(text));
            }
            if !state.asked {
                let control = self
                    .control
                    .as_ref()
                    .ok_or_else(|| io::Error::other("there is no supervisor to start it"))?;
                control.send(&ToSupervisor::Compiler {}, None)?;
                state.asked = true;
            }
            if self.changed.wait_until(&mut state, deadline).timed_out() {
                if let Some(more) = self.supervision.extension(START) {
                    deadline = Instant::now() + more;
                    continue;
                }
                return Err(io::Error::other(format!("the supervisor did not start it within {START:?}")));
            }
        }
    }

    /// Holds back requests until the value is dropped.
    pub(crate) fn pause(&self) -> PausedCompileClient<'_> {
        PausedCompileClient { control: self.control.as_deref(), state: self.state.lock() }
    }

    /// Handles the supervisor's reply: a socket, or the reason why there is none.
    pub(crate) fn hear(self: &Arc<CompileClient>, refused: Option<String>, socket: Option<OwnedFd>) {
        let mut state = self.state.lock();
        state.asked = false;
        match socket {
            None => state.refused = Some(refused.unwrap_or_else(|| "no socket was sent".to_owned())),
            Some(socket) => {
                let stream = Arc::new(UnixStream::from(socket));
                state.stream = Some(Arc::clone(&stream));
                let client = Arc::clone(self);
                let read = move || client.read(&stream);
                if let Err(error) = std::thread::Builder::new().name("compiler".to_owned()).spawn(read) {
                    state.stream = None;
                    state.refused = Some(format!("cannot start a thread for its results: {error}"));
                }
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Dispatches results to the waiting threads until the service has exited.
    fn read(&self, stream: &Arc<UnixStream>) {
        while let Ok(Some((ticket, result))) = receive_result(stream) {
            if let Some(sender) = self.state.lock().waiting.remove(&ticket) {
                let _ = sender.send(result);
            }
        }
        let _ = stream.shutdown(std::net::Shutdown::Both);
        self.lose(stream);
    }

    /// Forgets a service that has exited, unless another one has replaced it. The next task requests another one.
    fn lose(&self, stream: &Arc<UnixStream>) {
        let mut state = self.state.lock();
        if state.stream.as_ref().is_some_and(|current| Arc::ptr_eq(current, stream)) {
            state.stream = None;
            state.waiting.clear();
        }
    }
}

/// Held-back requests.
pub(crate) struct PausedCompileClient<'a> {
    control: Option<&'a Control>,
    state: MutexGuard<'a, State>,
}

impl PausedCompileClient<'_> {
    /// Requests a service once more if there was no reply.
    pub(crate) fn send_again(&self) {
        if let Some(control) = self.control.filter(|_| self.state.asked) {
            let _ = control.send(&ToSupervisor::Compiler {}, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::channel::{receive_task, send_result};
    use crate::control::ToSession;

    /// A supervisor that hands out sockets, with services that exit with the second task. The first and third answer their first task.
    fn serve(control: &Control) {
        let mut services = 0;
        while let Ok(Some((ToSupervisor::Compiler {}, _))) = control.receive() {
            let (service, session) = UnixStream::pair().unwrap();
            let attached = std::os::fd::AsRawFd::as_raw_fd(&session);
            control.send(&ToSession::Compiler { refused: None }, Some(attached)).unwrap();
            drop(session);
            services += 1;
            let (ticket, _) = receive_task(&service).unwrap().unwrap();
            if services == 2 {
                continue;
            }
            let result = wire::reply::Compile { status: 42, ..wire::reply::Compile::default() };
            send_result(&service, ticket, &result).unwrap();
            // The second task gets no answer.
            let _ = receive_task(&service);
        }
    }

    #[test]
    fn a_service_is_asked_for_once_and_again_when_it_is_gone() {
        let (ours, theirs) = Control::pair().unwrap();
        let ours = Arc::new(ours);
        let client = Arc::new(CompileClient::new(Arc::clone(&ours), Arc::default()));
        let supervisor = std::thread::spawn(move || serve(&theirs));
        let (hearer, control) = (Arc::clone(&client), Arc::clone(&ours));
        let hearing = std::thread::spawn(move || {
            while let Ok(Some((ToSession::Compiler { refused }, socket))) = control.receive() {
                hearer.hear(refused, socket);
            }
        });
        let task = Task::Compile(wire::Compile::default());
        assert_eq!(client.perform(&task).status, 42);
        // The first service and the second one exit while they have the task.
        let failed = client.perform(&task);
        assert!(failed.log.contains("ended before"), "{failed:?}");
        // SAFETY: the descriptor is open as long as the socket is held.
        let end = || unsafe { libc::shutdown(ours.raw_fd(), libc::SHUT_RDWR) };
        assert_eq!(client.perform(&task).status, 42);
        end();
        // The service waits for a task; this closes its socket.
        if let Some(stream) = &client.state.lock().stream {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        supervisor.join().unwrap();
        hearing.join().unwrap();
    }

    #[test]
    fn a_refusal_is_reported_and_does_not_last() {
        let client = Arc::new(CompileClient::default());
        assert!(client.perform(&Task::Link(wire::Link::default())).log.contains("there is no supervisor"));
        client.hear(Some("no processes".to_owned()), None);
        assert!(client.perform(&Task::Link(wire::Link::default())).log.contains("no processes"));
    }
}
