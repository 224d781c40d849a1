//! Session state that survives reconnects: frame counters of each direction, and the frames that may have to be resent.
//!
//! The sequenced frames of each direction are numbered from 1. This module is independent of sockets: a sender keeps frames in a
//! [`SendWindow`] until they are acknowledged, a receiver counts them with a [`ReceiveCounter`]. On reconnect, each side reports
//! how many frames it has received and the other resends the rest, so every frame is processed exactly once, however often the
//! connection was lost.

#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use std::collections::VecDeque;

use crate::{Ack, Header, WireError};

/// An acknowledgement is due after this many frames,
pub const ACK_FRAMES: u64 = 128;
/// or after this many bytes, whichever comes first.
pub const ACK_BYTES: u64 = 1 << 20;

/// Reconstructs a full frame number from its low 32 bits, given a number close to it.
pub fn widen(low: u32, near: u64) -> u64 {
    let distance = low.wrapping_sub(low_bits(near)).cast_signed();
    near.wrapping_add_signed(distance.into())
}

/// The low 32 bits of a frame number, which is what frames carry.
fn low_bits(number: u64) -> u32 {
    (number & 0xffff_ffff) as u32
}

/// Classification of a received frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// The next frame, with its number. Process it, then call [`ReceiveCounter::count`].
    Next(u64),
    /// Already received: read its payload from the stream and discard it. Do not count it.
    Duplicate,
    /// Outside the sequence. Do not count it.
    Unsequenced,
}

/// Counts the sequenced frames of one direction at the receiver.
#[derive(Clone, Debug, Default)]
pub struct ReceiveCounter {
    received: u64,
    last_ack: u64,
    bytes: u64,
}

impl ReceiveCounter {
    /// Starts before the first frame.
    pub fn new() -> ReceiveCounter {
        ReceiveCounter::default()
    }

    /// Creates a counter that continues from an earlier one.
    pub fn resumed(received: u64) -> ReceiveCounter {
        ReceiveCounter { received, last_ack: received, bytes: 0 }
    }

    /// Number of frames received in the whole session.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Classifies a frame at the worker: requests carry their number, which must be the next one.
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
            Err(WireError::RequestId { expected: low_bits(due), found: header.request_id })
        }
    }

    /// Classifies a frame at the client: the worker's frames carry no number, and are numbered by counting.
    pub fn arrive(&self, header: &Header) -> Arrival {
        if header.is_sequenced() { Arrival::Next(self.received + 1) } else { Arrival::Unsequenced }
    }

    /// Counts a sequenced frame. Call it after the last byte was read: a frame that was cut off does not count as received and is
    /// resent.
    pub fn count(&mut self, payload_len: u64) {
        self.received += 1;
        self.bytes = self.bytes.saturating_add(payload_len + Header::BYTES as u64);
    }

    /// Whether an acknowledgement should be sent now.
    pub fn ack_due(&self) -> bool {
        self.received - self.last_ack >= ACK_FRAMES
            || (self.bytes >= ACK_BYTES && self.received > self.last_ack)
    }

    /// Returns the acknowledgement to send, if any frame is unacknowledged.
    pub fn take_ack(&mut self) -> Option<Ack> {
        if self.received == self.last_ack {
            return None;
        }
        self.last_ack = self.received;
        self.bytes = 0;
        Some(Ack { received: self.received })
    }

    /// Records that a handshake has reported the count to the other side.
    pub fn told_by_handshake(&mut self) {
        self.last_ack = self.received;
        self.bytes = 0;
    }
}

/// Frames of one direction that were sent but not yet acknowledged, at the sender.
///
/// `F` is anything from which the sender can reproduce the frame: its bytes, or a reference to them. The window is limited in
/// bytes: call [`SendWindow::has_room`] before pushing.
#[derive(Clone, Debug)]
pub struct SendWindow<F> {
    /// Number of the last acknowledged frame; `kept` starts with the next one.
    acknowledged: u64,
    kept: VecDeque<(F, u64)>,
    bytes: u64,
    limit: u64,
}

impl<F> SendWindow<F> {
    /// Creates a window for at most `limit_bytes` of unacknowledged frames.
    pub fn new(limit_bytes: u64) -> SendWindow<F> {
        SendWindow { acknowledged: 0, kept: VecDeque::new(), bytes: 0, limit: limit_bytes }
    }

    /// Creates a window that continues from an earlier one, before its kept frames are pushed.
    pub fn resumed(limit_bytes: u64, acknowledged: u64) -> SendWindow<F> {
        SendWindow { acknowledged, ..SendWindow::new(limit_bytes) }
    }

    /// Number of frames sent so far.
    pub fn sent(&self) -> u64 {
        self.acknowledged + self.kept.len() as u64
    }

    /// Number of the last frame that the peer has acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Size of all frames that are kept.
    pub fn unacknowledged_bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether a frame of this size fits. An empty window accepts any frame; otherwise large frames could never be sent.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.kept.is_empty() || self.bytes.saturating_add(bytes) <= self.limit
    }

    /// Numbers a frame and keeps it. `bytes` is the memory that keeping it costs.
    pub fn push(&mut self, frame: F, bytes: u64) -> u64 {
        self.kept.push_back((frame, bytes));
        self.bytes = self.bytes.saturating_add(bytes);
        self.sent()
    }

    /// Drops the frames up to `received`, which the other side has acknowledged. An outdated acknowledgement is not an error.
    pub fn acknowledge(&mut self, received: u64) -> Result<(), WireError> {
        self.acknowledge_each(received, drop)
    }

    /// Like [`SendWindow::acknowledge`], but passes each dropped frame to the caller.
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

    /// Starts a new connection to a peer that has received `received` frames. Returns the frames to resend, in order, with their
    /// numbers.
    pub fn resume(&mut self, received: u64) -> Result<impl Iterator<Item = (u64, &F)>, WireError> {
        if received < self.acknowledged {
            return Err(WireError::NotKept { first: received + 1, last: self.acknowledged });
        }
        self.acknowledge(received)?;
        Ok(self.frames())
    }

    /// Lets the caller change kept frames. `change` returns the new cost of keeping the frame, or `None` if it is unchanged.
    pub fn change_each(&mut self, mut change: impl FnMut(&mut F) -> Option<u64>) {
        for (frame, bytes) in &mut self.kept {
            if let Some(now) = change(frame) {
                self.bytes = self.bytes - *bytes + now;
                *bytes = now;
            }
        }
    }

    /// Returns the frame with this number, if it is kept.
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
    fn the_window_drops_acknowledged_frames_and_rejects_invalid_counts() {
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
