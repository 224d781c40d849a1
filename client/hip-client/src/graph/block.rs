//! Blocks of rows in memory, as graph nodes copy and fill them.

/// Rows of bytes, `pitch` apart, in slices `slice` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    pub address: u64,
    pub pitch: u64,
    pub slice: u64,
    pub width: u64,
    pub height: u64,
    pub depth: u64,
}

impl Block {
    /// One row.
    pub fn row(address: u64, bytes: u64) -> Block {
        Block { address, pitch: bytes, slice: bytes, width: bytes, height: 1, depth: 1 }
    }

    pub fn is_empty(&self) -> bool {
        self.width == 0 || self.height == 0 || self.depth == 0
    }

    /// Bytes from the first to the end of the last.
    pub fn span(&self) -> Option<u64> {
        if self.is_empty() {
            return Some(0);
        }
        let rows = self.pitch.checked_mul(self.height - 1)?;
        self.slice.checked_mul(self.depth - 1)?.checked_add(rows)?.checked_add(self.width)
    }

    pub fn bytes(&self) -> u64 {
        self.width * self.height * self.depth
    }

    pub fn overlaps(&self, other: &Block) -> bool {
        let end = |block: &Block| block.address.saturating_add(block.span().unwrap_or(u64::MAX));
        self.address < end(other) && other.address < end(self)
    }

    /// Whether it is contiguous.
    pub fn is_flat(&self) -> bool {
        (self.height == 1 || self.pitch == self.width)
            && (self.depth == 1 || self.slice == self.width * self.height)
    }

    /// Whether consecutive slices have the same distance as rows, so that all rows form one slice.
    fn is_rows(&self) -> bool {
        self.depth == 1 || self.slice == self.pitch * self.height
    }

    /// The address of each row.
    pub fn row_addresses(self) -> impl Iterator<Item = u64> {
        (0..self.depth)
            .flat_map(move |z| (0..self.height).map(move |y| self.address + z * self.slice + y * self.pitch))
    }

    /// Splits both into blocks with one slice each, as few as possible.
    pub fn slices(to: Block, from: Block) -> Vec<(Block, Block)> {
        if to.is_rows() && from.is_rows() {
            let flat = |it: Block| Block { height: it.height * it.depth, depth: 1, ..it };
            return vec![(flat(to), flat(from))];
        }
        let slice = |it: Block, z: u64| Block { address: it.address + z * it.slice, depth: 1, ..it };
        (0..to.depth).map(|z| (slice(to, z), slice(from, z))).collect()
    }

    /// Copies the rows of a block of the same size, which may overlap this one.
    ///
    /// # Safety
    /// Every row of both is memory of the program, readable there and writable here.
    pub unsafe fn copy_from(&self, from: &Block) {
        for (row, source) in self.row_addresses().zip(from.row_addresses()) {
            // SAFETY: guaranteed by the caller.
            unsafe { std::ptr::copy(source as *const u8, row as *mut u8, self.width as usize) };
        }
    }

    /// Appends the rows, packed.
    ///
    /// # Safety
    /// Every row is readable memory of the program.
    pub unsafe fn gather(&self, into: &mut Vec<u8>) {
        for row in self.row_addresses() {
            // SAFETY: guaranteed by the caller.
            into.extend_from_slice(unsafe {
                std::slice::from_raw_parts(row as *const u8, self.width as usize)
            });
        }
    }

    /// Fills the rows from packed ones.
    ///
    /// # Safety
    /// Every row is writable memory of the program.
    pub unsafe fn scatter(&self, packed: &[u8]) {
        for (row, bytes) in self.row_addresses().zip(packed.chunks_exact(self.width.max(1) as usize)) {
            // SAFETY: guaranteed by the caller.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), row as *mut u8, bytes.len()) };
        }
    }
}
