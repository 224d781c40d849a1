//! Bulk transfers: device memory is written and read in pieces, deduplicated, compressed or copied directly.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

use wire::{Failure, Flags, Operation, Reach, Read, ReadLater, Write, WriteKept, WriteKnown};

use crate::connection::{COPIED_BODY, Connection};
use crate::os::direct_copy::DirectCopy;
use crate::receive::pending::Destination;
use crate::send::upload;

/// Bulk transfers are split into pieces of this size so that requests of other threads can be interleaved.
const PIECE: usize = 4 << 20;
/// Size of the pieces if several threads on each side share them: they wait for each other at the end of each piece.
const SHARED_PIECE: usize = 8 << 20;
/// Bytes of read requests in flight before the first reply has arrived. Keeps the worker busy: sustains 2 GB/s from the
/// other side of the earth.
const BYTES_AHEAD: usize = 256 << 20;

impl Connection {
    /// Writes device memory in stream order. On return the caller may change `bytes`: they were copied or have arrived.
    pub fn write(&self, stream: u64, destination: u64, bytes: &[u8], cause: u16) -> Result<(), Failure> {
        self.write_checked(stream, destination, bytes, cause, &mut |_| ())
    }

    /// Like [`write`](Self::write). Calls `check` with a number of bytes, growing from call to call, before those are sent.
    pub fn write_checked(
        &self,
        stream: u64,
        destination: u64,
        bytes: &[u8],
        cause: u16,
        check: &mut dyn FnMut(usize),
    ) -> Result<(), Failure> {
        if bytes.len() <= COPIED_BODY {
            check(bytes.len());
            return self.post(&Write { stream, destination }, bytes, cause);
        }
        if let Some(direct) = self.direct_copy(destination, bytes.len()) {
            check(bytes.len());
            self.reach(stream, destination, bytes.len(), cause)?;
            if direct.write(destination, bytes) {
                return Ok(());
            }
        }
        self.shared.consider_extra_links(bytes.len());
        if self.shared.uploads.is_worth_it(destination, bytes.len()) {
            return self.write_kept(stream, destination, bytes, cause, check);
        }
        let start = Instant::now();
        let size = self.piece();
        let mut pieces = bytes.chunks(size).enumerate().peekable();
        while let Some((index, piece)) = pieces.next() {
            let operation = Write { stream, destination: destination + (index * size) as u64 };
            let flags = if pieces.peek().is_some() { Flags::POSTED } else { Flags::NONE };
            check(index * size + piece.len());
            // SAFETY: the reply of the last piece is awaited, and it implies that all earlier pieces have arrived.
            let number = unsafe { self.send_piece(&operation, piece, flags, cause) }?;
            if flags == Flags::NONE {
                self.finish::<Write>(number)?;
            }
        }
        self.shared.uploads.measured(bytes.len(), start);
        Ok(())
    }

    /// Like [`write_checked`](Self::write_checked), but deduplicated by content hash: pieces the worker has are sent as a
    /// hash, others are sent with their hash and the worker stores them.
    fn write_kept(
        &self,
        stream: u64,
        destination: u64,
        bytes: &[u8],
        cause: u16,
        check: &mut dyn FnMut(usize),
    ) -> Result<(), Failure> {
        let shared = &*self.shared;
        let mut asked = Vec::new();
        let mut result = Ok(());
        let mut pieces = bytes.chunks(PIECE).enumerate().peekable();
        while let Some((index, piece)) = pieces.next() {
            let hash = upload::hash(piece);
            let destination = destination + (index * PIECE) as u64;
            check(index * PIECE + piece.len());
            if shared.uploads.is_known(&hash) {
                let operation = WriteKnown { stream, destination, bytes: piece.len() as u64, hash };
                // SAFETY: no memory is lent.
                let number = unsafe { shared.request(&operation, &[], None, Flags::NONE, cause) }?;
                asked.push((number, destination, piece, hash));
                continue;
            }
            let operation = WriteKept { stream, destination, hash };
            let flags = if pieces.peek().is_some() { Flags::POSTED } else { Flags::NONE };
            // SAFETY: the last piece is awaited, whether it is known or not, and its reply implies that all earlier ones
            // have arrived.
            let number = unsafe { self.send_piece(&operation, piece, flags, cause) }?;
            if flags == Flags::NONE {
                result = self.finish::<WriteKept>(number).map(drop);
            }
            shared.uploads.note(&hash);
        }
        for (number, destination, piece, hash) in asked {
            match self.finish::<WriteKnown>(number) {
                // Cache miss: the worker no longer has this content.
                Ok(reply) if !reply.held && result.is_ok() => {
                    let operation = WriteKept { stream, destination, hash };
                    result = self.call_with_body(&operation, piece, cause).map(drop);
                }
                Ok(_) => {}
                Err(failure) => result = result.and(Err(failure)),
            }
        }
        result
    }

    /// The worker's process, if the memory can be copied directly with process_vm_writev or process_vm_readv. Excludes
    /// mirrors: the worker tracks their changes.
    fn direct_copy(&self, address: u64, bytes: usize) -> Option<Arc<DirectCopy>> {
        let direct = self.shared.direct_copy.lock().clone()?;
        self.shared.arrivals.mirrors.host_of(address, bytes as u64).is_none().then_some(direct)
    }

    /// Waits until the stream reaches the point where a copy of this memory, requested now, would run.
    fn reach(&self, stream: u64, address: u64, bytes: usize, cause: u16) -> Result<(), Failure> {
        self.call(&Reach { stream, address, bytes: bytes as u64 }, cause).map(drop)
    }

    /// Reads device memory in stream order, directly into `destination`.
    pub fn read(&self, stream: u64, source: u64, destination: &mut [u8], cause: u16) -> Result<(), Failure> {
        if destination.len() > COPIED_BODY
            && let Some(direct) = self.direct_copy(source, destination.len())
        {
            self.reach(stream, source, destination.len(), cause)?;
            if direct.read(source, destination) {
                return Ok(());
            }
        }
        self.shared.consider_extra_links(destination.len());
        let mut asked = VecDeque::new();
        let mut result = Ok(());
        let size = self.piece();
        for (index, piece) in destination.chunks_mut(size).enumerate() {
            if asked.len() == BYTES_AHEAD / size
                && let Some(number) = asked.pop_front()
            {
                result = result.and(self.finish::<Read>(number).map(drop));
            }
            if result.is_err() {
                break;
            }
            let source = source + (index * size) as u64;
            let operation = Read { stream, source, bytes: piece.len() as u64 };
            let home = self.is_home(source, piece.as_ptr() as u64, piece.len());
            match self.ask_into(&operation, piece, home, cause) {
                Ok(number) => asked.push_back(number),
                Err(failure) => result = Err(failure),
            }
        }
        // Also after a failure: nothing may write to `destination` after this function has returned.
        for number in asked {
            result = result.and(self.finish::<Read>(number).map(drop));
        }
        result
    }

    /// Requests device memory without waiting. The bytes are in `destination` once a later call that synchronizes with
    /// the stream has returned.
    ///
    /// # Safety
    /// `destination` must be valid for writes of `bytes` bytes until then.
    pub unsafe fn read_later(
        &self,
        stream: u64,
        source: u64,
        destination: NonNull<u8>,
        bytes: u64,
        cause: u16,
    ) -> Result<(), Failure> {
        self.shared.consider_extra_links(bytes as usize);
        let token = self.tokens(1);
        let home = self.is_home(source, destination.as_ptr() as u64, bytes as usize);
        let expected = Destination::new(destination, bytes as usize).at_home(home);
        self.shared.arrivals.deliveries.expect(token, expected);
        if let Some(traffic) = self.shared.config.traffic {
            traffic.received(bytes);
        }
        self.post(&ReadLater { stream, source, bytes, token }, &[], cause)
            .inspect_err(|_| self.shared.arrivals.deliveries.forget(token))
    }

    /// Sends one piece of a large transfer, compressed if that pays off. Without `POSTED` the caller must wait for the
    /// reply.
    ///
    /// # Safety
    /// The same as of [`Shared::request`].
    unsafe fn send_piece<O: Operation>(
        &self,
        operation: &O,
        piece: &[u8],
        flags: Flags,
        cause: u16,
    ) -> Result<u64, Failure> {
        match self.shared.uploads.pack(operation, piece) {
            Some((packed, body)) => self.shared.request_shared(&packed, body, flags, cause),
            // SAFETY: guaranteed by the caller.
            None => unsafe { self.shared.request(operation, piece, None, flags, cause) },
        }
    }

    /// Size of the pieces of a transfer.
    fn piece(&self) -> usize {
        if self.shared.links.extra.are_certain() { SHARED_PIECE } else { PIECE }
    }

    /// Whether `source` is the device address of a mirror and `destination` the host address of the same bytes.
    fn is_home(&self, source: u64, destination: u64, bytes: usize) -> bool {
        self.shared.arrivals.mirrors.host_of(source, bytes as u64) == Some(destination)
    }
}
