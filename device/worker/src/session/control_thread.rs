//! The control thread of a session: carries out what the supervisor requests.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use transport::{Link, greet};
use wire::{Hello, RejectCode, capability, decode_request};

use crate::control::{Control, ToSession, ToSupervisor};
use crate::error::WorkerError;
use crate::session::migrate_out::{Departure, ExportError};
use crate::session::shared::{Attachment, Shared, end};

/// How long a program that must run before its session can migrate gets between two attempts.
pub(super) const PROGRAMS_TURN: Duration = Duration::from_millis(100);

impl Shared {
    /// The control thread. Ends the session when the supervisor exits.
    pub(super) fn handle_control(self: &Arc<Shared>, control: &Control) {
        loop {
            match control.receive::<ToSession>() {
                Ok(Some((ToSession::Attach { hello, version }, Some(fd)))) => self.adopt(&hello, version, fd),
                Ok(Some((ToSession::Join { place }, Some(fd)))) => self.join(place, fd),
                Ok(Some((ToSession::Depart { patience_ms }, Some(fd)))) => {
                    let deadline = Instant::now() + Duration::from_millis(patience_ms.into());
                    let link = Link::from_fd(fd);
                    self.ask_to_depart(Departure { link, deadline, waits_for_program: false });
                }
                // A client that keeps no journal could not use it: dropping the link refuses.
                Ok(Some((ToSession::Checkpoint { complete, place }, Some(fd)))) => {
                    if self.connection.keeps_journal.load(Ordering::Relaxed) {
                        self.checkpoints.request(Link::from_fd(fd), complete, place);
                    }
                }
                Ok(Some((ToSession::Observe, Some(fd)))) => self.observe(Link::from_fd(fd)),
                Ok(Some((ToSession::Grown { ticket, granted }, _))) => self.growth.hear(ticket, granted),
                Ok(Some((ToSession::Adopted, _))) => {
                    let _ = self.verdicts.0.lock().send(Ok(()));
                }
                Ok(Some((ToSession::Refused { ticket: 0, text }, _))) => {
                    let _ = self.verdicts.0.lock().send(Err(text));
                }
                Ok(Some((ToSession::Report { ticket }, _))) => {
                    let _ = control.send(&ToSupervisor::Report { ticket, report: self.report() }, None);
                }
                Ok(Some((ToSession::Orphaned, _))) => {
                    self.supervision.orphaned();
                    // A resumed session that was not accepted yet ends: it continues where it came from.
                    let _ = self.verdicts.0.lock().send(Err("the worker was killed".to_owned()));
                }
                Ok(Some((ToSession::Supervised, _))) => self.renew(control),
                Ok(Some((ToSession::Compiler { refused }, socket))) => self.compiler.hear(refused, socket),
                Ok(Some((order, attached))) => {
                    if let Some(order) = self.exchange.hear(order, attached) {
                        tracing::warn!("ignored unexpected order: {order:?}");
                    }
                }
                Ok(None) | Err(_) => end(&self.outgoing, "the supervisor exited"),
            }
        }
    }

    /// Repeats the requests that an earlier supervisor did not answer to the one that has adopted the session. That one ignores requests
    /// before Renewed, so that it gets each exactly once.
    fn renew(&self, control: &Control) {
        let (growth, exchange, compiler) =
            (self.growth.pause(), self.exchange.pause(), self.compiler.pause());
        self.supervision.adopted();
        let _ = control.send(&ToSupervisor::Renewed, None);
        growth.send_again();
        exchange.send_again();
        compiler.send_again();
    }

    /// Hands a new connection to the main thread. Closing the old connection wakes it.
    fn adopt(&self, hello: &[u8], version: u16, fd: OwnedFd) {
        let Ok(hello) = decode_hello(hello) else { return };
        let link = Link::from_fd(fd);
        if hello.capabilities & capability::DIRECT_COPIES_END != 0 {
            self.connection.is_reached_into.store(false, Ordering::SeqCst);
        }
        if self.departing.load(Ordering::SeqCst) {
            // Reattaching may have to wait long; this reject code keeps the client from treating the wait as a broken connection.
            let _ =
                greet::send(&link, &RejectCode::Away.reject("the session is being migrated or suspended"));
            return;
        }
        let attachment = Attachment { link, hello, version };
        // First, so that the old connection is the one that closes.
        self.outgoing.outbox.detach();
        self.connection.strands.lock().clear();
        self.connection.pending.lock().attachment = Some(attachment);
        self.connection.arrived.notify_all();
    }

    /// Keeps a link until the client sends Spread.
    fn join(&self, place: u16, fd: OwnedFd) {
        let link = Link::from_fd(fd);
        // Before the reply: the client may use the link as soon as it receives that.
        self.connection.strands.lock().insert(place, link.clone());
        if greet::send(&link, &wire::Joined {}).is_err() {
            self.connection.strands.lock().remove(&place);
        }
    }

    /// Makes the main thread stop between two requests and migrate the session.
    pub(super) fn ask_to_depart(self: &Arc<Shared>, departure: Departure) {
        if self.ending.load(Ordering::Relaxed) || self.departing.swap(true, Ordering::SeqCst) {
            let text = "the session is ending, or is already being migrated or suspended";
            let _ = greet::send(&departure.link, &RejectCode::Failed.reject(text));
            return;
        }
        let patience = departure.deadline.saturating_duration_since(Instant::now());
        let shared = Arc::clone(self);
        // Enforces the deadline from a separate thread: the main thread may itself be blocked by work that does not end.
        let _ = std::thread::Builder::new().spawn(move || {
            std::thread::sleep(patience + PROGRAMS_TURN);
            let mut pending = shared.connection.pending.lock();
            let late = pending.departure.take_if(|it| it.deadline <= Instant::now());
            drop(pending);
            if let Some(departure) = late {
                shared.departing.store(false, Ordering::SeqCst);
                let error = match departure.waits_for_program {
                    true => ExportError::WaitsForProgram,
                    false => ExportError::TooLong(": the queue is full"),
                };
                let text = error.to_string();
                let _ = greet::send(&departure.link, &RejectCode::Failed.reject(text));
            }
        });
        self.connection.pending.lock().departure = Some(departure);
        // Order matters: a connection that starts after this point finds the departure and detaches itself.
        self.outgoing.outbox.detach();
        self.connection.arrived.notify_all();
    }
}

/// Decodes the Hello that the supervisor passes on with a connection.
pub(super) fn decode_hello(bytes: &[u8]) -> Result<Hello, WorkerError> {
    match decode_request::<Hello>(bytes) {
        Ok((hello, _)) => Ok(hello),
        Err(error) => Err(WorkerError::Control(error.to_string())),
    }
}
