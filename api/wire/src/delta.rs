//! Delta encoding of changes in memory that both sides mirror: only the changed bytes themselves.
//!
//! Both sides may write different bytes of one page at the same time, so a change never contains a byte that its side did not
//! change. This module implements the encoding and the comparison that finds changes; it is independent of where memory is and
//! when it is compared.

#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use crate::WireError;
use crate::codec::length;

/// Size of a change's header: address, span and number of changed bytes.
const HEAD: usize = 16;
/// Maximum gap of unchanged bytes within a change, in words of eight bytes: beyond it, a new header costs less than the mask of
/// the gap.
const GAP: usize = 8;
/// Maximum bytes from the first to the last byte of one change.
const MOST_SPAN: usize = 64 << 10;
const WORD: usize = 8;

/// Appends the differences between `now`, which is located at `address`, and `twin`, and updates the twin to `now`.
pub fn diff(address: u64, now: &[u8], twin: &mut [u8], out: &mut Vec<u8>) {
    assert_eq!(now.len(), twin.len(), "memory and its twin differ in length");
    let (words, tail) = now.as_chunks::<WORD>();
    let (old_words, old_tail) = twin.as_chunks_mut::<WORD>();
    let mut gathering = Gathering { address, length: now.len(), open: None, out };
    let differs = |index: usize, old_words: &[[u8; WORD]]| {
        u64::from_le_bytes(words[index]) ^ u64::from_le_bytes(old_words[index])
    };
    let mut index = 0;
    while index < words.len() {
        let difference = differs(index, old_words);
        if difference == 0 {
            index += 1;
            continue;
        }
        let mask = changed_bytes(difference);
        // A fully overwritten range is encoded as one run.
        let mut end = index + 1;
        if mask == u8::MAX {
            let most = words.len().min(index + MOST_SPAN / WORD);
            while end < most && !has_zero_byte(differs(end, old_words)) {
                end += 1;
            }
        }
        gathering.put(index, mask, &now[index * WORD..end * WORD]);
        old_words[index..end].copy_from_slice(&words[index..end]);
        index = end;
    }
    if tail != old_tail {
        let word = |bytes: &[u8]| {
            let mut word = [0; WORD];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        };
        gathering.put(words.len(), changed_bytes(word(tail) ^ word(old_tail)), tail);
        old_tail.copy_from_slice(tail);
    }
    gathering.close();
}

/// Bit k is set if byte k is not zero.
fn changed_bytes(difference: u64) -> u8 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    // The top bit of every nonzero byte, gathered into the top byte.
    let tops = (((difference & LOW) + LOW) | difference) & !LOW;
    ((tops >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

fn has_zero_byte(word: u64) -> bool {
    word.wrapping_sub(0x0101_0101_0101_0101) & !word & 0x8080_8080_8080_8080 != 0
}

/// Encoder state for the changes in a body.
struct Gathering<'a> {
    address: u64,
    length: usize,
    open: Option<Open>,
    out: &'a mut Vec<u8>,
}

impl Gathering<'_> {
    /// Adds words from `index` on: all their bytes, or, for a single word, the bytes in the mask.
    fn put(&mut self, index: usize, mask: u8, new: &[u8]) {
        let end = index + new.len().div_ceil(WORD);
        if let Some(change) = &self.open
            && (index - change.last > GAP || (end - change.first) * WORD > MOST_SPAN)
        {
            self.close();
        }
        self.open.get_or_insert_with(|| Open::new(index)).put(index, mask, new);
    }

    fn close(&mut self) {
        if let Some(change) = self.open.take() {
            change.close(self.address, self.length, self.out);
        }
    }
}

/// A change under construction; `first` and `last` are word indices.
struct Open {
    first: usize,
    last: usize,
    mask: Vec<u8>,
    bytes: Vec<u8>,
}

impl Open {
    fn new(first: usize) -> Open {
        Open { first, last: first, mask: Vec::new(), bytes: Vec::new() }
    }

    fn put(&mut self, index: usize, mask: u8, new: &[u8]) {
        let words = new.len().div_ceil(WORD);
        self.mask.resize(index - self.first, 0);
        self.mask.resize(index - self.first + words, mask);
        self.last = index + words - 1;
        if mask == u8::MAX {
            self.bytes.extend_from_slice(new);
        } else {
            self.bytes.extend(new.iter().enumerate().filter(|(k, _)| mask & 1 << k != 0).map(|(_, b)| b));
        }
    }

    fn close(&self, address: u64, end: usize, out: &mut Vec<u8>) {
        let start = self.first * WORD;
        // `end` is the end of the compared memory: its last word may be cut off.
        let span = (end - start).min(self.mask.len() * WORD);
        out.extend_from_slice(&(address + start as u64).to_le_bytes());
        out.extend_from_slice(&length(span).to_le_bytes());
        out.extend_from_slice(&length(self.bytes.len()).to_le_bytes());
        if self.bytes.len() != span {
            out.extend_from_slice(&self.mask);
        }
        out.extend_from_slice(&self.bytes);
    }
}

/// One change: some of the `span` bytes at `address`.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Address of the first byte.
    pub address: u64,
    /// Number of bytes from the first changed byte to the last.
    pub span: usize,
    /// One bit per byte of the span; empty if all bytes changed.
    mask: &'a [u8],
    bytes: &'a [u8],
}

impl<'a> Change<'a> {
    /// Calls `put` with each run of changed bytes and its offset from `address`.
    pub fn for_each(&self, mut put: impl FnMut(usize, &'a [u8])) {
        if self.mask.is_empty() {
            return put(0, self.bytes);
        }
        let changed = |at: usize| self.mask[at / 8] & 1 << (at % 8) != 0;
        let (mut at, mut rest) = (0, self.bytes);
        while !rest.is_empty() {
            while !changed(at) {
                at += if at.is_multiple_of(8) && self.mask[at / 8] == 0 { 8 } else { 1 };
            }
            let end = (at..self.span).find(|next| !changed(*next)).unwrap_or(self.span);
            let (bytes, left) = rest.split_at(end - at);
            put(at, bytes);
            (at, rest) = (end, left);
        }
    }
}

/// Iterator over the changes in a body; ends after a malformed one.
#[derive(Clone, Debug)]
pub struct Changes<'a> {
    rest: &'a [u8],
}

impl<'a> Changes<'a> {
    /// Reads the changes in a body.
    pub fn new(body: &'a [u8]) -> Changes<'a> {
        Changes { rest: body }
    }

    fn take(&mut self) -> Result<Change<'a>, WireError> {
        let what = "a change of memory";
        let truncated = |needed: usize, found: usize| WireError::Truncated {
            what,
            needed: needed as u64,
            found: found as u64,
        };
        let (head, rest) = self.rest.split_at_checked(HEAD).ok_or(truncated(HEAD, self.rest.len()))?;
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let address = u64::from(word(0)) | u64::from(word(4)) << 32;
        let (span, count) = (word(8) as usize, word(12) as usize);
        if span == 0 || span > MOST_SPAN || count == 0 || count > span {
            return Err(WireError::Value { what, value: u64::from(word(8)) << 32 | u64::from(word(12)) });
        }
        address.checked_add(span as u64).ok_or(WireError::Value { what, value: address })?;
        let mask_bytes = if count == span { 0 } else { span.div_ceil(8) };
        let needed = mask_bytes + count;
        let (found, rest) = rest.split_at_checked(needed).ok_or(truncated(needed, rest.len()))?;
        let (mask, bytes) = found.split_at(mask_bytes);
        if mask_bytes > 0 {
            let set: usize = mask.iter().map(|byte| byte.count_ones() as usize).sum();
            let beyond = !span.is_multiple_of(8) && mask[mask_bytes - 1] >> (span % 8) != 0;
            if set != count || beyond {
                return Err(WireError::Value { what, value: set as u64 });
            }
        }
        self.rest = rest;
        Ok(Change { address, span, mask, bytes })
    }
}

impl<'a> Iterator for Changes<'a> {
    type Item = Result<Change<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let change = self.take();
        if change.is_err() {
            self.rest = &[];
        }
        Some(change)
    }
}
