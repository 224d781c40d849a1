//! Byte-wise operations on dwords: sums of absolute differences (SAD) and averages.

use std::marker::PhantomData;

use isa::Inst;

use crate::compile::{Compiler, Type, Unsupported};
use crate::exec::lane::body::{per_level, store};
use crate::exec::lane::mask::Cpu;
use crate::exec::lane::source::lanes;
use crate::{Body, Flow, Lanes, Uop, Wave};

#[inline(always)]
fn byte(value: u32, n: u32) -> u32 {
    value >> (8 * n) & 0xff
}

/// Sum of absolute differences of four bytes.
#[inline(always)]
pub fn sad(a: u32, b: u32) -> u32 {
    let mut sum = 0;
    for n in 0..4 {
        sum += byte(a, n).abs_diff(byte(b, n));
    }
    sum
}

/// Like [`sad`], but skips bytes whose reference in `b` is zero.
#[inline(always)]
pub fn masked_sad(a: u32, b: u32) -> u32 {
    let mut sum = 0;
    for n in 0..4 {
        let reference = byte(b, n);
        sum += if reference == 0 { 0 } else { byte(a, n).abs_diff(reference) };
    }
    sum
}

/// Four sums over a window that slides over `a` byte by byte, each added to a 16-bit accumulator in `c`.
#[inline(always)]
pub fn sliding(a: u64, b: u32, c: u64, sum: fn(u32, u32) -> u32) -> u64 {
    let mut result = 0;
    for n in 0..4 {
        let value = sum((a >> (8 * n)) as u32, b).wrapping_add((c >> (16 * n)) as u32) & 0xffff;
        result |= u64::from(value) << (16 * n);
    }
    result
}

/// Like [`sliding`], but the sums saturate.
#[inline(always)]
pub fn sliding_saturated(a: u64, b: u32, c: u64, sum: fn(u32, u32) -> u32) -> u64 {
    let mut result = 0;
    for n in 0..4 {
        let value = (sum((a >> (8 * n)) as u32, b) + ((c >> (16 * n)) as u32 & 0xffff)).min(0xffff);
        result |= u64::from(value) << (16 * n);
    }
    result
}

/// Averages of bytes, rounded up if the low bit of the corresponding byte of `c` is set.
#[inline(always)]
pub fn lerp(a: u32, b: u32, c: u32) -> u32 {
    let mut result = 0;
    for n in 0..4 {
        result |= ((byte(a, n) + byte(b, n) + (byte(c, n) & 1)) >> 1) << (8 * n);
    }
    result
}

/// `v_mqsad_u32_u8`: four masked sums into four registers.
pub fn mqsad_u32_u8(c: &mut Compiler, inst: &Inst, index: u32) -> Result<Uop, Unsupported> {
    let mut uop = c.uop(per_level!(c.level, SlidingWide), index);
    uop.flags = inst.modifiers.clamp.into();
    uop.dst = c.vector(inst, &inst.dst, 4)?;
    uop.src[0] = c.source(inst, &inst.src[0], 2, Type::B64)?;
    uop.src[1] = c.source(inst, &inst.src[1], 1, Type::B32)?;
    uop.src[2] = c.source(inst, &inst.src[2], 4, Type::B32)?;
    Ok(uop)
}

struct SlidingWide<C>(PhantomData<C>);

impl<C: Cpu> Body for SlidingWide<C> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let exec = wave.exec();
        let scratch = wave.scratch.as_mut_ptr();
        let mut results = [Lanes::ZERO; 4];
        // SAFETY: indices were checked when the micro-op was compiled; each source has a separate scratch slot.
        unsafe {
            let low = &*lanes(wave, uop.src[0], 0, scratch);
            let high = &*lanes(wave, uop.src[0], 1, scratch.add(1));
            let reference = &*lanes(wave, uop.src[1], 0, scratch.add(2));
            for (n, result) in results.iter_mut().enumerate() {
                let addend = &*lanes(wave, uop.src[2], n, scratch.add(3));
                for lane in 0..64 {
                    let window = u64::from(low.0[lane]) | u64::from(high.0[lane]) << 32;
                    let sum = masked_sad((window >> (8 * n)) as u32, reference.0[lane]);
                    let (sum, over) = sum.overflowing_add(addend.0[lane]);
                    result.0[lane] = if over && uop.flags != 0 { u32::MAX } else { sum };
                }
            }
            for (n, result) in results.iter().enumerate() {
                store::<C>(exec, result, wave.vgprs.get_unchecked_mut(usize::from(uop.dst) + n));
            }
        }
        Flow::Next
    }
}
