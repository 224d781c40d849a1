//! What outlives a connection: how many frames each direction has carried, and which may have to be sent again.
//!
//! Every sequenced frame of a direction is numbered by counting, from 1. Nothing here knows sockets: a sender
//! keeps frames in a [`SendWindow`] until they are acknowledged, a receiver counts with a [`ReceiveCounter`].
//! On reattachment each side says how many frames it has received and the other resends the rest, so a frame
//! is seen exactly once whatever happened to the connections in between.

use std::collections::VecDeque;

use crate::{Ack, Header, WireError};

/// An acknowledgement is due after this many frames ...
pub const ACK_FRAMES: u64 = 128;
/// ... or this many bytes, whichever comes first.
pub const ACK_BYTES: u64 = 1 << 20;

/// The full number of a frame of which only the low 32 bits are known, given a number it must be near.
pub fn widen(low: u32, near: u64) -> u64 {
    let distance = low.wrapping_sub(near as u32) as i32;
    near.wrapping_add_signed(distance.into())
}

/// Whether a frame is to be handled or was handled before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// The next frame, with its number. Handle it, then [`ReceiveCounter::count`] it.
    Next(u64),
    /// Seen before: read its payload off the stream and forget it. Not to be counted.
    Duplicate,
    /// Outside the sequence. Not to be counted.
    Unsequenced,
}

/// Counts the sequenced frames of one direction at their receiver.
#[derive(Clone, Debug, Default)]
pub struct ReceiveCounter {
    received: u64,
    told: u64,
    bytes: u64,
}

impl ReceiveCounter {
    pub fn new() -> ReceiveCounter {
        ReceiveCounter::default()
    }

    /// Goes on counting where another has left off.
    pub fn resumed(received: u64) -> ReceiveCounter {
        ReceiveCounter { received, told: received, bytes: 0 }
    }

    /// Frames received in the whole session.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Classifies a frame by its header, at the worker: requests carry their number, which must be the next.
    pub fn arrive_request(&self, header: &Header) -> Result<Arrival, WireError> {
        if !header.is_sequenced() {
            return Ok(Arrival::Unsequenced);
        }
        let due = self.received + 1;
        let number = widen(header.request_id, due);
        if number == due {
            Ok(Arrival::Next(due))
        } else if number < due {
            Ok(Arrival::Duplicate)
        } else {
            Err(WireError::RequestId { expected: due as u32, found: header.request_id })
        }
    }

    /// Classifies a frame by its header, at the client: the worker's frames are numbered by counting alone.
    pub fn arrive(&self, header: &Header) -> Arrival {
        if header.is_sequenced() { Arrival::Next(self.received + 1) } else { Arrival::Unsequenced }
    }

    /// Counts a sequenced frame. To be called when its last byte was read: a frame cut off in the middle was
    /// not received and comes again.
    pub fn count(&mut self, payload_len: u64) {
        self.received += 1;
        self.bytes = self.bytes.saturating_add(payload_len + Header::BYTES as u64);
    }

    /// Whether the other side should hear how far we are.
    pub fn ack_due(&self) -> bool {
        self.received - self.told >= ACK_FRAMES || (self.bytes >= ACK_BYTES && self.received > self.told)
    }

    /// The acknowledgement to send now, if any frame is unacknowledged.
    pub fn take_ack(&mut self) -> Option<Ack> {
        if self.received == self.told {
            return None;
        }
        self.told = self.received;
        self.bytes = 0;
        Some(Ack { received: self.received })
    }

    /// A handshake has told the other side.
    pub fn told_by_handshake(&mut self) {
        self.told = self.received;
        self.bytes = 0;
    }
}

/// The frames of one direction that were numbered but not yet acknowledged, at their sender.
///
/// `F` is whatever lets the sender produce the frame again: its bytes, or a reference to where they lie. The
/// window is bounded in bytes: the caller asks [`SendWindow::has_room`] before it pushes.
#[derive(Clone, Debug)]
pub struct SendWindow<F> {
    /// Numbers of the frames in `kept` start after this.
    acknowledged: u64,
    kept: VecDeque<(F, u64)>,
    bytes: u64,
    limit: u64,
}

impl<F> SendWindow<F> {
    pub fn new(limit_bytes: u64) -> SendWindow<F> {
        SendWindow { acknowledged: 0, kept: VecDeque::new(), bytes: 0, limit: limit_bytes }
    }

    /// A window that goes on where another has left off, before its kept frames are pushed.
    pub fn resumed(limit_bytes: u64, acknowledged: u64) -> SendWindow<F> {
        SendWindow { acknowledged, ..SendWindow::new(limit_bytes) }
    }

    /// Frames numbered so far.
    pub fn sent(&self) -> u64 {
        self.acknowledged + self.kept.len() as u64
    }

    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    pub fn unacknowledged_bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether a frame of this size fits. An empty window takes any frame, or large ones could never be sent.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.kept.is_empty() || self.bytes.saturating_add(bytes) <= self.limit
    }

    /// Numbers a frame and keeps it. `bytes` is what keeping it costs.
    pub fn push(&mut self, frame: F, bytes: u64) -> u64 {
        self.kept.push_back((frame, bytes));
        self.bytes = self.bytes.saturating_add(bytes);
        self.sent()
    }

    /// The other side has everything up to `received`: forget those frames. Old news is no error.
    pub fn acknowledge(&mut self, received: u64) -> Result<(), WireError> {
        self.acknowledge_each(received, drop)
    }

    /// The same, for a caller with a use for what is forgotten.
    pub fn acknowledge_each(&mut self, received: u64, mut forgotten: impl FnMut(F)) -> Result<(), WireError> {
        if received > self.sent() {
            return Err(WireError::AcknowledgedUnsent { acknowledged: received, sent: self.sent() });
        }
        while self.acknowledged < received {
            if let Some((frame, bytes)) = self.kept.pop_front() {
                self.bytes -= bytes;
                forgotten(frame);
            }
            self.acknowledged += 1;
        }
        Ok(())
    }

    /// A new connection begins and the other side has `received` frames: what must be sent again, in order,
    /// with their numbers.
    pub fn resume(&mut self, received: u64) -> Result<impl Iterator<Item = (u64, &F)>, WireError> {
        if received < self.acknowledged {
            return Err(WireError::NotKept { first: received + 1, last: self.acknowledged });
        }
        self.acknowledge(received)?;
        Ok(self.frames())
    }

    /// Lets the caller change how frames are kept; `change` says what keeping one costs from now on, or that it is as it was.
    pub fn change_each(&mut self, mut change: impl FnMut(&mut F) -> Option<u64>) {
        for (frame, bytes) in &mut self.kept {
            if let Some(now) = change(frame) {
                self.bytes = self.bytes - *bytes + now;
                *bytes = now;
            }
        }
    }

    /// The frame with this number, if it is kept.
    pub fn get(&self, number: u64) -> Option<&F> {
        let index = number.checked_sub(self.acknowledged + 1)?;
        self.kept.get(usize::try_from(index).ok()?).map(|(frame, _)| frame)
    }

    /// All kept frames, in order, with their numbers.
    pub fn frames(&self) -> impl Iterator<Item = (u64, &F)> {
        (self.acknowledged + 1..).zip(self.kept.iter().map(|(frame, _)| frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Flags, Opcode};

    #[test]
    fn a_number_is_widened_across_the_wrap() {
        assert_eq!(widen(5, 0x1_0000_0003), 0x1_0000_0005);
        assert_eq!(widen(0xffff_ffff, 0x1_0000_0003), 0xffff_ffff);
        assert_eq!(widen(2, 0xffff_fff0), 0x1_0000_0002);
    }

    #[test]
    fn requests_out_of_turn_are_refused_and_old_ones_recognised() {
        let mut counter = ReceiveCounter::new();
        let request = |id| Header::new(Opcode::Release, Flags::POSTED, id, 8);
        assert_eq!(counter.arrive_request(&request(1)), Ok(Arrival::Next(1)));
        counter.count(8);
        assert_eq!(counter.arrive_request(&request(1)), Ok(Arrival::Duplicate));
        assert!(counter.arrive_request(&request(3)).is_err());
    }

    #[test]
    fn an_acknowledgement_is_due_after_enough_frames_or_bytes() {
        let mut counter = ReceiveCounter::new();
        for _ in 1..ACK_FRAMES {
            counter.count(0);
            assert!(!counter.ack_due());
        }
        counter.count(0);
        assert!(counter.ack_due());
        assert_eq!(counter.take_ack(), Some(Ack { received: ACK_FRAMES }));
        assert!(!counter.ack_due());
        assert_eq!(counter.take_ack(), None);
        counter.count(ACK_BYTES);
        assert!(counter.ack_due());
    }

    #[test]
    fn the_window_forgets_what_is_acknowledged_and_refuses_nonsense() {
        let mut window = SendWindow::new(10);
        assert!(window.has_room(100));
        assert_eq!(window.push('a', 6), 1);
        assert!(window.has_room(4));
        assert!(!window.has_room(5));
        assert_eq!(window.push('b', 4), 2);
        assert_eq!(window.acknowledge(3), Err(WireError::AcknowledgedUnsent { acknowledged: 3, sent: 2 }));
        window.acknowledge(1).unwrap();
        assert_eq!((window.get(1), window.get(2)), (None, Some(&'b')));
        assert_eq!(window.unacknowledged_bytes(), 4);
        assert_eq!(window.resume(1).unwrap().collect::<Vec<_>>(), [(2, &'b')]);
        assert!(window.resume(0).is_err());
    }
}
