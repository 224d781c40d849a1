//! Flags of encoding table rows: properties other than opcode and operand types.

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident)*) => {
        #[expect(non_camel_case_types, clippy::upper_case_acronyms, reason = "ordinals of the constants below")]
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
    CLAMP
    OMOD
    OPSEL
    /// `op_sel` has bits for three sources although there are two.
    OPSEL3
    // vector: which encodings exist besides the table's own
    NO_E64
    /// The mnemonic never has an encoding suffix.
    NO_SUFFIX
    SDWA
    /// The SDWA form writes the whole destination.
    SDWA_WHOLE_DST
    DPP
    // vector: unusual operands
    /// Writes a lane mask in addition to the vector result.
    CARRY_OUT
    /// The last source is a lane mask: VCC in the 32-bit forms.
    CARRY_IN
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
    MFMA
    SMFMAC
    F64
    ACCVGPR
    /// Mixed-precision FMA: `op_sel_hi` selects the type of a source, and `neg_hi` is `abs`.
    MIX
    // scalar
    /// The source cannot be a constant.
    SGPR_ONLY
    GPR_IDX
    BRANCH
    HWREG
    WAITCNT
    SENDMSG
    OPTIONAL_IMM
    NO_OPERANDS
    PROBE
    // memory
    /// Writes memory (or, for s_setreg, a hardware register).
    STORE
    ATOMIC
    /// An atomic with a comparison: twice as much data.
    COMPARE
    /// Two 8-bit offsets instead of one 16-bit offset.
    OFFSET2
    GDS_ONLY
    NO_GDS
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
    SAMPLER
    /// Can convert from and to 16-bit components.
    D16
    /// A cache operation with GLC and SCC bits.
    CACHE_BITS
}

impl Flags {
    pub const EMPTY: Flags = Flags(0);

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
