//! Flags of encoding table rows: properties other than opcode and operand types.
//!
//! Encoding flags say which forms and operands an operation has. Behaviour flags say what executing it does, as far as that is a
//! plain fact; [`super::fact`] has the accessors and defines what the absence of a flag means.

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident)*) => {
        #[expect(non_camel_case_types, clippy::upper_case_acronyms, reason = "the variants only number the constants below")]
        enum Bit { $($name),* }

        impl Flags {
            $($(#[$doc])* pub const $name: Flags = Flags(1 << Bit::$name as u32);)*
        }
    };
}

/// A set of row flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u64);

flags! {
    // vector: which modifiers the 64-bit, SDWA and DPP forms take
    /// Sources accept `neg` and `abs`; an integer source among them accepts `sext` instead of `neg`.
    MODS
    /// Only the first source accepts `neg` and `abs`.
    MODS0
    /// Sources accept `neg` only (the `abs` bits hold the scalar destination).
    NEG
    /// The `neg` and `abs` bits are ignored and may have any value.
    MODS_IGNORED
    /// Has a clamp bit.
    CLAMP
    /// Has an output modifier: scales the result.
    OMOD
    /// Has `op_sel` bits, which select halves of 16-bit operands.
    OPSEL
    /// `op_sel` has bits for three sources although there are two.
    OPSEL3
    // vector: which encodings exist besides the table's own
    /// Has no 64-bit form.
    NO_E64
    /// The mnemonic never has an encoding suffix.
    NO_SUFFIX
    /// Has an SDWA form.
    SDWA
    /// The SDWA form writes the whole destination.
    SDWA_WHOLE_DST
    /// Has a DPP form.
    DPP
    // vector: unusual operands
    /// Writes a lane mask in addition to the vector result.
    CARRY_OUT
    /// The last source is a lane mask: VCC in the 32-bit forms.
    CARRY_IN
    /// The destination is a scalar register.
    SGPR_DST
    /// The first source is a vector register.
    VGPR_ONLY
    /// v_readlane, v_writelane: the lane number is scalar, and the value is scalar for v_writelane.
    LANE
    /// The literal is the last source.
    LITERAL_LAST
    /// The literal is the second of three sources.
    LITERAL_MIDDLE
    // matrix
    /// Matrix multiply-add.
    MFMA
    /// Matrix multiply-add with a sparse first matrix.
    SMFMAC
    /// A matrix operation on doubles, whose negation bits replace the broadcast of the second matrix.
    F64
    /// Moves between vector and accumulation registers.
    ACCVGPR
    /// Mixed-precision FMA: `op_sel_hi` selects the type of a source, and `neg_hi` is `abs`.
    MIX
    // scalar
    /// The source cannot be a constant.
    SGPR_ONLY
    /// The immediate selects the operands that `s_set_gpr_idx_*` indexes.
    GPR_IDX
    /// The immediate is a branch distance in dwords.
    BRANCH
    /// The immediate names a field of a hardware register.
    HWREG
    /// The immediate holds the counters of `s_waitcnt`.
    WAITCNT
    /// The immediate is a message.
    SENDMSG
    /// The immediate is written only if it is not zero.
    OPTIONAL_IMM
    /// Has no operands.
    NO_OPERANDS
    /// An address probe: the data field holds a mode.
    PROBE
    // memory
    /// Writes memory (or, for s_setreg, a hardware register).
    STORE
    /// Reads, modifies and writes memory in one step.
    ATOMIC
    /// An atomic with a comparison: twice as much data.
    COMPARE
    /// Two 8-bit offsets instead of one 16-bit offset.
    OFFSET2
    /// The GDS bit must be set.
    GDS_ONLY
    /// The GDS bit must be clear.
    NO_GDS
    /// The offset is a swizzle pattern.
    SWIZZLE
    /// Loads into LDS when the `lds` bit is set (gfx90a only).
    LDS_90A
    /// Loads into LDS when the `lds` bit is set.
    LDS_OK
    /// The `lds` bit must be set.
    LDS_ONLY
    /// Loads into LDS, has no vector destination.
    LDS_LOAD
    /// The SCC bit does not exist on gfx90a.
    NO_SCC_90A
    /// Has a sampler operand.
    SAMPLER
    /// Can convert from and to 16-bit components.
    D16
    /// A cache operation with GLC and SCC bits.
    CACHE_BITS
    // behaviour: arithmetic
    /// The float result is rounded in the direction that MODE selects.
    ROUNDS
    /// With the clamp bit, the integer result saturates instead of wrapping.
    SATURATES
    /// Finite sources can give an infinite result (a division by zero, the logarithm of zero) that is not an overflow.
    POLE
    // behaviour: lanes
    /// Moves values between lanes.
    CROSS_LANE
    /// Writes EXEC although EXEC is not among its operands.
    WRITES_EXEC
    /// Among the most frequent operations in loops of real kernels.
    HOT
    // behaviour: memory
    /// The element in memory is one byte.
    BYTE
    /// The element in memory is two bytes.
    SHORT
    /// The offsets of a two-address form count 64 elements each.
    STRIDE64
    /// Scalar access to scratch memory: the scalar offset is per lane.
    SCRATCH
}

impl Flags {
    /// No flag.
    pub const EMPTY: Flags = Flags(0);

    /// The flags of both sets.
    pub const fn union(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Whether any flag of `other` is set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }
}

impl std::ops::BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        self.union(other)
    }
}
