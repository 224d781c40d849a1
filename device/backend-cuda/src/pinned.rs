//! Pinned host memory in reusable pieces: the GPU copies to and from it without the driver's own staging, which would block.

use std::collections::{HashMap, VecDeque};
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use backend::DeviceError;
use parking_lot::Mutex;

use crate::error::call;
use crate::functions::Functions;
use crate::stream::Mark;
use crate::types::HOST_PORTABLE_MAPPED;

/// Smallest piece.
const LEAST: usize = 256;
/// Smaller pieces than this are cut from a slab of this size.
const SLAB: usize = 2 << 20;

/// Most retired pieces that are looked at when one is needed.
const MOST_LOOKED_AT: usize = 64;

/// Free pieces, by size. Pieces are never returned to the driver: that would wait for all work of the GPU.
pub(crate) struct Pinned {
    functions: Arc<Functions>,
    free: Mutex<HashMap<usize, Vec<usize>>>,
    /// Pieces that are free when the GPU has come to a mark.
    retired: Mutex<Retired>,
}

#[derive(Default)]
struct Retired {
    pieces: VecDeque<(Mark, Piece)>,
    bytes: usize,
}

impl Pinned {
    pub(crate) fn new(functions: &Arc<Functions>) -> Arc<Pinned> {
        Arc::new(Pinned {
            functions: Arc::clone(functions),
            free: Mutex::default(),
            retired: Mutex::default(),
        })
    }

    /// Gives back a piece that commands up to `until` use. Nothing is called when they have ended: the next one who takes a piece
    /// looks.
    pub(crate) fn retire(&self, until: Mark, piece: Piece) {
        let mut retired = self.retired.lock();
        retired.bytes += piece.size;
        retired.pieces.push_back((until, piece));
    }

    /// Bytes of the pieces that commands may still use.
    pub(crate) fn retired_bytes(&self) -> usize {
        self.reclaim();
        self.retired.lock().bytes
    }

    /// Frees the retired pieces that are not used any longer.
    fn reclaim(&self) {
        let mut retired = self.retired.lock();
        let (mut at, mut freed) = (0, Vec::new());
        while at < retired.pieces.len().min(MOST_LOOKED_AT) {
            match retired.pieces[at].0.is_executed() {
                true => freed.extend(retired.pieces.remove(at)),
                // Those behind it are mostly of the same stream.
                false if at > 0 => break,
                false => at += 1,
            }
        }
        retired.bytes -= freed.iter().map(|(_, piece)| piece.size).sum::<usize>();
        // Not locked when the pieces are dropped, and with them perhaps the last owner of a stream, which has one as well.
        drop(retired);
    }

    /// Takes a piece of at least `bytes`. A context must be current.
    pub(crate) fn take(self: &Arc<Pinned>, bytes: usize) -> Result<Piece, DeviceError> {
        let size = bytes.max(LEAST).checked_next_power_of_two();
        let size = size.ok_or_else(|| DeviceError::out_of_memory("no pinned memory of this size"))?;
        let piece = |address| Piece { address, size, pool: Arc::clone(self) };
        self.reclaim();
        let mut free = self.free.lock();
        if let Some(address) = free.get_mut(&size).and_then(Vec::pop) {
            return Ok(piece(address));
        }
        let mut start: *mut c_void = std::ptr::null_mut();
        call!(self.functions, cuMemHostAlloc(&raw mut start, size.max(SLAB), HOST_PORTABLE_MAPPED))?;
        if size < SLAB {
            let rest = (1..SLAB / size).map(|at| start as usize + at * size);
            free.entry(size).or_default().extend(rest);
        }
        Ok(piece(start as usize))
    }
}

/// A piece of pinned memory, which goes back to its pool when it is dropped. Its device address is the same number.
pub(crate) struct Piece {
    address: usize,
    size: usize,
    pool: Arc<Pinned>,
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.pool.free.lock().entry(self.size).or_default().push(self.address);
    }
}

impl Piece {
    pub(crate) fn address(&self) -> u64 {
        self.address as u64
    }

    pub(crate) fn as_ptr(&self) -> *mut c_void {
        self.address as *mut c_void
    }

    /// The first `bytes` of the piece, which the GPU must not access meanwhile.
    pub(crate) fn bytes(&self, bytes: usize) -> &[u8] {
        // SAFETY: the piece owns its memory, which is initialised (the driver zeroes it), and the GPU does not write to it now.
        unsafe { std::slice::from_raw_parts(self.address as *const u8, bytes.min(self.size)) }
    }

    /// The first `bytes` of the piece for writing.
    pub(crate) fn bytes_mut(&mut self, bytes: usize) -> &mut [u8] {
        // SAFETY: as for `bytes`; the piece is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.address as *mut u8, bytes.min(self.size)) }
    }

    /// A word that the GPU may access at the same time.
    pub(crate) fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at + 4 <= self.size, "a word of the piece");
        // SAFETY: inside the piece and aligned; shared with the GPU only through atomic accesses.
        unsafe { AtomicU32::from_ptr((self.address + at) as *mut u32) }
    }
}
