//! The striped stream: one direction of a connection, a byte stream over one link or striped over several.
//!
//! A striped stream is divided into blocks, and block `k` uses link `k` modulo the number of links. A byte's position alone
//! determines its link, so nothing is added to the stream and nothing has to be reordered: each side uses the links in turn.
//! Several connections multiply what one may have in flight, limited by its windows or by the network. Both sides must start
//! striping at the same byte; agreeing on it is the caller's task.
//!
//! Large transfers use the links at the same time, each with a thread of its own where there are enough processors.

use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::crew::{Crew, Latch, Task};
use crate::link::{self, Link, Ready};

/// Block size. Not smaller than any buffer that callers read into: bytes that were read from the first link before the reader
/// learned of the striping must lie in the first block.
pub const BLOCK_BYTES: u64 = 256 << 10;

/// Limit on the slices of one write that may have to be split at the end of a block.
const MAX_SLICES: usize = 32;
/// The smallest transfer that several threads share.
const LARGE_BYTES: usize = 4 * BLOCK_BYTES as usize;
/// Most threads that share one.
const MAX_LANES: usize = 8;

/// One direction of a connection.
#[derive(Debug)]
pub struct StripedStream {
    links: Vec<Link>,
    /// Bytes since the striping began.
    position: u64,
    /// Index of the link that the last operation would have blocked on.
    waits_for: usize,
    /// Number of threads that share a large transfer. Link `k` belongs to lane `k` modulo this number.
    lanes: usize,
    /// These threads, once there was a large transfer.
    crew: Option<Crew>,
}

/// A write that other threads carry out.
#[derive(Debug)]
pub struct LargeWrite<'a> {
    latch: &'a Latch,
    links: &'a [Link],
}

impl LargeWrite<'_> {
    /// Waits until it has ended, or the time is over; returns whether it has.
    pub fn wait(&self, limit: Duration) -> bool {
        self.latch.wait(Some(limit))
    }

    /// Closes the connection, which ends the write.
    pub fn abort(&self) {
        self.links.iter().for_each(Link::shutdown);
    }
}

impl StripedStream {
    /// Starts with one link.
    pub fn new(link: Link) -> StripedStream {
        StripedStream { links: vec![link], position: 0, waits_for: 0, lanes: 1, crew: None }
    }

    /// Stripes the stream over `strands` as well from here on. `ahead` bytes of it have been read already from the first link;
    /// they must be fewer than a block.
    pub fn spread(&mut self, strands: impl IntoIterator<Item = Link>, ahead: u64) {
        debug_assert!(self.links.len() == 1 && ahead < BLOCK_BYTES);
        self.links.extend(strands);
        self.position = ahead;
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
        self.lanes = self.links.len().min(processors).min(MAX_LANES);
    }

    /// Whether several threads share a transfer of this size.
    #[inline]
    pub fn is_large(&self, bytes: usize) -> bool {
        self.lanes > 1 && bytes >= LARGE_BYTES
    }

    /// Whether the stream uses several links.
    pub fn is_spread(&self) -> bool {
        self.links.len() > 1
    }

    /// Waits for bytes and reads some; returns 0 at the end of the stream.
    #[inline]
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.links.len() == 1 {
            return self.links[0].read(buffer);
        }
        let most = self.left_in_block(buffer.len());
        let bytes = self.links[self.current()].read(&mut buffer[..most])?;
        self.position += bytes as u64;
        Ok(bytes)
    }

    /// Like [`StripedStream::read`], but never blocks: fails with `WouldBlock` if no bytes have arrived.
    pub fn try_read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.links.len() == 1 {
            return self.links[0].try_read(buffer);
        }
        let most = self.left_in_block(buffer.len());
        let bytes = self.links[self.current()].try_read(&mut buffer[..most])?;
        self.position += bytes as u64;
        Ok(bytes)
    }

    /// Fills the buffer. Fails if the stream ends first.
    pub fn read_exact(&mut self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read(buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                bytes => buffer = &mut buffer[bytes..],
            }
        }
        Ok(())
    }

    /// Like [`StripedStream::read_exact`]; `note` gets the number of bytes whenever some have come, on any thread.
    pub fn read_large(&mut self, buffer: &mut [u8], note: &(dyn Fn(usize) + Sync)) -> io::Result<()> {
        if !self.is_large(buffer.len()) || !self.has_crew() {
            let mut rest = buffer;
            while !rest.is_empty() {
                match self.read(rest)? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    bytes => {
                        note(bytes);
                        rest = &mut rest[bytes..];
                    }
                }
            }
            return Ok(());
        }
        let mut lanes: Vec<Vec<(&Link, &mut [u8])>> = (0..self.lanes).map(|_| Vec::new()).collect();
        let (mut rest, mut position) = (buffer, self.position);
        while !rest.is_empty() {
            let bytes = left_in_block(position, rest.len());
            let (part, after) = std::mem::take(&mut rest).split_at_mut(bytes);
            let link = link_at(position, self.links.len());
            lanes[link % self.lanes].push((&self.links[link], part));
            position += bytes as u64;
            rest = after;
        }
        let links = &self.links;
        let fill = |lane: Vec<(&Link, &mut [u8])>| {
            let mut parts = lane.into_iter();
            parts.try_for_each(|(link, part)| read_noting(link, part, note)).inspect_err(|_| {
                // Otherwise the other lanes would wait for ever.
                links.iter().for_each(Link::shutdown);
            })
        };
        let own = lanes.pop().unwrap_or_default();
        let tasks = lanes.into_iter().map(|lane| -> Task<'_> { Box::new(move || fill(lane)) }).collect();
        let mut result = Ok(());
        let others = self.crew.as_ref().map_or(Ok(()), |crew| crew.run(tasks, |_| result = fill(own)));
        self.position = position;
        others.and(result)
    }

    /// Writes all bytes; the slices are consumed.
    pub fn write_all_vectored(&mut self, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
        if self.links.len() == 1 {
            return self.links[0].write_all_vectored(slices);
        }
        if self.is_large(slices.iter().map(|slice| slice.len()).sum()) && self.has_crew() {
            return self.write_large(slices, &|| (), |_| ());
        }
        IoSlice::advance_slices(&mut slices, 0);
        while !slices.is_empty() {
            match self.write_some(slices, Link::write_vectored)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                bytes => IoSlice::advance_slices(&mut slices, bytes),
            }
        }
        Ok(())
    }

    /// Writes all bytes.
    pub fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all_vectored(&mut [IoSlice::new(bytes)])
    }

    /// Writes all bytes on other threads. One of them calls `written` as soon as they are written. `meanwhile` may do something
    /// else until then. Bytes that [`StripedStream::try_write_vectored`] has buffered must have been flushed. Fails with
    /// `WouldBlock` if no thread can be started; no transfer counts as large then.
    pub fn write_large(
        &mut self,
        slices: &[IoSlice<'_>],
        written: &(dyn Fn() + Sync),
        meanwhile: impl FnOnce(&LargeWrite<'_>),
    ) -> io::Result<()> {
        if !self.has_crew() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut lanes: Vec<Vec<(&Link, Vec<IoSlice<'_>>)>> = (0..self.lanes).map(|_| Vec::new()).collect();
        let mut position = self.position;
        for slice in slices {
            let mut rest: &[u8] = slice;
            while !rest.is_empty() {
                let (part, after) = rest.split_at(left_in_block(position, rest.len()));
                let index = link_at(position, self.links.len());
                let (link, lane) = (&self.links[index], &mut lanes[index % self.lanes]);
                match lane.last_mut() {
                    Some((last, parts)) if std::ptr::eq(*last, link) => parts.push(IoSlice::new(part)),
                    _ => lane.push((link, vec![IoSlice::new(part)])),
                }
                position += part.len() as u64;
                rest = after;
            }
        }
        let links = &self.links;
        let left = AtomicUsize::new(lanes.len());
        let send = |lane: Vec<(&Link, Vec<IoSlice<'_>>)>| {
            let mut parts = lane.into_iter();
            let sent = parts.try_for_each(|(link, mut part)| link.write_all_vectored(&mut part));
            match sent {
                Ok(()) if left.fetch_sub(1, Ordering::AcqRel) == 1 => written(),
                Ok(()) => {}
                Err(_) => links.iter().for_each(Link::shutdown),
            }
            // A write that did not end in time is not one that can be tried again.
            sent.map_err(|error| match error.kind() {
                io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
                _ => error,
            })
        };
        let tasks = lanes.into_iter().map(|lane| -> Task<'_> { Box::new(move || send(lane)) }).collect();
        let result = self
            .crew
            .as_ref()
            .map_or(Ok(()), |crew| crew.run(tasks, |latch| meanwhile(&LargeWrite { latch, links })));
        self.position = position;
        result
    }

    /// Writes what fits without blocking; fails with `WouldBlock` if nothing does.
    #[inline]
    pub fn try_write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.links.len() == 1 {
            return self.links[0].try_write_vectored(slices);
        }
        self.write_some(slices, Link::try_write_vectored)
    }

    /// Passes bytes that [`StripedStream::try_write_vectored`] has buffered to the kernel; returns false while some are left.
    #[inline]
    pub fn try_flush(&mut self) -> io::Result<bool> {
        for (index, link) in self.links.iter().enumerate() {
            if !link.try_flush()? {
                self.waits_for = index;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits until this direction is writable.
    pub fn wait_writable(&self, timeout: Option<Duration>) -> io::Result<Ready> {
        self.links[self.waits_for].wait(false, true, timeout)
    }

    /// Waits until this direction is readable.
    pub fn wait_readable(&self, timeout: Option<Duration>) -> io::Result<Ready> {
        self.links[self.current()].wait(true, false, timeout)
    }

    /// Waits until this direction is writable, or `incoming` is readable.
    pub fn wait_either(&self, incoming: &StripedStream, timeout: Option<Duration>) -> io::Result<Ready> {
        let readable = &incoming.links[incoming.current()];
        link::wait(Some(readable), Some(&self.links[self.waits_for]), timeout)
    }

    /// Whether a read would return at once, with bytes or with the end of the stream.
    pub fn has_news(&self) -> bool {
        self.links[self.current()].has_news()
    }

    /// Whether a small write would not block.
    pub fn has_room(&self) -> bool {
        self.links[self.current()].has_room()
    }

    /// Closes the connection in both directions and wakes every thread that waits on it.
    pub fn shutdown(&self) {
        self.links.iter().for_each(Link::shutdown);
    }

    #[inline]
    fn current(&self) -> usize {
        link_at(self.position, self.links.len())
    }

    fn left_in_block(&self, bytes: usize) -> usize {
        left_in_block(self.position, bytes)
    }

    /// Starts the threads for large transfers if there are none. Without them everything is read and written by one thread.
    fn has_crew(&mut self) -> bool {
        if self.crew.is_none() && self.lanes > 1 {
            match Crew::start(self.lanes) {
                Ok(crew) => self.crew = Some(crew),
                Err(_) => self.lanes = 1,
            }
        }
        self.crew.is_some()
    }

    fn write_some(
        &mut self,
        slices: &[IoSlice<'_>],
        write: impl Fn(&Link, &[IoSlice<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let current = self.current();
        if self.position.is_multiple_of(BLOCK_BYTES) {
            // Flushes the previous link first: the peer needs the end of the previous block next, and bytes that TLS still
            // buffers would never be sent.
            let before = (current + self.links.len() - 1) % self.links.len();
            if !self.links[before].try_flush()? {
                self.waits_for = before;
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        let mut left = self.left_in_block(usize::MAX);
        let mut cut = [IoSlice::new(&[]); MAX_SLICES];
        let mut count = 0;
        for slice in slices.iter().take(MAX_SLICES) {
            let bytes = slice.len().min(left);
            cut[count] = IoSlice::new(&slice[..bytes]);
            count += 1;
            left -= bytes;
            if left == 0 {
                break;
            }
        }
        self.waits_for = current;
        let bytes = write(&self.links[current], &cut[..count])?;
        self.position += bytes as u64;
        Ok(bytes)
    }
}

/// Index of the link that carries the byte at a position.
#[inline]
fn link_at(position: u64, links: usize) -> usize {
    (position / BLOCK_BYTES % links as u64) as usize
}

/// How many of `bytes` bytes from a position on lie in its block.
fn left_in_block(position: u64, bytes: usize) -> usize {
    bytes.min((BLOCK_BYTES - position % BLOCK_BYTES) as usize)
}

fn read_noting(link: &Link, mut buffer: &mut [u8], note: &(dyn Fn(usize) + Sync)) -> io::Result<()> {
    while !buffer.is_empty() {
        match link.read(buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            bytes => {
                note(bytes);
                buffer = &mut buffer[bytes..];
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams(strands: usize) -> (StripedStream, StripedStream) {
        let (left, right): (Vec<_>, Vec<_>) = (0..strands).map(|_| Link::pair().unwrap()).unzip();
        let stream = |links: Vec<Link>| {
            let mut links = links.into_iter();
            let mut stream = StripedStream::new(links.next().unwrap());
            if strands > 1 {
                stream.spread(links, 0);
            }
            stream
        };
        (stream(left), stream(right))
    }

    fn data(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at % 251) as u8 ^ (at >> 16) as u8).collect()
    }

    #[test]
    fn bytes_come_in_order_over_any_number_of_links_and_in_any_portions() {
        let block = BLOCK_BYTES as usize;
        for strands in [1, 2, 3, 8] {
            let (mut to, mut from) = streams(strands);
            let sent = data(7 * block + 12345);
            let expected = sent.clone();
            let writer = std::thread::spawn(move || {
                let mut rest = &sent[..];
                for portion in [1, 100, block - 101, block, 3 * block + 7, usize::MAX] {
                    let (now, later) = rest.split_at(portion.min(rest.len()));
                    let (head, body) = now.split_at(now.len() / 3);
                    to.write_all_vectored(&mut [IoSlice::new(head), IoSlice::new(body)]).unwrap();
                    rest = later;
                }
            });
            let mut got = vec![0; expected.len()];
            let mut at = 0;
            for portion in [10, 2 * block, 5, block + 1, usize::MAX] {
                let end = at + portion.min(got.len() - at);
                from.read_exact(&mut got[at..end]).unwrap();
                at = end;
            }
            writer.join().unwrap();
            assert!(got == expected, "{strands} strands");
            assert_eq!(from.read(&mut [0]).unwrap(), 0, "the end of the stream");
        }
    }

    #[test]
    fn large_transfers_by_several_threads_are_the_same_stream() {
        let block = BLOCK_BYTES as usize;
        for (strands, lanes) in [(2, 2), (3, 2), (4, 4), (6, 5)] {
            let (mut to, mut from) = streams(strands);
            (to.lanes, from.lanes) = (lanes, lanes);
            let sent = data(40 * block + 777);
            let expected = sent.clone();
            let writer = std::thread::spawn(move || {
                let mut rest = &sent[..];
                // Small and large writes in turn, from any place of a block.
                for portion in [3, 9 * block + 5, 100, 16 * block, usize::MAX] {
                    let (now, later) = rest.split_at(portion.min(rest.len()));
                    let (head, body) = now.split_at(now.len().min(28));
                    to.write_all_vectored(&mut [IoSlice::new(head), IoSlice::new(body)]).unwrap();
                    rest = later;
                }
            });
            let (mut got, mut at) = (vec![0; expected.len()], 0);
            let noted = AtomicUsize::new(0);
            for portion in [1000, 12 * block, 7, 5 * block - 1, usize::MAX] {
                let end = at + portion.min(got.len() - at);
                let note = |bytes| {
                    noted.fetch_add(bytes, Ordering::Relaxed);
                };
                from.read_large(&mut got[at..end], &note).unwrap();
                at = end;
            }
            writer.join().unwrap();
            assert!(got == expected, "{strands} links, {lanes} threads");
            assert_eq!(noted.load(Ordering::Relaxed), expected.len());
        }
    }

    #[test]
    fn a_link_that_ends_ends_a_large_transfer_on_all_of_them() {
        let (to, mut from) = streams(4);
        from.lanes = 4;
        let reader = std::thread::spawn(move || from.read_large(&mut vec![0; 8 << 20], &|_| ()));
        to.links[2].shutdown();
        assert_eq!(reader.join().unwrap().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let (mut to, from) = streams(4);
        to.lanes = 4;
        let bytes = data(64 << 20);
        let result = to.has_crew().then(|| {
            to.write_large(&[IoSlice::new(&bytes)], &|| panic!("it cannot be written"), |write| {
                assert!(!write.wait(Duration::from_millis(20)), "nobody reads");
                write.abort();
            })
        });
        assert!(result.is_some_and(|result| result.is_err()));
        drop(from);
    }

    #[test]
    fn what_was_read_ahead_counts_as_part_of_the_first_block() {
        let (first_out, first_in) = Link::pair().unwrap();
        let (second_out, second_in) = Link::pair().unwrap();
        let sent = data(3 * BLOCK_BYTES as usize);
        let expected = sent.clone();
        let writer = std::thread::spawn(move || {
            let mut to = StripedStream::new(first_out);
            to.write_all(b"spread").unwrap();
            to.spread([second_out], 0);
            to.write_all(&sent).unwrap();
        });
        let mut from = StripedStream::new(first_in);
        let mut buffer = vec![0; BLOCK_BYTES as usize];
        let read = from.read(&mut buffer).unwrap();
        let ahead = read - b"spread".len();
        from.spread([second_in], ahead as u64);
        let mut got = buffer[b"spread".len()..read].to_vec();
        got.resize(expected.len(), 0);
        from.read_exact(&mut got[ahead..]).unwrap();
        writer.join().unwrap();
        assert!(got == expected);
    }

    #[test]
    fn a_writer_that_does_not_wait_fills_each_link_in_turn() {
        let (mut to, mut from) = streams(2);
        let sent = data(6 * BLOCK_BYTES as usize);
        let (mut written, mut got) = (0, Vec::new());
        let mut buffer = vec![0; 64 << 10];
        while got.len() < sent.len() {
            match to.try_write_vectored(&[IoSlice::new(&sent[written..])]) {
                Ok(bytes) if written < sent.len() => written += bytes,
                Ok(_) => {}
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
            while from.has_news() && got.len() < sent.len() {
                let bytes = from.read(&mut buffer).unwrap();
                got.extend_from_slice(&buffer[..bytes]);
            }
        }
        assert!(got == sent);
    }
}
