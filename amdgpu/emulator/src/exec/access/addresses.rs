//! One host address per lane, and the patterns in which lanes access memory.

use crate::Lanes;

/// One host address per lane.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Addresses(pub [u64; 64]);

impl Addresses {
    /// Sets the address of every inactive lane to that of the first active lane. `exec` must not be zero.
    #[inline(always)]
    pub fn fill_inactive(&mut self, exec: u64) {
        if exec != !0 {
            let first = self.0[exec.trailing_zeros() as usize & 63];
            for (lane, address) in self.0.iter_mut().enumerate() {
                *address = if exec >> lane & 1 != 0 { *address } else { first };
            }
        }
    }

    #[inline(always)]
    pub fn bounds(&self) -> (u64, u64) {
        let (mut low, mut high) = (u64::MAX, 0);
        for address in &self.0 {
            low = low.min(*address);
            high = high.max(*address);
        }
        (low, high)
    }

    /// Returns true if the address of each lane `i` is `step * i` bytes past that of lane 0.
    #[inline(always)]
    pub fn is_unit(&self, step: u64) -> bool {
        let first = self.0[0];
        let mut off = 0;
        for (lane, address) in self.0.iter().enumerate() {
            off |= *address ^ first.wrapping_add(step * lane as u64);
        }
        off == 0
    }
}

/// Returns the start address if the 64-bit addresses in a register pair form one contiguous row of 64 dwords.
#[inline(always)]
pub(crate) fn row_start(low: &Lanes, high: &Lanes) -> Option<u64> {
    let (first, above) = (low.0[0], high.0[0]);
    let mut off = 0;
    for lane in 0..64 {
        off |= low.0[lane] ^ first.wrapping_add(4 * lane as u32) | high.0[lane] ^ above;
    }
    // A row that crosses a multiple of 4 GiB does not have a single high dword.
    (off == 0 && first <= u32::MAX - 252).then_some(u64::from(above) << 32 | u64::from(first))
}

/// Like [`row_start`], for 32-bit offsets from a base.
#[inline(always)]
pub(crate) fn row_start_from(base: u64, offsets: &Lanes) -> Option<u64> {
    let first = offsets.0[0];
    let mut off = 0;
    for lane in 0..64 {
        off |= offsets.0[lane] ^ first.wrapping_add(4 * lane as u32);
    }
    (off == 0 && first <= u32::MAX - 252).then_some(base.wrapping_add(u64::from(first)))
}
