//! Specialised handlers of the most frequent operations, computed entirely in vector registers.
//!
//! They give the same results as the bodies to which [`Operation::hot`](super::op::Operation::hot) attaches them, which still
//! serve every form with modifiers. The rows of the encoding tables say which operations are hot.
//! Sources go from memory through one instruction to the destination, with masked stores if EXEC is not full.

use std::marker::PhantomData;

use crate::exec::lane::body::{per_level, run_unusual, unusual};
use crate::exec::lane::row_vector::RowVector;
use crate::exec::lane::source::lanes;
use crate::{Body, Flow, Handler, Level, Uop, Wave};

macro_rules! handlers {
    ($($name:ident = $body:ident $(, $arg:tt)*;)*) => {$(
        pub fn $name(level: Level) -> Handler {
            per_level!(level, $body $(, $arg)*)
        }
    )*};
}

// Named after what they compute; the operations in `format/` attach them to their bodies.
handlers! {
    move_b32 = Hot, Move, 1;
    add_f32 = Hot, AddF32, 2;
    sub_f32 = Hot, SubF32, 2;
    mul_f32 = Hot, MulF32, 2;
    fma_f32 = Hot, FmaF32, 3;
    add_u32 = Hot, AddU32, 2;
    sub_u32 = Hot, SubU32, 2;
    and_b32 = Hot, And, 2;
    or_b32 = Hot, Or, 2;
    xor_b32 = Hot, Xor, 2;
    shift_left = Hot, ShiftLeft, 2;
    shift_right = Hot, ShiftRight, 2;
    shift_right_signed = Hot, ShiftRightSigned, 2;
    add3_u32 = Hot, Add3, 3;
    shift_add = Hot, ShiftAdd, 3;
    add_shift = Hot, AddShift, 3;
    shift_or = Hot, ShiftOr, 3;
    and_or = Hot, AndOr, 3;
    select = Select;
    add_carry_out = Carry, Add, false;
    add_carry = Carry, Add, true;
    sub_carry_out = Carry, Sub, false;
    sub_carry = Carry, Sub, true;
    subrev_carry_out = Carry, SubReverse, false;
    subrev_carry = Carry, SubReverse, true;
    less_u32 = Compare, LessU32;
    more_u32 = Compare, MoreU32;
    not_more_u32 = Compare, NotMoreU32;
    not_less_u32 = Compare, NotLessU32;
    less_i32 = Compare, LessI32;
    more_i32 = Compare, MoreI32;
    not_more_i32 = Compare, NotMoreI32;
    not_less_i32 = Compare, NotLessI32;
    equal = Compare, Equal;
    not_equal = Compare, NotEqual;
}

/// An operation on 16 lanes.
trait HotOp {
    /// The result depends on MODE.
    const FLOAT: bool;

    /// # Safety
    /// As for [`RowVector`].
    unsafe fn vector<C: RowVector>(a: C::Dwords, b: C::Dwords, c: C::Dwords) -> C::Dwords;
}

macro_rules! hot_ops {
    ($($name:ident $($float:ident)? = |$a:ident, $b:ident, $c:ident| $body:expr;)*) => {$(
        struct $name;
        impl HotOp for $name {
            const FLOAT: bool = { false $(|| { stringify!($float); true })? };

            #[inline(always)]
            unsafe fn vector<C: RowVector>($a: C::Dwords, $b: C::Dwords, $c: C::Dwords) -> C::Dwords {
                // SAFETY: guaranteed by the caller.
                unsafe { $body }
            }
        }
    )*};
}

hot_ops! {
    AddF32 float = |a, b, _c| C::add_f32(a, b);
    SubF32 float = |a, b, _c| C::sub_f32(a, b);
    MulF32 float = |a, b, _c| C::mul_f32(a, b);
    FmaF32 float = |a, b, c| C::fma_f32(a, b, c);
    AddU32 = |a, b, _c| C::add_u32(a, b);
    SubU32 = |a, b, _c| C::sub_u32(a, b);
    And = |a, b, _c| C::and(a, b);
    Or = |a, b, _c| C::or(a, b);
    Xor = |a, b, _c| C::xor(a, b);
    ShiftLeft = |a, b, _c| C::shift_left(b, a);
    ShiftRight = |a, b, _c| C::shift_right(b, a);
    ShiftRightSigned = |a, b, _c| C::shift_right_signed(b, a);
    Add3 = |a, b, c| C::add_u32(C::add_u32(a, b), c);
    ShiftAdd = |a, b, c| C::add_u32(C::shift_left(a, b), c);
    AddShift = |a, b, c| C::shift_left(C::add_u32(a, b), c);
    ShiftOr = |a, b, c| C::or(C::shift_left(a, b), c);
    AndOr = |a, b, c| C::or(C::and(a, b), c);
}

struct Move;

impl HotOp for Move {
    const FLOAT: bool = false;

    #[inline(always)]
    unsafe fn vector<C: RowVector>(a: C::Dwords, _: C::Dwords, _: C::Dwords) -> C::Dwords {
        a
    }
}

/// Handler of a `HotOp` with `N` 32-bit sources.
struct Hot<C, O, const N: usize>(PhantomData<(C, O)>);

impl<C: RowVector, O: HotOp, const N: usize> Body for Hot<C, O, N> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let exec = wave.exec();
        if O::FLOAT && unusual(wave, uop) {
            // SAFETY: same contract as this handler.
            return unsafe { run_unusual::<C>(wave, uop) };
        }
        let scratch = wave.scratch.as_mut_ptr();
        // SAFETY: indices were checked when the micro-op was compiled; each source has a separate scratch slot. Each row of 16
        // lanes is read before it is written, so the destination may be a source.
        unsafe {
            let a = lanes(wave, uop.src[0], 0, scratch).cast::<u32>();
            let b = if N > 1 { lanes(wave, uop.src[1], 0, scratch.add(1)).cast::<u32>() } else { a };
            let c = if N > 2 { lanes(wave, uop.src[2], 0, scratch.add(2)).cast::<u32>() } else { a };
            let to = wave.vgprs.as_mut_ptr().add(usize::from(uop.dst)).cast::<u32>();
            if exec == !0 {
                for lane in [0, 16, 32, 48] {
                    let value =
                        O::vector::<C>(C::load(a.add(lane)), C::load(b.add(lane)), C::load(c.add(lane)));
                    C::store(value, to.add(lane));
                }
            } else {
                for lane in [0, 16, 32, 48] {
                    let value =
                        O::vector::<C>(C::load(a.add(lane)), C::load(b.add(lane)), C::load(c.add(lane)));
                    C::store_masked((exec >> lane) as u16, value, to.add(lane));
                }
            }
        }
        Flow::Next
    }
}

/// `v_cndmask_b32`: the third source is a mask in scalar registers.
struct Select<C>(PhantomData<C>);

impl<C: RowVector> Body for Select<C> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let exec = wave.exec();
        let mask = wave.sgpr64(usize::from(uop.src[2].index));
        let scratch = wave.scratch.as_mut_ptr();
        // SAFETY: as for `Hot`.
        unsafe {
            let a = lanes(wave, uop.src[0], 0, scratch).cast::<u32>();
            let b = lanes(wave, uop.src[1], 0, scratch.add(1)).cast::<u32>();
            let to = wave.vgprs.as_mut_ptr().add(usize::from(uop.dst)).cast::<u32>();
            for lane in [0, 16, 32, 48] {
                let value = C::select((mask >> lane) as u16, C::load(a.add(lane)), C::load(b.add(lane)));
                if exec == !0 {
                    C::store(value, to.add(lane));
                } else {
                    C::store_masked((exec >> lane) as u16, value, to.add(lane));
                }
            }
        }
        Flow::Next
    }
}

/// Addition or subtraction with carry.
trait CarryOp {
    /// Returns the result and the carry-outs of 16 lanes; `carry` are the carry-ins.
    ///
    /// # Safety
    /// As for [`RowVector`].
    unsafe fn vector<C: RowVector>(a: C::Dwords, b: C::Dwords, carry: u16) -> (C::Dwords, u16);
}

struct Add;

impl CarryOp for Add {
    #[inline(always)]
    unsafe fn vector<C: RowVector>(a: C::Dwords, b: C::Dwords, carry: u16) -> (C::Dwords, u16) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let sum = C::add_u32(a, b);
            let over = C::less_u32(sum, a);
            let sum = C::increment(carry, sum);
            // Adding a carry-in overflows exactly if the result is zero.
            (sum, over | carry & C::equal(sum, C::splat(0)))
        }
    }
}

struct Sub;

impl CarryOp for Sub {
    #[inline(always)]
    unsafe fn vector<C: RowVector>(a: C::Dwords, b: C::Dwords, carry: u16) -> (C::Dwords, u16) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let difference = C::decrement(carry, C::sub_u32(a, b));
            (difference, C::less_u32(a, b) | carry & C::equal(a, b))
        }
    }
}

struct SubReverse;

impl CarryOp for SubReverse {
    #[inline(always)]
    unsafe fn vector<C: RowVector>(a: C::Dwords, b: C::Dwords, carry: u16) -> (C::Dwords, u16) {
        // SAFETY: guaranteed by the caller.
        unsafe { Sub::vector::<C>(b, a, carry) }
    }
}

/// Handler of a `CarryOp`: two 32-bit sources and, if `IN`, a carry-in mask; writes a result and a carry-out mask.
struct Carry<C, O, const IN: bool>(PhantomData<(C, O)>);

impl<C: RowVector, O: CarryOp, const IN: bool> Body for Carry<C, O, IN> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let exec = wave.exec();
        let carry = if IN { wave.sgpr64(usize::from(uop.src[2].index)) } else { 0 };
        let scratch = wave.scratch.as_mut_ptr();
        let mut out = 0;
        // SAFETY: as for `Hot`.
        unsafe {
            let a = lanes(wave, uop.src[0], 0, scratch).cast::<u32>();
            let b = lanes(wave, uop.src[1], 0, scratch.add(1)).cast::<u32>();
            let to = wave.vgprs.as_mut_ptr().add(usize::from(uop.dst)).cast::<u32>();
            for lane in [0, 16, 32, 48] {
                let (value, carries) =
                    O::vector::<C>(C::load(a.add(lane)), C::load(b.add(lane)), (carry >> lane) as u16);
                out |= u64::from(carries) << lane;
                if exec == !0 {
                    C::store(value, to.add(lane));
                } else {
                    C::store_masked((exec >> lane) as u16, value, to.add(lane));
                }
            }
        }
        wave.set_sgpr64(usize::from(uop.sdst), out & exec);
        Flow::Next
    }
}

/// A comparison of 16 lanes.
trait CompareOp {
    /// # Safety
    /// As for [`RowVector`].
    unsafe fn vector<C: RowVector>(a: C::Dwords, b: C::Dwords) -> u16;
}

macro_rules! compare_ops {
    ($($name:ident = |$a:ident, $b:ident| $body:expr;)*) => {$(
        struct $name;
        impl CompareOp for $name {
            #[inline(always)]
            unsafe fn vector<C: RowVector>($a: C::Dwords, $b: C::Dwords) -> u16 {
                // SAFETY: guaranteed by the caller.
                unsafe { $body }
            }
        }
    )*};
}

compare_ops! {
    LessU32 = |a, b| C::less_u32(a, b);
    MoreU32 = |a, b| C::less_u32(b, a);
    NotMoreU32 = |a, b| !C::less_u32(b, a);
    NotLessU32 = |a, b| !C::less_u32(a, b);
    LessI32 = |a, b| C::less_i32(a, b);
    MoreI32 = |a, b| C::less_i32(b, a);
    NotMoreI32 = |a, b| !C::less_i32(b, a);
    NotLessI32 = |a, b| !C::less_i32(a, b);
    Equal = |a, b| C::equal(a, b);
    NotEqual = |a, b| !C::equal(a, b);
}

/// Handler of a `CompareOp`: two 32-bit sources; writes a mask.
struct Compare<C, O>(PhantomData<(C, O)>);

impl<C: RowVector, O: CompareOp> Body for Compare<C, O> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let exec = wave.exec();
        let scratch = wave.scratch.as_mut_ptr();
        let mut out = 0;
        // SAFETY: as for `Hot`.
        unsafe {
            let a = lanes(wave, uop.src[0], 0, scratch).cast::<u32>();
            let b = lanes(wave, uop.src[1], 0, scratch.add(1)).cast::<u32>();
            for lane in [0, 16, 32, 48] {
                out |= u64::from(O::vector::<C>(C::load(a.add(lane)), C::load(b.add(lane)))) << lane;
            }
        }
        wave.set_sgpr64(usize::from(uop.sdst), out & exec);
        Flow::Next
    }
}
