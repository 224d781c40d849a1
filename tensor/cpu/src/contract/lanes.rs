//! Vectors of sixteen elements at any distances, loaded by few instructions: elements of a row of an image are adjacent or evenly
//! spaced, and a vector consists of parts of one or several such rows.

use std::arch::x86_64::*;

use smallvec::SmallVec;

/// Elements of a vector.
pub const LANES: usize = 16;
/// The most parts of a vector; one of more parts is gathered.
const PARTS: usize = 4;

/// Offsets of up to sixteen elements.
#[derive(Clone, Debug)]
pub enum Lanes {
    /// Each part has some of the lanes; the others are zeros.
    Parts([Part; PARTS], usize),
    /// From the first element on, with a mask.
    Gathered(isize, [i32; LANES], u16),
    /// Too far apart.
    Single(SmallVec<[isize; LANES]>),
}

/// Lanes that are evenly spaced.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// The offset that the first lane would have, and the lanes.
    Adjacent(isize, u16),
    /// Every second element: the offset as above, and which of the next sixteen elements and of those behind them are loaded.
    Second(isize, [u16; 2]),
}

/// A run of evenly spaced offsets, as `(first, count, step)`.
pub fn run(offsets: &[isize]) -> (usize, isize) {
    let step = match offsets {
        [first, second, ..] => second.wrapping_sub(*first),
        _ => return (offsets.len(), 1),
    };
    let count = offsets.windows(2).take_while(|pair| pair[1].wrapping_sub(pair[0]) == step).count() + 1;
    if count == 2 && step != 1 && step != 2 { (1, 1) } else { (count, step) }
}

impl Lanes {
    /// At most sixteen offsets.
    pub fn new(offsets: &[isize]) -> Lanes {
        debug_assert!(offsets.len() <= LANES);
        let (mut parts, mut found) = ([Part::Adjacent(0, 0); PARTS], 0);
        let mut at = 0;
        while at < offsets.len() {
            let (count, step) = run(&offsets[at..]);
            if found == PARTS || (step != 1 && step != 2) {
                return Lanes::gathered(offsets);
            }
            let lanes = mask(at + count) & !mask(at);
            parts[found] = match step {
                1 => Part::Adjacent(offsets[at].wrapping_sub(at as isize), lanes),
                _ => {
                    let spread = (at..at + count).fold(0_u32, |bits, lane| bits | 1 << (2 * lane));
                    let start = offsets[at].wrapping_sub(2 * at as isize);
                    Part::Second(start, [spread as u16, (spread >> 16) as u16])
                }
            };
            found += 1;
            at += count;
        }
        Lanes::Parts(parts, found)
    }

    fn gathered(offsets: &[isize]) -> Lanes {
        let mut apart = [0_i32; LANES];
        for (apart, &offset) in apart.iter_mut().zip(offsets) {
            match i32::try_from(offset.wrapping_sub(offsets[0])) {
                Ok(distance) => *apart = distance,
                Err(_) => return Lanes::Single(offsets.into()),
            }
        }
        Lanes::Gathered(offsets[0], apart, mask(offsets.len()))
    }

    /// Writes the lanes of the mask of one vector after another, `width` elements apart, for each of the offsets that are added to
    /// the base.
    ///
    /// # Safety
    /// Like [`Lanes::load`] for each offset; there is space for all vectors.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    pub unsafe fn copy(
        &self,
        base: *const f32,
        offsets: &[isize],
        width: usize,
        lanes: u16,
        mut to: *mut f32,
    ) {
        // The usual cases without a choice for every vector.
        macro_rules! each {
            (|$from:ident| $load:expr) => {
                for &offset in offsets {
                    let $from = base.wrapping_offset(offset);
                    // SAFETY: guaranteed by the caller.
                    unsafe { _mm512_mask_storeu_ps(to, lanes, $load) };
                    to = to.wrapping_add(width);
                }
            };
        }
        match *self {
            Lanes::Parts([Part::Adjacent(start, all), ..], 1) => {
                each!(|from| _mm512_maskz_loadu_ps(all, from.wrapping_offset(start)));
            }
            Lanes::Parts([Part::Adjacent(start, some), Part::Adjacent(next, rest), ..], 2) => {
                each!(|from| {
                    let some = _mm512_maskz_loadu_ps(some, from.wrapping_offset(start));
                    _mm512_mask_loadu_ps(some, rest, from.wrapping_offset(next))
                });
            }
            Lanes::Parts([part @ Part::Second(..), ..], 1) => each!(|from| part.load(from)),
            _ => each!(|from| self.load(from)),
        }
    }

    /// Loads the elements; lanes without one are zero.
    ///
    /// # Safety
    /// All elements are readable from `base` on; the processor has these instructions.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    pub unsafe fn load(&self, base: *const f32) -> __m512 {
        // SAFETY: guaranteed by the caller; lanes without an element are masked.
        unsafe {
            match self {
                Lanes::Parts(parts, count) => {
                    let mut all = parts[0].load(base);
                    for part in &parts[1..(*count).max(1)] {
                        all = _mm512_or_ps(all, part.load(base));
                    }
                    all
                }
                Lanes::Gathered(first, apart, lanes) => {
                    let apart = _mm512_loadu_si512(apart.as_ptr().cast());
                    let base = base.wrapping_offset(*first).cast();
                    _mm512_mask_i32gather_ps::<4>(_mm512_setzero_ps(), *lanes, apart, base)
                }
                Lanes::Single(offsets) => {
                    let mut values = [0.0_f32; LANES];
                    for (value, &offset) in values.iter_mut().zip(offsets) {
                        *value = *base.offset(offset);
                    }
                    _mm512_loadu_ps(values.as_ptr())
                }
            }
        }
    }
}

impl Part {
    /// # Safety
    /// Like [`Lanes::load`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    pub unsafe fn load(&self, base: *const f32) -> __m512 {
        // SAFETY: guaranteed by the caller; only elements of the part are loaded.
        unsafe {
            match *self {
                Part::Adjacent(start, lanes) => _mm512_maskz_loadu_ps(lanes, base.wrapping_offset(start)),
                Part::Second(start, [near, far]) => {
                    let start = base.wrapping_offset(start);
                    let near = _mm512_maskz_loadu_ps(near, start);
                    let far = _mm512_maskz_loadu_ps(far, start.wrapping_add(LANES));
                    let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
                    _mm512_permutex2var_ps(near, even, far)
                }
            }
        }
    }
}

/// A mask of the first `count` lanes.
pub fn mask(count: usize) -> u16 {
    if count >= LANES { !0 } else { (1 << count) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::Level;

    #[test]
    fn lanes_hold_the_elements_at_their_offsets() {
        if Level::best() < Level::Avx512 {
            return;
        }
        let values: Vec<f32> = (0..4000).map(|n| n as f32 + 1.0).collect();
        let ranges: [&dyn Fn(usize) -> isize; 7] = [
            &|n| n as isize,
            &|n| 5 + 2 * n as isize,
            &|n| (n / 7 * 100 + n % 7) as isize,
            &|n| (n / 5 * 64 + n % 5 * 2) as isize,
            &|n| (n * n * 3) as isize,
            &|n| 60 - 3 * n as isize,
            &|n| (n / 12 * 1000 + n % 12 * 2) as isize,
        ];
        for offset in ranges {
            for count in 0..=LANES {
                let offsets: Vec<isize> = (0..count).map(offset).collect();
                let mut found = [-1.0; LANES];
                // SAFETY: all offsets are inside the values; the instructions exist.
                unsafe {
                    _mm512_storeu_ps(found.as_mut_ptr(), Lanes::new(&offsets).load(values.as_ptr()));
                }
                for (lane, &value) in found.iter().enumerate() {
                    let wanted = offsets.get(lane).map_or(0.0, |&at| values[at as usize]);
                    assert_eq!(value, wanted, "lane {lane} of {offsets:?}");
                }
            }
        }
    }
}
