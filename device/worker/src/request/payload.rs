//! The payload of one request, read from the inbox.
//!
//! A frame is always read to its end, even if it is invalid, so that the start of the next one is found.

use limits::HostCharge;
use wire::{Header, ReceiveCounter};

use crate::outgoing::outbox::Outbox;
use crate::request::answer::RequestError;
use crate::request::inbox::{BUFFER_BYTES, Broken, Inbox};

/// Counts a request once its last byte has arrived.
pub(crate) struct Receipt<'a> {
    pub(crate) counter: &'a mut ReceiveCounter,
    pub(crate) outbox: &'a Outbox,
}

/// What is still to be read of a request.
pub(crate) struct Payload<'a> {
    inbox: &'a mut Inbox,
    unread: Unread<'a>,
    /// Bytes that do not fit into the inbox's buffer, and the host memory charged for them.
    large: Vec<u8>,
    charge: Option<HostCharge>,
}

/// Number of bytes that have not been read yet.
struct Unread<'a> {
    bytes: u64,
    header: Header,
    receipt: Receipt<'a>,
    counted: bool,
}

impl Unread<'_> {
    /// Accounts for bytes that were read. Counts the request with its last byte.
    fn took(&mut self, bytes: u64) {
        self.bytes -= bytes;
        if self.bytes == 0 && !self.counted {
            self.counted = true;
            let Receipt { counter, outbox } = &mut self.receipt;
            counter.count(self.header.payload_len);
            outbox.count(counter.received());
            if !self.header.is_posted() {
                outbox.owe();
            }
        }
    }
}

impl<'a> Payload<'a> {
    pub(super) fn new(header: &Header, inbox: &'a mut Inbox, receipt: Receipt<'a>) -> Payload<'a> {
        let mut unread = Unread { bytes: header.payload_len, header: *header, receipt, counted: false };
        // A payload may have no bytes.
        unread.took(0);
        Payload { inbox, unread, large: Vec::new(), charge: None }
    }

    /// Returns the number of bytes that are still to be read.
    pub(super) fn bytes(&self) -> u64 {
        self.unread.bytes
    }

    /// Whether the bytes do not fit into the inbox's buffer, so that reading them as a whole takes memory.
    pub(super) fn is_large(&self) -> bool {
        self.unread.bytes > BUFFER_BYTES as u64
    }

    /// Keeps the charge for the payload's memory as long as the payload.
    pub(super) fn charge(&mut self, charge: HostCharge) {
        self.charge = Some(charge);
    }

    /// Reads everything into `destination`, which has as many bytes as remain.
    pub(super) fn read_into(&mut self, destination: &mut [u8]) -> Result<(), Broken> {
        self.inbox.read_into(destination)?;
        self.unread.took(destination.len() as u64);
        Ok(())
    }

    /// Reads everything into a new vector, which grows only as bytes arrive.
    pub(super) fn read_vec(&mut self) -> Result<Vec<u8>, Broken> {
        let data = self.inbox.read_vec(self.unread.bytes)?;
        self.unread.took(self.unread.bytes);
        Ok(data)
    }

    /// Reads and discards everything.
    pub(super) fn skip(&mut self) -> Result<(), Broken> {
        self.inbox.skip(self.unread.bytes)?;
        self.unread.took(self.unread.bytes);
        Ok(())
    }
}

impl wire::Payload for Payload<'_> {
    type Error = RequestError;

    fn remaining(&self) -> u64 {
        self.unread.bytes
    }

    fn fields(&mut self, bytes: usize) -> Result<&[u8], RequestError> {
        let fields = self.inbox.take(bytes)?;
        self.unread.took(bytes as u64);
        Ok(fields)
    }

    fn whole(&mut self) -> Result<&[u8], RequestError> {
        if !self.is_large() {
            return self.fields(self.unread.bytes as usize);
        }
        self.large = self.read_vec()?;
        Ok(&self.large)
    }
}
