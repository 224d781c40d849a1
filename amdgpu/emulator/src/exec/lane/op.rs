//! A vector operation: its type signature and its loop over 64 lanes, once per CPU level.
//!
//! [`lane_op!`] turns a typed closure into an [`Operation`]. The types determine how sources are read and modified, so the e32,
//! e64, DPP and SDWA forms of an instruction share one body. EXEC, registers and modifiers are handled in `body.rs`.

use crate::exec::lane::source::{Results, Sources};
use crate::exec::math::float::{f32_to_half, half_to_f32};
use crate::{Handler, Level};

/// The compiled lane loop of an operation.
///
/// `unsafe` because it is compiled with target features, like [`crate::Handler`].
pub type LaneLoop = unsafe fn(&Sources<'_>, &mut Results);

/// Type of a source or destination: its register layout and how float modifiers apply to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    None,
    /// Low half of a dword.
    B16,
    F16,
    B32,
    F32,
    B64,
    F64,
    /// A lane mask in a scalar register pair.
    Mask,
    /// Two 16-bit integers in one dword.
    Pk16,
    PkF16,
    /// Two f32 in a register pair.
    PkF32,
    /// Source of `v_fma_mix`: an f32, or either half of a dword as f16.
    Mix,
}

impl Kind {
    pub const ALL: [Kind; 12] = [
        Kind::None,
        Kind::B16,
        Kind::F16,
        Kind::B32,
        Kind::F32,
        Kind::B64,
        Kind::F64,
        Kind::Mask,
        Kind::Pk16,
        Kind::PkF16,
        Kind::PkF32,
        Kind::Mix,
    ];

    /// Returns true for floats of any size, packed or not.
    pub const fn float(self) -> bool {
        matches!(self, Kind::F16 | Kind::F32 | Kind::F64 | Kind::PkF16 | Kind::PkF32 | Kind::Mix)
    }

    /// Returns true for operands that take two registers.
    #[inline(always)]
    pub const fn wide(self) -> bool {
        matches!(self, Kind::B64 | Kind::F64 | Kind::PkF32)
    }
}

/// Sources and destination of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub src: [Kind; 3],
    pub dst: Kind,
    /// Writes a mask to the scalar destination.
    pub mask_out: bool,
}

impl Shape {
    pub const fn pack(self) -> u32 {
        self.src[0] as u32
            | (self.src[1] as u32) << 4
            | (self.src[2] as u32) << 8
            | (self.dst as u32) << 12
            | (self.mask_out as u32) << 16
    }

    #[inline(always)]
    pub const fn unpack(bits: u32) -> Shape {
        const fn kind(bits: u32) -> Kind {
            Kind::ALL[(bits & 15) as usize % Kind::ALL.len()]
        }
        let src = [kind(bits), kind(bits >> 4), kind(bits >> 8)];
        Shape { src, dst: kind(bits >> 12), mask_out: bits >> 16 & 1 == 1 }
    }

    pub fn source_count(self) -> usize {
        self.src.iter().filter(|kind| **kind != Kind::None).count()
    }
}

/// A vector operation that can be assembled into micro-ops.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    pub lane_loop: LaneLoop,
    pub shape: Shape,
    /// The third source is the destination (`v_fmac`, `v_dot2c`).
    pub accumulates: bool,
    /// A 16-bit result preserves the other half of its register.
    pub preserves: bool,
    /// Subnormals are flushed if MODE says so.
    pub flushable: bool,
    /// A specialised handler with the same results, for rows that are hot.
    pub hot: Option<Handler>,
}

impl Operation {
    pub fn of<O: LaneOp>(level: Level) -> Operation {
        let shape = O::SHAPE;
        let flushable = shape.dst.float() || shape.src.iter().any(|kind| kind.float());
        Operation {
            lane_loop: lane_loop::<O>(level),
            shape,
            accumulates: false,
            preserves: false,
            flushable,
            hot: None,
        }
    }

    pub fn accumulating(self) -> Operation {
        Operation { accumulates: true, ..self }
    }

    pub fn preserving(self) -> Operation {
        Operation { preserves: true, ..self }
    }

    /// Attaches a specialised handler for the forms without modifiers.
    pub fn hot(self, handler: Handler) -> Operation {
        Operation { hot: Some(handler), ..self }
    }

    /// Marks an operation that works on the raw bits of floats and ignores MODE.
    pub fn bitwise(self) -> Operation {
        Operation { flushable: false, ..self }
    }

    /// Applies float modifiers to the sources although the body copies untyped dwords.
    pub fn as_f32(mut self) -> Operation {
        for kind in &mut self.shape.src {
            if *kind == Kind::B32 {
                *kind = Kind::F32;
            }
        }
        self
    }

    /// Sets the result type for clamp and output scaling, for a body that returns raw bits of the same size.
    pub fn writing(mut self, kind: Kind) -> Operation {
        self.shape.dst = kind;
        self
    }
}

/// The body of an operation. `apply` must be `#[inline(always)]`, like [`crate::Body::run`].
pub trait LaneOp {
    const SHAPE: Shape;
    fn apply(sources: &Sources<'_>, results: &mut Results);
}

/// The lane loop of `O` compiled for `level`.
fn lane_loop<O: LaneOp>(level: Level) -> LaneLoop {
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::V4 => apply_v4::<O>,
        #[cfg(target_arch = "x86_64")]
        Level::V3 => apply_v3::<O>,
        _ => apply_base::<O>,
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn apply_v4<O: LaneOp>(sources: &Sources<'_>, results: &mut Results) {
    O::apply(sources, results)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn apply_v3<O: LaneOp>(sources: &Sources<'_>, results: &mut Results) {
    O::apply(sources, results)
}

unsafe fn apply_base<O: LaneOp>(sources: &Sources<'_>, results: &mut Results) {
    O::apply(sources, results)
}

/// A per-lane value that can be read from a source.
pub trait In {
    const KIND: Kind;
    fn read(sources: &Sources<'_>, n: usize, lane: usize) -> Self;
}

/// A per-lane value that can be written as a result.
pub trait Out {
    const KIND: Kind;
    const MASK: bool = false;
    fn write(self, results: &mut Results, lane: usize);
}

/// A 16-bit value, as half of a packed operand.
pub trait Half {
    const PACKED: Kind;
    /// Reads the value from the low half of a dword, ignoring the high half.
    fn from_half(bits: u32) -> Self;
    /// Returns the value in the low half of a dword, with a zero high half.
    fn into_half(self) -> u32;
}

/// A half-precision value, held as the equal f32; rounded to nearest even when written.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct F16(pub f32);

/// The bits of a half-precision value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct F16Bits(pub u16);

/// Two packed 16-bit integers, as raw register bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair(pub u32);

/// Two packed half-precision values, as raw register bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct F16Pair(pub u32);

/// A source of `v_fma_mix`, already converted to f32 when the body reads it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix(pub f32);

/// One lane of a mask: `!0` or 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bit(pub u32);

impl From<bool> for Bit {
    #[inline(always)]
    fn from(set: bool) -> Bit {
        Bit(u32::from(set).wrapping_neg())
    }
}

macro_rules! dword {
    ($ty:ty, $kind:ident, $from:expr, $into:expr) => {
        impl In for $ty {
            const KIND: Kind = Kind::$kind;
            #[inline(always)]
            fn read(sources: &Sources<'_>, n: usize, lane: usize) -> $ty {
                $from(sources.lo[n].0[lane])
            }
        }
        impl Out for $ty {
            const KIND: Kind = Kind::$kind;
            #[inline(always)]
            fn write(self, results: &mut Results, lane: usize) {
                results.lo.0[lane] = $into(self);
            }
        }
    };
}

dword!(u32, B32, |bits| bits, |value| value);
dword!(i32, B32, |bits| bits as i32, |value| value as u32);
dword!(f32, F32, f32::from_bits, f32::to_bits);
dword!(u16, B16, |bits| bits as u16, u32::from);
dword!(i16, B16, |bits| bits as i16, |value: i16| u32::from(value as u16));
dword!(F16, F16, |bits| F16(half_to_f32(bits)), |value: F16| f32_to_half(value.0));
dword!(F16Bits, F16, |bits| F16Bits(bits as u16), |value: F16Bits| u32::from(value.0));

impl In for F16Pair {
    const KIND: Kind = Kind::PkF16;
    #[inline(always)]
    fn read(sources: &Sources<'_>, n: usize, lane: usize) -> F16Pair {
        F16Pair(sources.lo[n].0[lane])
    }
}

impl In for Pair {
    const KIND: Kind = Kind::Pk16;
    #[inline(always)]
    fn read(sources: &Sources<'_>, n: usize, lane: usize) -> Pair {
        Pair(sources.lo[n].0[lane])
    }
}

impl In for Mix {
    const KIND: Kind = Kind::Mix;
    #[inline(always)]
    fn read(sources: &Sources<'_>, n: usize, lane: usize) -> Mix {
        Mix(f32::from_bits(sources.lo[n].0[lane]))
    }
}

macro_rules! qword {
    ($ty:ty, $kind:ident, $from:expr, $into:expr) => {
        impl In for $ty {
            const KIND: Kind = Kind::$kind;
            #[inline(always)]
            fn read(sources: &Sources<'_>, n: usize, lane: usize) -> $ty {
                $from(u64::from(sources.lo[n].0[lane]) | u64::from(sources.hi[n].0[lane]) << 32)
            }
        }
        impl Out for $ty {
            const KIND: Kind = Kind::$kind;
            #[inline(always)]
            fn write(self, results: &mut Results, lane: usize) {
                let bits: u64 = $into(self);
                results.lo.0[lane] = bits as u32;
                results.hi.0[lane] = (bits >> 32) as u32;
            }
        }
    };
}

qword!(u64, B64, |bits| bits, |value| value);
qword!(i64, B64, |bits| bits as i64, |value| value as u64);
qword!(f64, F64, f64::from_bits, f64::to_bits);

impl In for Bit {
    const KIND: Kind = Kind::Mask;
    #[inline(always)]
    fn read(sources: &Sources<'_>, n: usize, lane: usize) -> Bit {
        Bit(sources.lo[n].0[lane])
    }
}

impl Out for Bit {
    const KIND: Kind = Kind::None;
    const MASK: bool = true;
    #[inline(always)]
    fn write(self, results: &mut Results, lane: usize) {
        results.mask.0[lane] = self.0;
    }
}

impl<T: Out> Out for (T, Bit) {
    const KIND: Kind = T::KIND;
    const MASK: bool = true;
    #[inline(always)]
    fn write(self, results: &mut Results, lane: usize) {
        self.0.write(results, lane);
        results.mask.0[lane] = self.1.0;
    }
}

impl Half for u16 {
    const PACKED: Kind = Kind::Pk16;
    #[inline(always)]
    fn from_half(bits: u32) -> u16 {
        bits as u16
    }
    #[inline(always)]
    fn into_half(self) -> u32 {
        u32::from(self)
    }
}

impl Half for i16 {
    const PACKED: Kind = Kind::Pk16;
    #[inline(always)]
    fn from_half(bits: u32) -> i16 {
        bits as i16
    }
    #[inline(always)]
    fn into_half(self) -> u32 {
        u32::from(self as u16)
    }
}

impl Half for F16 {
    const PACKED: Kind = Kind::PkF16;
    #[inline(always)]
    fn from_half(bits: u32) -> F16 {
        F16(half_to_f32(bits))
    }
    #[inline(always)]
    fn into_half(self) -> u32 {
        f32_to_half(self.0)
    }
}

impl Half for F16Bits {
    const PACKED: Kind = Kind::PkF16;
    #[inline(always)]
    fn from_half(bits: u32) -> F16Bits {
        F16Bits(bits as u16)
    }
    #[inline(always)]
    fn into_half(self) -> u32 {
        u32::from(self.0)
    }
}

/// Kinds of an operation's sources, padded with [`Kind::None`].
pub const fn sources(kinds: &[Kind]) -> [Kind; 3] {
    let mut all = [Kind::None; 3];
    let mut n = 0;
    while n < kinds.len() {
        all[n] = kinds[n];
        n += 1;
    }
    all
}

/// Builds an [`Operation`] from a closure over the values of one lane.
///
/// `lane_op!(level, |a: f32, b: f32| -> f32 { a + b })`. The closure may be preceded by `lane i,` (the lane's number), `mode m,`
/// (the wave's MODE) or `vcc v,` (the lane's bit of VCC). `packed` runs the closure on both halves of the dwords, `paired` on
/// both dwords of register pairs.
macro_rules! lane_op {
    ($level:expr, packed $(mode $mode:ident,)? |$($arg:ident: $ty:ty),+| -> $out:ty $body:block) => {{
        struct Body;
        impl $crate::exec::lane::op::LaneOp for Body {
            const SHAPE: $crate::exec::lane::op::Shape = $crate::exec::lane::op::Shape {
                src: $crate::exec::lane::op::sources(&[$(<$ty as $crate::exec::lane::op::Half>::PACKED),+]),
                dst: <$out as $crate::exec::lane::op::Half>::PACKED,
                mask_out: false,
            };
            #[inline(always)]
            fn apply(
                sources: &$crate::exec::lane::source::Sources<'_>,
                results: &mut $crate::exec::lane::source::Results,
            ) {
                use $crate::exec::lane::op::Half;
                #[inline(always)]
                fn half($($arg: $ty,)+ $($mode: $crate::Mode)?) -> $out { $body }
                $(let $mode = *sources.mode;)?
                for lane in 0..64 {
                    let [$($arg),+, ..] = [sources.lo[0].0[lane], sources.lo[1].0[lane], sources.lo[2].0[lane]];
                    let low = half($(<$ty>::from_half($arg),)+ $($mode)?).into_half();
                    let high = half($(<$ty>::from_half($arg >> 16),)+ $($mode)?).into_half();
                    results.lo.0[lane] = low | high << 16;
                }
            }
        }
        $crate::exec::lane::op::Operation::of::<Body>($level)
    }};
    ($level:expr, paired |$($arg:ident),+| $body:expr) => {{
        struct Body;
        impl $crate::exec::lane::op::LaneOp for Body {
            const SHAPE: $crate::exec::lane::op::Shape = $crate::exec::lane::op::Shape {
                src: $crate::exec::lane::op::sources(&[$({ let _ = stringify!($arg); $crate::exec::lane::op::Kind::PkF32 }),+]),
                dst: $crate::exec::lane::op::Kind::PkF32,
                mask_out: false,
            };
            #[inline(always)]
            fn apply(
                sources: &$crate::exec::lane::source::Sources<'_>,
                results: &mut $crate::exec::lane::source::Results,
            ) {
                #[inline(always)]
                fn one($($arg: f32),+) -> f32 { $body }
                for lane in 0..64 {
                    let [$($arg),+, ..] = [sources.lo[0].0[lane], sources.lo[1].0[lane], sources.lo[2].0[lane]];
                    results.lo.0[lane] = one($(f32::from_bits($arg)),+).to_bits();
                }
                for lane in 0..64 {
                    let [$($arg),+, ..] = [sources.hi[0].0[lane], sources.hi[1].0[lane], sources.hi[2].0[lane]];
                    results.hi.0[lane] = one($(f32::from_bits($arg)),+).to_bits();
                }
            }
        }
        $crate::exec::lane::op::Operation::of::<Body>($level)
    }};
    ($level:expr, $(lane $lane:ident,)? $(mode $mode:ident,)? $(vcc $vcc:ident,)? |$($arg:ident: $ty:ty),+| -> $out:ty $body:block) => {{
        struct Body;
        impl $crate::exec::lane::op::LaneOp for Body {
            const SHAPE: $crate::exec::lane::op::Shape = $crate::exec::lane::op::Shape {
                src: $crate::exec::lane::op::sources(&[$(<$ty as $crate::exec::lane::op::In>::KIND),+]),
                dst: <$out as $crate::exec::lane::op::Out>::KIND,
                mask_out: <$out as $crate::exec::lane::op::Out>::MASK,
            };
            #[inline(always)]
            fn apply(
                sources: &$crate::exec::lane::source::Sources<'_>,
                results: &mut $crate::exec::lane::source::Results,
            ) {
                $(let $mode = *sources.mode;)?
                for lane in 0..64 {
                    $(let $lane = lane;)?
                    $(let $vcc = sources.vcc >> lane & 1 == 1;)?
                    let mut n = 0;
                    $(
                        let $arg = <$ty as $crate::exec::lane::op::In>::read(sources, n, lane);
                        n += 1;
                    )+
                    let _ = n;
                    let out: $out = $body;
                    $crate::exec::lane::op::Out::write(out, results, lane);
                }
            }
        }
        $crate::exec::lane::op::Operation::of::<Body>($level)
    }};
}
pub(crate) use lane_op;
