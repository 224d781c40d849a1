//! The main thread of a session: serves one connection after another, and migrates the session between two requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use transport::{Link, greet};
use wire::{
    Arrival, Header, Hello, MAX_LINKS, Opcode, ReceiveCounter, RejectCode, WireError, capability,
    decode_request,
};

use crate::config::SessionConfig;
use crate::control::ToSupervisor;
use crate::error::one_line;
use crate::request::inbox::{Broken, Inbox};
use crate::request::{Dispatcher, Next, Receipt};
use crate::session::control_thread::PROGRAMS_TURN;
use crate::session::migrate_out::{Departure, Export, ExportError};
use crate::session::shared::{MainWork, Shared, end};

/// Time limit for the queued work of a client that has said goodbye.
const FAREWELL: Duration = Duration::from_secs(30);

impl Shared {
    /// The main thread: serves one connection after another until the session ends.
    pub(super) fn serve(
        self: &Arc<Shared>,
        config: &SessionConfig,
        mut dispatcher: Dispatcher,
        mut counter: ReceiveCounter,
        mut grace: Duration,
    ) -> ! {
        loop {
            self.device.idle(&mut || true);
            let attachment = match self.wait_for_work(grace) {
                Some(MainWork::Attachment(attachment)) => attachment,
                Some(MainWork::Departure(departure)) => {
                    self.depart(departure, &dispatcher, counter.received());
                    // This side closed the connection, so the client has the grace period of a lost one.
                    grace = config.grace_lost;
                    continue;
                }
                None => self.end("its client did not reconnect in time"),
            };
            let link = self.carrier(&attachment);
            let welcome = self.welcome(&attachment, &link, counter.received());
            if let Err(error) = self.outgoing.outbox.attach(link.clone(), &welcome, attachment.hello.received)
            {
                tracing::warn!("session {}: cannot resume the connection: {error}", self.facts.session_id);
                let reject = RejectCode::UnknownSession.reject(error.to_string());
                let _ = greet::send(&attachment.link, &reject);
                self.end("the frame count of its client does not match");
            }
            counter.told_by_handshake();
            let Hello { client, pid, capabilities, .. } = attachment.hello;
            self.connection.wants_beats.store(capabilities & capability::HEARTBEAT != 0, Ordering::Relaxed);
            self.connection.keeps_journal.store(capabilities & capability::REPLAY != 0, Ordering::Relaxed);
            *self.connection.client.lock() = (client, pid);
            if self.connection.pending.lock().departure.is_some() {
                self.outgoing.outbox.detach();
                continue;
            }
            *self.connection.reading.lock() = Some(link.clone());
            let inbox = Inbox::new(link).noting(&self.connection.activity).serving(&self.device);
            let broken = self.read(inbox, &mut dispatcher, &mut counter);
            *self.connection.reading.lock() = None;
            self.outgoing.outbox.detach();
            if self.ending.load(Ordering::Relaxed) {
                self.end("the client disconnected after its goodbye");
            }
            match &broken {
                Broken::Protocol(error) => {
                    tracing::warn!("session {}: connection closed: {error}", self.facts.session_id);
                }
                other => tracing::debug!("session {}: {other}", self.facts.session_id),
            }
            grace = if broken.is_closed() { config.grace_closed } else { config.grace_lost };
        }
    }

    /// Handles the requests of one connection until it breaks.
    fn read(
        self: &Arc<Shared>,
        mut inbox: Inbox,
        dispatcher: &mut Dispatcher,
        counter: &mut ReceiveCounter,
    ) -> Broken {
        loop {
            let step = self.read_one(&mut inbox, dispatcher, counter);
            match step {
                Ok(Next::GoOn) => {}
                Ok(Next::End) => {
                    self.ending.store(true, Ordering::Relaxed);
                    let outgoing = Arc::clone(&self.outgoing);
                    // A watchdog: work that never ends must not keep the process alive after its client has left.
                    let _ = std::thread::Builder::new().spawn(move || {
                        std::thread::sleep(FAREWELL);
                        end(&outgoing, "its queued work did not finish in time after the goodbye");
                    });
                }
                Err(broken) => return broken,
            }
        }
    }

    fn read_one(
        self: &Arc<Shared>,
        inbox: &mut Inbox,
        dispatcher: &mut Dispatcher,
        counter: &mut ReceiveCounter,
    ) -> Result<Next, Broken> {
        if inbox.is_empty() {
            self.checkpoint(dispatcher, counter.received());
            self.device.idle(&mut || inbox.has_news());
        }
        let header = inbox.header()?;
        match counter.arrive_request(&header)? {
            Arrival::Duplicate => {
                inbox.skip(header.payload_len)?;
                Ok(Next::GoOn)
            }
            Arrival::Unsequenced => {
                let payload = inbox.read_vec(header.payload_len)?;
                match header.known() {
                    Ok(Opcode::Spread) => self.spread(inbox, &payload)?,
                    _ => self.unsequenced(&header, &payload)?,
                }
                Ok(Next::GoOn)
            }
            Arrival::Next(number) => {
                self.checkpoint(dispatcher, number - 1);
                let receipt = Receipt { counter: &mut *counter, outbox: &self.outgoing.outbox };
                let next = dispatcher.request(number, &header, inbox, receipt)?;
                // Single writer, so a plain load and store suffice; other threads only read. An observer that sees the count must see
                // the work, too.
                let count = |counter: &AtomicU64, more: u64| {
                    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Release);
                };
                count(&self.counters.requests, 1);
                count(&self.counters.round_trips, u64::from(!header.is_posted()));
                count(&self.counters.bytes_received, Header::BYTES as u64 + header.payload_len);
                if counter.ack_due() && counter.take_ack().is_some() {
                    self.outgoing.outbox.acknowledge();
                }
                Ok(next)
            }
        }
    }

    fn unsequenced(&self, header: &Header, payload: &[u8]) -> Result<(), Broken> {
        match header.known() {
            Ok(Opcode::Ack) => {
                let (ack, _) = decode_request::<wire::Ack>(payload)?;
                self.outgoing.outbox.acknowledged(ack.received)?;
            }
            Ok(Opcode::Ping) => self.outgoing.outbox.pong(),
            Ok(Opcode::Pong) => {}
            Ok(Opcode::ReportMirrors) => self.outgoing.report_mirrors(),
            _ => tracing::warn!(
                "session {}: ignored unexpected {}",
                self.facts.session_id,
                wire::name(header.opcode)
            ),
        }
        Ok(())
    }

    /// Handles Spread: from here on both directions of the connection use several links.
    fn spread(&self, inbox: &mut Inbox, payload: &[u8]) -> Result<(), Broken> {
        let (wire::Spread { links }, _) = decode_request(payload)?;
        let mut joined = self.connection.strands.lock();
        let strands: Vec<Link> = (1..links.min(MAX_LINKS)).map_while(|place| joined.remove(&place)).collect();
        drop(joined);
        if strands.is_empty() || strands.len() + 1 != usize::from(links) {
            let (what, value) = ("the number of links to spread over", links.into());
            return Err(WireError::Value { what, value }.into());
        }
        inbox.spread(strands.clone())?;
        self.outgoing.outbox.spread(strands);
        Ok(())
    }

    /// Migrates the session. Returns if it stays.
    fn depart(self: &Arc<Shared>, departure: Departure, dispatcher: &Dispatcher, received: u64) {
        match self.export(dispatcher, received, |export| export.leave(&departure)) {
            Ok(endpoint) => {
                // Order matters: once the receiver sees Done, the worker must already know where the session is.
                let _ = self.control.send(&ToSupervisor::Left { endpoint }, None);
                let _ = greet::send(&departure.link, &wire::Done { session: self.facts.session_id });
                self.end("it was migrated or suspended");
            }
            Err(ExportError::WaitsForProgram) if Instant::now() + PROGRAMS_TURN < departure.deadline => {
                self.departing.store(false, Ordering::SeqCst);
                let departure = Departure { waits_for_program: true, ..departure };
                let shared = Arc::clone(self);
                // If no thread can be started, the link closes, which tells the requester of the failure.
                let _ = std::thread::Builder::new().spawn(move || {
                    std::thread::sleep(PROGRAMS_TURN);
                    shared.ask_to_depart(departure);
                });
            }
            Err(ExportError::Decided) => {
                self.departing.store(false, Ordering::SeqCst);
                let _ = greet::send(&departure.link, &wire::Done { session: self.facts.session_id });
            }
            Err(error) => {
                let text = one_line(&error);
                tracing::info!("session {} was not migrated: {text}", wire::SessionId(self.facts.session_id));
                self.departing.store(false, Ordering::SeqCst);
                let _ = greet::send(&departure.link, &RejectCode::Failed.reject(text));
            }
        }
    }

    /// Takes a checkpoint between two requests, of which the session has received this many, if one is due.
    #[inline]
    fn checkpoint(self: &Arc<Shared>, dispatcher: &Dispatcher, received: u64) {
        if self.checkpoints.is_due() {
            self.export(dispatcher, received, |export| self.take_checkpoint(export));
        }
    }

    /// Describes the session between two requests, of which it has received this many.
    fn export<T>(&self, dispatcher: &Dispatcher, received: u64, use_it: impl FnOnce(&Export<'_>) -> T) -> T {
        let (client, pid) = self.connection.client.lock().clone();
        use_it(&Export {
            device: &*self.device,
            dispatcher,
            exchange: &self.exchange,
            session_id: self.facts.session_id,
            secret: self.facts.secret,
            client: &client,
            pid,
            worker: &self.facts.worker,
            received,
            is_reached_into: &self.connection.is_reached_into,
            ends_direct_copies: self.connection.ends_direct_copies.load(Ordering::SeqCst),
        })
    }
}
