//! Seeded random numbers, and operand values that are often special cases.

use fastrand::Rng;

use crate::exact::{F16, F32, F64, Format};

/// Seeded random numbers.
#[derive(Clone, Debug)]
pub struct Random(Rng);

impl Random {
    /// Starts a sequence that depends on the seed alone.
    pub fn new(seed: u64) -> Random {
        Random(Rng::with_seed(seed))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0.u64(..limit)
    }

    /// True once in `one_in` times.
    pub fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    /// One of the values.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// A float of any magnitude, often an edge case.
    pub fn float(&mut self, format: Format) -> u64 {
        let sign = if self.chance(2) { format.sign() } else { 0 };
        let fraction = self.bits() & ((1 << format.fraction) - 1);
        let one = (format.infinity() / 2) & format.infinity();
        sign | match self.below(20) {
            0 => 0,
            1 => format.infinity(),
            2 => format.nan() | fraction >> 3,
            3 => format.infinity() | (fraction >> 3).max(1),
            4 => 1,
            5 => fraction.max(1),
            6 => 1 << format.fraction,
            7 => (1 << format.fraction) - 1,
            8 => format.largest(),
            9 => one,
            10 => one | fraction & 3,
            // Integers and half-integers, and their neighbours.
            11 => one.wrapping_add(self.below(8) << format.fraction).wrapping_add(1 << (format.fraction - 1)),
            // Near the limits of the integer ranges.
            12 => one.wrapping_add((14 + self.below(20)) << format.fraction) | fraction & !0xff,
            // Close to each other, so that sums cancel and products stay in range.
            13..=16 => {
                one.wrapping_add(self.below(6) << format.fraction).wrapping_sub(3 << format.fraction)
                    | fraction
            }
            _ => (self.bits() & (format.sign() - 1)).min(format.infinity() | format.quiet()),
        }
    }

    /// 32 bits that are integers, halves or floats, often edge cases.
    pub fn dword(&mut self) -> u32 {
        match self.below(8) {
            0 => self.below(70) as u32,
            1 => {
                self.pick(&[0, 1, !0, 1 << 31, i32::MAX as u32, 0xffff, 0x8000, 0x7fff, 0xff_ffff, 0x80_0000])
            }
            2 => 0_u32.wrapping_sub(self.below(70) as u32),
            3 | 4 => self.bits() as u32,
            5 => self.float(F32) as u32,
            _ => self.float(F16) as u32 | (self.float(F16) as u32) << 16,
        }
    }

    /// Like [`Random::dword`], but a pair of dwords.
    pub fn qword(&mut self) -> u64 {
        match self.below(4) {
            0 | 1 => self.float(F64),
            2 => self.bits() >> self.below(64),
            _ => u64::from(self.dword()) | u64::from(self.dword()) << 32,
        }
    }
}
