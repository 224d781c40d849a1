//! Operations of the form: few, simple, and each close to one instruction of a GPU.
//!
//! The lifter decomposes every machine instruction into these. Operations are pure and work lane by lane unless the text says
//! otherwise. A pure operation has shape `Lane` if one of its operands has.

use super::{Input, Kind, Register};

/// An operation. The comments list operands and results.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `[] -> any`: a constant. A constant has shape `Uniform`.
    Constant(u64),
    /// `[] -> any`: a value that the kernel starts with.
    Input(Input),
    /// `[one per predecessor] -> any`: the value of the predecessor that the wave came from.
    Phi,

    /// `[a] -> a`, or the kind that the operation names.
    Unary(Unary),
    /// `[a, b] -> a`: two operands of the same kind, except the amount of a shift.
    Binary(Binary),
    /// `[a, b] -> Bit`: an integer comparison of two operands of the same kind.
    Compare(Compare),
    /// `[condition, x, y] -> x`: `x` where the bit is set, else `y`.
    Select,
    /// `[low, high] -> Double`.
    Pack,
    /// `[double] -> Word`: the low half.
    Low,
    /// `[double] -> Word`: the high half.
    High,
    /// `[word] -> Word`: `width` bits from bit `offset`, sign- or zero-extended. `width` is 1..=32, `offset + width` at most 32.
    Extract {
        /// Sign-extends.
        signed: bool,
        /// First bit.
        offset: u8,
        /// Number of bits.
        width: u8,
    },
    /// `[word, word] -> Double`: the whole product.
    MultiplyWide {
        /// Both operands are signed.
        signed: bool,
    },
    /// `[high, low, amount] -> Word`: the low word of `high:low >> (amount & 31)`.
    FunnelShift,
    /// `[a, b] -> Word`: four bytes, each one of the eight bytes of `b:a` (0..=3 are those of `a`), byte 0 first.
    Bytes([u8; 4]),
    /// `[a, b, c] -> Word`: `c` plus the sum of the four products of bytes, wrapping.
    Dot4 {
        /// The bytes of `a` are signed.
        signed_a: bool,
        /// The bytes of `b` are signed.
        signed_b: bool,
    },

    /// `[a] -> a`, `[a, b] -> a` or `[a, b, c] -> a`: float arithmetic, rounded once in the given direction. Denormals are kept:
    /// flushing is explicit ([`Float::Flush`]). NaN results are quiet; the first NaN operand's payload is kept. An `F16` is in the
    /// low half of a word; the high half of the result is zero.
    Float(Float, FloatType, Rounding),
    /// `[a, b] -> Bit`.
    FloatCompare(FloatCompare, FloatType),
    /// `[a] -> a`: a function that hardware approximates. The evaluator computes what the software GPU computes; a GPU may differ
    /// in the last bits. Denormals are kept.
    Approximate(Approximate, FloatType),
    /// `[a] -> b`: conversion between number types. Integers narrower than a word are sign- or zero-extended in it. To integer:
    /// saturates, and NaN becomes 0.
    Convert {
        /// Type of the operand.
        from: NumberType,
        /// Type of the result.
        to: NumberType,
        /// Direction of rounding.
        rounding: Rounding,
    },
    /// A step of the division sequence, as the machine defines it, for F32 and F64. Kept whole at first, so that
    /// `vector::quotient::recognise` can replace a whole sequence by one quotient. `vector::division::expand` replaces what is left
    /// by other operations: generators never see a step.
    Division(Division, FloatType, Rounding),

    /// `[mask] -> Double`, uniform: a bit for every lane. Crosses lanes.
    Ballot,
    /// `[double] -> Bit`, lane: the lane's bit of a uniform number, the reverse of [`Operation::Ballot`].
    MaskOf,
    /// `[mask] -> Bit`, uniform: whether any lane's bit is set. Crosses lanes, but only to decide a branch or SCC.
    AnyLane,
    /// `[word, index] -> Word`, uniform: the value of lane `index & 63`, whose index is uniform. Crosses lanes.
    ReadLane,
    /// `[word, mask] -> Word`, uniform: the value of the first lane whose bit is set, or of lane 0 if there is none.
    ReadFirstLane,
    /// `[word, index] -> Word`: the value of lane `index & 63`; every lane has its own index. Crosses lanes.
    Shuffle,
    /// `[word, index, mask] -> Word`: the value of the lane with the highest number among those of the mask whose `index & 63` is
    /// this lane; 0 if there is none. Crosses lanes.
    Push,
    /// `[word] -> Word`: the value of another lane by a fixed pattern. Lanes whose source does not exist get 0. Crosses lanes.
    Move(Pattern),

    /// `[mask, address] -> words`: reads memory in the lanes of the mask; other lanes get 0. The address is a double, or a word
    /// for LDS and scratch. `bytes / 4` results, one for 1 and 2 bytes. Uniform if mask and address are,
    /// except that loads of scratch, and flat ones, never are.
    Load(Access),
    /// `[mask, address, words..] -> []`: writes memory in the lanes of the mask.
    Store(Access),
    /// `[mask, address, data..] -> words` or `[]`: reads, modifies and writes in one step. Compare-and-swap has the new value
    /// first, then the expected one. The results are the old value, if it is wanted; 0 in other lanes. A datum of 8 bytes is two
    /// words.
    Atomic(Atomic, Access, Returns),
    /// `[mask, address] -> []`, for LDS: adds the number of set bits (`consume: false`) or subtracts it, once for the wave. The
    /// result is the old value, a uniform word.
    AppendConsume {
        /// Subtracts.
        consume: bool,
        /// Byte offset in LDS.
        offset: u32,
    },

    /// `[] -> []`: waits until all waves of the workgroup are here, and orders their LDS accesses.
    Barrier,
    /// `[] -> []`: earlier accesses of this wave are visible to others in the scope before later ones.
    Fence(MemoryScope),
    /// `[] -> Double`, uniform: a clock.
    Clock(Clock),
    /// `[] -> []`: lets other waves run.
    Sleep,
    /// `[bit] -> []`: stops the grid with a fault unless the uniform bit is set. For what the lifter takes for granted but cannot
    /// prove.
    Require,
    /// `[] -> []`: waits until all workgroups of a cooperative launch are here.
    GridBarrier,
    /// `[a words.., b words.., c words..] -> words`: a matrix multiplication over the lanes of the wave, in the machine
    /// instruction's layout. All lanes take part whatever EXEC is. The index word of a sparse one is the last operand. Crosses
    /// lanes.
    Matrix(Matrix),
    /// `[value] -> []`: what a register holds where a fragment of code ends. For tests; kernels have none.
    Observe(Register),
}

/// Operations with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unary {
    /// Inverts all bits. Any kind.
    Not,
    /// `-> Word`: number of set bits of a word or double.
    Popcount,
    /// `-> Word`: number of zero bits above the highest set bit; the size in bits for 0.
    LeadingZeros,
    /// `-> Word`: number of zero bits below the lowest set bit; the size in bits for 0.
    TrailingZeros,
    /// Reverses the order of the bits.
    ReverseBits,
}

/// Integer operations with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binary {
    /// Wraps.
    Add,
    /// Wraps.
    Subtract,
    /// The low bits of the product.
    Multiply,
    /// The high word of the product of words, unsigned.
    MultiplyHighUnsigned,
    /// The high word of the product of words, signed.
    MultiplyHighSigned,
    /// Any kind.
    And,
    /// Any kind.
    Or,
    /// Any kind.
    Xor,
    /// The amount is a word, taken modulo the size.
    ShiftLeft,
    /// Zeros come in. The amount is a word, taken modulo the size.
    ShiftRight,
    /// Copies of the sign come in. The amount is a word, taken modulo the size.
    ShiftRightSigned,
    /// The smaller one, unsigned.
    MinimumUnsigned,
    /// The larger one, unsigned.
    MaximumUnsigned,
    /// The smaller one, signed.
    MinimumSigned,
    /// The larger one, signed.
    MaximumSigned,
}

/// Integer comparisons; the others follow by exchanging the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compare {
    /// Equal.
    Equal,
    /// Not equal.
    NotEqual,
    /// Less, unsigned.
    LessUnsigned,
    /// Less or equal, unsigned.
    LessEqualUnsigned,
    /// Less, signed.
    LessSigned,
    /// Less or equal, signed.
    LessEqualSigned,
}

/// Float arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Float {
    /// Flips the sign bit, also that of a NaN. Exact.
    Negate,
    /// Clears the sign bit, also that of a NaN. Exact.
    Absolute,
    /// `a + b`
    Add,
    /// `a * b`
    Multiply,
    /// `a * b + c`, rounded once.
    MultiplyAdd,
    /// The smaller number: the other operand if one is NaN; -0 is smaller than +0. Exact.
    Minimum,
    /// The larger number: the other operand if one is NaN; -0 is smaller than +0. Exact.
    Maximum,
    /// Rounds to an integral number in the given direction. Exact otherwise.
    Integral,
    /// Replaces a denormal number by a zero of the same sign.
    Flush,
    /// Makes a NaN quiet; other values stay.
    Quiet,
    /// Correctly rounded square root.
    SquareRoot,
    /// Correctly rounded quotient.
    Divide,
}

/// Steps of the division sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Division {
    /// `[a, denominator, numerator] -> a`: the value of `v_div_scale`; `a` is one of the other two.
    Scale,
    /// `[denominator, numerator] -> Bit`: the mask of `v_div_scale`.
    Scaled,
    /// `[a, b, c, scaled] -> a`: `v_div_fmas`.
    Fmas,
    /// `[quotient, denominator, numerator] -> a`: `v_div_fixup`.
    Fixup,
}

/// Float formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FloatType {
    /// Half precision, in the low half of a word.
    F16,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
}

/// Direction of rounding, in the order of the MODE register's codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Rounding {
    /// To nearest, ties to even.
    #[default]
    Nearest,
    /// Towards positive infinity.
    Up,
    /// Towards negative infinity.
    Down,
    /// Towards zero.
    Zero,
}

/// Float comparisons. False if an operand is NaN, except `NotEqual` and `Unordered`. The others follow by exchanging or inverting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FloatCompare {
    /// `a < b`
    Less,
    /// `a <= b`
    LessEqual,
    /// `a == b`
    Equal,
    /// `a != b`, or an operand is NaN.
    NotEqual,
    /// No operand is NaN.
    Ordered,
    /// An operand is NaN.
    Unordered,
}

/// Functions that hardware approximates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Approximate {
    /// `1 / x`
    Reciprocal,
    /// `1 / sqrt(x)`
    ReciprocalSquareRoot,
    /// `sqrt(x)`
    SquareRoot,
    /// `2^x`
    Exponential,
    /// `log2(x)`
    Logarithm,
    /// `sin(2 pi x)`
    Sine,
    /// `cos(2 pi x)`
    Cosine,
}

/// Types of numbers that conversions know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NumberType {
    /// Unsigned, 16 bits, zero-extended in a word.
    U16,
    /// Signed, 16 bits, sign-extended in a word.
    I16,
    /// Unsigned, 32 bits.
    U32,
    /// Signed, 32 bits.
    I32,
    /// Half precision, in the low half of a word; the high half of a result is zero.
    F16,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
    /// bfloat16, in the low half of a word; the high half of a result is zero.
    Bf16,
    /// gfx942's 8-bit float with 3 mantissa bits (FNUZ), in the low byte of a word.
    F8,
    /// gfx942's 8-bit float with 2 mantissa bits (FNUZ), in the low byte of a word.
    Bf8,
}

/// Source lane of every lane, by a fixed rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// The `dpp_ctrl` field of a DPP instruction.
    Dpp(u16),
    /// The offset field of `ds_swizzle_b32`.
    Swizzle(u16),
}

/// Address spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// Device memory: a 64-bit address.
    Global,
    /// LDS: a byte offset. Accesses beyond the allocation read 0 and write nothing.
    Lds,
    /// Scratch: a byte offset in the lane's own memory.
    Private,
    /// A 64-bit address in any of them, by aperture.
    Flat,
    /// Read-only for the whole kernel, such as kernel arguments: a 64-bit address.
    Constant,
    /// The kernel argument block: a byte offset, constant.
    Kernarg,
}

/// A memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// Address space.
    pub space: Space,
    /// Bytes per lane: 1, 2 or a multiple of 4.
    pub bytes: u8,
    /// Loads of 1 and 2 bytes are sign-extended instead of zero-extended.
    pub signed: bool,
    /// Added to the address.
    pub offset: i32,
    /// The scope that must see the access: the cache bits of the instruction.
    pub scope: MemoryScope,
    /// The address is a multiple of this power of two, as far as it is known (`1 << align`).
    pub align: u8,
}

/// Who must see an access, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemoryScope {
    /// The wave.
    Wave,
    /// The workgroup.
    Workgroup,
    /// The device.
    Device,
    /// The device and the host.
    System,
}

/// Whether the old value of an atomic operation is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Returns {
    /// Only the effect.
    Nothing,
    /// The old value.
    Old,
}

/// Atomic operations on 4 or 8 bytes ([`Access::bytes`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Atomic {
    /// Exchanges.
    Swap,
    /// Exchanges if the old value is the expected one.
    CompareSwap,
    /// Integer sum.
    Add,
    /// Old value minus data.
    Subtract,
    /// Data minus old value.
    ReverseSubtract,
    /// Signed minimum.
    MinimumSigned,
    /// Unsigned minimum.
    MinimumUnsigned,
    /// Signed maximum.
    MaximumSigned,
    /// Unsigned maximum.
    MaximumUnsigned,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// Old value plus 1, or 0 if it was at least the data.
    Increment,
    /// Old value minus 1, or the data if it was 0 or above the data.
    Decrement,
    /// Clears the bits that the first datum has, then sets those that the second has: `ds_mskor`.
    MaskedOr,
    /// f32 or f64 sum by `Access::bytes`.
    FloatAdd,
    /// f32 or f64 minimum.
    FloatMinimum,
    /// f32 or f64 maximum.
    FloatMaximum,
    /// f32 or f64 compare-and-swap, which compares as floats.
    FloatCompareSwap,
    /// Two f16 sums.
    HalfAdd,
    /// Two bf16 sums.
    Bf16Add,
}

/// Clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Clock {
    /// Core clock cycles: `s_memtime`.
    Cycles,
    /// The constant-frequency counter: `s_memrealtime`, 100 MHz.
    Time,
}

/// A matrix instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Matrix {
    /// The machine operation; its row has shape and types.
    pub op: isa::Op,
    /// Broadcast control.
    pub cbsz: u8,
    /// Block that is broadcast.
    pub abid: u8,
    /// Permutation of the second matrix, or its and the others' negation for doubles.
    pub blgp: u8,
}

impl FloatType {
    /// Kind of the values that hold it.
    pub fn kind(self) -> Kind {
        if self == FloatType::F64 { Kind::Double } else { Kind::Word }
    }
}

impl NumberType {
    /// Kind of the values that hold it.
    pub fn kind(self) -> Kind {
        if self == NumberType::F64 { Kind::Double } else { Kind::Word }
    }
}

impl Operation {
    /// Whether the operation has no effect but its results, so that it may be moved, merged and removed.
    pub fn is_pure(&self) -> bool {
        !matches!(
            self,
            Operation::Load(_)
                | Operation::Store(_)
                | Operation::Atomic(..)
                | Operation::AppendConsume { .. }
                | Operation::Barrier
                | Operation::Fence(_)
                | Operation::Clock(_)
                | Operation::Sleep
                | Operation::Require
                | Operation::GridBarrier
                | Operation::Observe(_)
        )
    }

    /// Whether a lane's result, or the effect, depends on values of other lanes. [`Operation::AnyLane`] is not counted.
    pub fn crosses_lanes(&self) -> bool {
        matches!(
            self,
            Operation::Ballot
                | Operation::ReadLane
                | Operation::ReadFirstLane
                | Operation::Shuffle
                | Operation::Push
                | Operation::Move(_)
                | Operation::AppendConsume { .. }
                | Operation::Matrix(_)
        )
    }

    /// Whether the instruction must stay although nothing uses its results.
    pub fn has_effect(&self) -> bool {
        matches!(
            self,
            Operation::Store(_)
                | Operation::Atomic(..)
                | Operation::AppendConsume { .. }
                | Operation::Barrier
                | Operation::Fence(_)
                | Operation::Sleep
                | Operation::Require
                | Operation::GridBarrier
                | Operation::Observe(_)
        )
    }
}
