//! Records the results that arrive, and recognizes those that a replay repeats.

use wire::{
    Callback, Checkpointed, EventReached, Field as _, Header, LateError, MirrorState, Opcode, Output,
    StreamReached, decode_request,
};

use super::history::{Content, Hashing, Seen};
use super::{Deferred, Failover, State};
use crate::link::redirect::redirected;
use crate::receive::incoming::{Incoming, ReadError};
use crate::receive::pending::{Destination, Outcome};
use crate::receive::progress::WatchTarget;
use crate::shared::Shared;

/// Bytes of the fields `target` and `stamp` of a watching query, after its header.
const QUERY: std::ops::Range<usize> = Header::BYTES..Header::BYTES + 16;
/// Offset of the field `done` in the reply to a query, after the status.
const DONE: usize = 4;

impl Shared {
    /// Reads the reply to a request if the program already has one, and compares the two. Returns false if it has none.
    pub fn is_repeated_reply(
        &self,
        incoming: &mut Incoming,
        header: &Header,
        opcode: Opcode,
        number: u64,
    ) -> Result<bool, ReadError> {
        let Some(failover) = &self.sending.failover else { return Ok(false) };
        let expected = failover.lock().and_then(|state| state.history.expected(Seen::Reply(number)));
        if expected.is_none() {
            return Ok(false);
        }
        let (mut hashing, mut start) = (Hashing::default(), Vec::new());
        let frame = incoming.frame();
        incoming.pass(header.payload_len, |piece| {
            if start.len() <= DONE {
                start.extend_from_slice(piece);
            }
            hashing.add(piece);
        })?;
        let Some(mut state) = failover.lock() else { return Ok(true) };
        let content = reply_content(header, opcode, &start, || hashing);
        if state.history.confirm(Seen::Reply(number), content, frame).is_err() {
            return Err(diverged(&format!("request {number} ({})", opcode.name())));
        }
        if let Some((target, stamp)) = state.query(number, opcode)
            && let Some(status) = end_of_wait(header, &start)
            && !state.history.confirm_reached(target, stamp, frame)
        {
            // The program has been told that this was not reached, and waits for a notification. The worker, which answers
            // differently this time, will not send one.
            let (opcode, payload) = notification(target, stamp, status);
            if state.defers {
                state.deferred.push(Deferred::Push { frame, opcode, payload });
            } else {
                state.record_push(self.ring.appended(), frame, opcode, &payload)?;
                drop(state);
                self.apply_push(opcode, &payload)?;
            }
        }
        Ok(true)
    }

    /// Records a reply. Returns whether it is kept back until the replay has ended.
    pub fn note_reply(
        &self,
        failover: &Failover,
        frame: u64,
        (number, opcode): (u64, Opcode),
        header: &Header,
        payload: &[u8],
        destination: Option<Destination>,
    ) -> bool {
        let Some(mut state) = failover.lock() else { return false };
        if state.defers {
            let (header, payload) = (*header, payload.to_vec());
            state.deferred.push(Deferred::Reply { frame, number, opcode, header, payload, destination });
            return true;
        }
        self.record_reply(&mut state, frame, (number, opcode), header, payload, destination);
        false
    }

    fn record_reply(
        &self,
        state: &mut State,
        frame: u64,
        (number, opcode): (u64, Opcode),
        header: &Header,
        payload: &[u8],
        destination: Option<Destination>,
    ) {
        let content = reply_content(header, opcode, payload, || {
            let mut hashing = Hashing::default();
            hashing.add(payload);
            if let Some(destination) = destination {
                hashing.add(body_of(&destination));
            }
            hashing
        });
        let after = self.ring.appended();
        state.history.record(Seen::Reply(number), after, frame, content);
        if end_of_wait(header, payload) == Some(0)
            && let Some((target, stamp)) = state.query(number, opcode)
        {
            state.history.record(Seen::Reached(target, stamp), after, frame, Content::default());
        }
    }

    /// Records a piece of an asynchronous read that was written to its destination.
    pub fn note_delivery(
        &self,
        failover: &Failover,
        frame: u64,
        token: u64,
        destination: Destination,
        complete: bool,
    ) {
        let Some(mut state) = failover.lock() else { return };
        let after = self.ring.appended();
        state.history.record_delivery(token, body_of(&destination), complete, after, frame);
    }

    /// Reads a piece of an asynchronous read that is not expected, and compares it if the program has it already.
    pub fn pass_delivery(&self, incoming: &mut Incoming, token: u64, bytes: u64) -> Result<(), ReadError> {
        let frame = incoming.frame();
        let mut result = Ok(());
        incoming.pass(bytes, |piece| {
            let state = self.sending.failover.as_ref().and_then(Failover::lock);
            if let Some(mut state) = state.filter(|state| state.history.is_replaying()) {
                result = std::mem::replace(&mut result, Ok(()))
                    .and_then(|()| state.history.confirm_delivery(token, piece, frame));
            }
        })?;
        result.map_err(|_| diverged("an asynchronous copy to the host"))
    }

    /// Records a push. Returns whether it is to be applied now: not if the program knows it already, or if it is kept back until the
    /// replay has ended.
    pub fn note_push(
        &self,
        failover: &Failover,
        frame: u64,
        opcode: Opcode,
        payload: &mut Vec<u8>,
    ) -> Result<bool, ReadError> {
        let Some(mut state) = failover.lock() else { return Ok(true) };
        let after = self.ring.appended();
        Ok(match opcode {
            Opcode::Output => {
                let (Output { fd }, text) = decode_request(payload)?;
                let bytes = text.len();
                let skipped = state.history.print(fd, bytes as u64, after, frame) as usize;
                let start = payload.len() - bytes;
                payload.drain(start..start + skipped);
                skipped == 0 || skipped < bytes
            }
            Opcode::LateError => {
                let (error, _) = decode_request::<LateError>(payload)?;
                !state.history.fail(error.request_id, error.code, after, frame)
            }
            Opcode::Callback | Opcode::EventReached | Opcode::StreamReached => {
                if state.confirm_push(frame, opcode, payload)? {
                    false
                } else if state.defers {
                    let payload = std::mem::take(payload);
                    state.deferred.push(Deferred::Push { frame, opcode, payload });
                    false
                } else {
                    state.record_push(after, frame, opcode, payload)?;
                    true
                }
            }
            // The state at the end of the replay follows as a whole.
            Opcode::MirrorChanged => !state.history.is_replaying(),
            Opcode::MirrorState => {
                if state.defers {
                    self.reconcile(&mut state, payload)?;
                }
                false
            }
            Opcode::Checkpointed => {
                let (Checkpointed { received, frames, place }, _) = decode_request(payload)?;
                let here = self.links.worker.lock().clone();
                let place = match place.is_empty() {
                    true => Ok(here),
                    false => redirected(&here, &place, &self.config.candidates()),
                };
                match place {
                    Ok(place) => state.checkpointed(received, frames, place),
                    // Nothing is dropped for a checkpoint that this client will not use.
                    Err(text) if std::mem::replace(&mut state.warned, true) => {
                        self.config.host.debug(format_args!("checkpoint: {text}"));
                    }
                    Err(text) => self.config.host.line(format_args!(
                        "failover: checkpoints of this session are not used, so its journal grows: {text}"
                    )),
                }
                false
            }
            Opcode::Spans => !state.history.is_replaying(),
            _ => true,
        })
    }

    /// Compares mirrored memory at the end of a replay.
    fn reconcile(&self, state: &mut State, payload: &[u8]) -> Result<(), ReadError> {
        let (MirrorState { taken, address }, bytes) = decode_request(payload)?;
        if bytes.is_empty() {
            state.defers = false;
            return Ok(());
        }
        if self.arrivals.mirrors.reconcile(taken, address, bytes, state.is_idle) {
            return Err(diverged(&format!("mapped host memory (device address {address:#x})")));
        }
        Ok(())
    }

    /// Applies what was kept back.
    pub fn apply_deferred(&self, failover: &Failover) -> Result<(), ReadError> {
        let Some(deferred) = failover.lock().map(|mut state| std::mem::take(&mut state.deferred)) else {
            return Ok(());
        };
        for it in deferred {
            match it {
                Deferred::Reply { frame, number, opcode, header, payload, destination } => {
                    if let Some(mut state) = failover.lock() {
                        let request = (number, opcode);
                        self.record_reply(&mut state, frame, request, &header, &payload, destination);
                    }
                    self.receiving.pending.lock().settle(number, Outcome::Reply(header, payload));
                }
                Deferred::Push { frame, opcode, payload } => {
                    if let Some(mut state) = failover.lock() {
                        state.record_push(self.ring.appended(), frame, opcode, &payload)?;
                    }
                    self.apply_push(opcode, &payload)?;
                }
            }
        }
        Ok(())
    }
}

impl State {
    /// Target and stamp of a watching query.
    fn query(&mut self, number: u64, opcode: Opcode) -> Option<(WatchTarget, u64)> {
        let target = match opcode {
            Opcode::QueryWatched => WatchTarget::Stream,
            Opcode::QueryEventWatched => WatchTarget::Event,
            _ => return None,
        };
        let mut request = Vec::new();
        self.journal.read(number, number, 1, &mut request).ok()?;
        let (fields, _) = request.get(QUERY)?.as_chunks::<8>();
        Some((target(u64::from_le_bytes(fields[0])), u64::from_le_bytes(fields[1])))
    }

    /// Confirms a push that the program knows. Returns false if it does not know it.
    fn confirm_push(&mut self, frame: u64, opcode: Opcode, payload: &[u8]) -> Result<bool, ReadError> {
        if !self.history.is_replaying() {
            return Ok(false);
        }
        Ok(match seen(opcode, payload)? {
            Some(Seen::Reached(target, stamp)) => self.history.confirm_reached(target, stamp, frame),
            Some(known) if self.history.expected(known).is_some() => {
                self.history.confirm(known, Content::default(), frame).is_ok()
            }
            _ => false,
        })
    }

    fn record_push(
        &mut self,
        after: u64,
        frame: u64,
        opcode: Opcode,
        payload: &[u8],
    ) -> Result<(), ReadError> {
        if let Some(seen) = seen(opcode, payload)? {
            self.history.record(seen, after, frame, Content::default());
        }
        Ok(())
    }
}

/// The result that a push reports.
fn seen(opcode: Opcode, payload: &[u8]) -> Result<Option<Seen>, ReadError> {
    Ok(match opcode {
        Opcode::Callback => {
            let (Callback { token, .. }, _) = decode_request(payload)?;
            Some(Seen::Callback(token))
        }
        Opcode::EventReached => {
            let (EventReached { event, stamp, .. }, _) = decode_request(payload)?;
            Some(Seen::Reached(WatchTarget::Event(event), stamp))
        }
        Opcode::StreamReached => {
            let (StreamReached { stream, stamp, .. }, _) = decode_request(payload)?;
            Some(Seen::Reached(WatchTarget::Stream(stream), stamp))
        }
        _ => None,
    })
}

/// The status of a query's reply after which the worker sends no notification: 0 if what it asks for was reached, or an error.
fn end_of_wait(header: &Header, payload: &[u8]) -> Option<i32> {
    match header.is_error() {
        true => payload.first_chunk().map(|status| i32::from_le_bytes(*status)),
        false => payload.get(DONE).filter(|done| **done != 0).map(|_| 0),
    }
}

/// The push that reports a stamp as reached.
fn notification(target: WatchTarget, stamp: u64, status: i32) -> (Opcode, Vec<u8>) {
    let mut payload = Vec::new();
    let opcode = match target {
        WatchTarget::Event(event) => {
            EventReached { event, stamp, status }.put(&mut payload);
            Opcode::EventReached
        }
        WatchTarget::Stream(stream) => {
            StreamReached { stream, stamp, status }.put(&mut payload);
            Opcode::StreamReached
        }
    };
    (opcode, payload)
}

/// The content of a reply that replay compares: its status if it is an error, since texts name addresses and processes; nothing if it
/// differs from run to run, which also decides whether it is an error: a time is one until the work has ended.
fn reply_content(
    header: &Header,
    opcode: Opcode,
    payload: &[u8],
    whole: impl FnOnce() -> Hashing,
) -> Content {
    if !opcode.reply_is_reproducible() {
        return Content::default();
    }
    if !header.is_error() {
        return whole().content();
    }
    let mut hashing = Hashing::default();
    hashing.add(&payload[..payload.len().min(4)]);
    hashing.content()
}

fn body_of(destination: &Destination) -> &[u8] {
    // SAFETY: the body was just received there by this thread, which holds the reader role; the memory is lent until the program
    // learns that the body has arrived.
    unsafe { std::slice::from_raw_parts(destination.start.as_ptr(), destination.bytes) }
}

fn diverged(what: &str) -> ReadError {
    ReadError::Diverged(format!(
        "replay diverged at {what}: the result differs from the one that the program has received before, so the program or one of \
         its kernels is not deterministic"
    ))
}
