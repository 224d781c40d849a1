//! Facts about the execution of an operation, read from its row, for emulators and translators.
//!
//! A row declares a fact with a flag. Without the flag the default holds that the accessor documents.

use super::{Flags, Op};
use crate::{DataType, Format};

/// Direction of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AccessKind {
    /// Reads memory into registers, or into LDS.
    Load,
    /// Writes memory from registers, or from LDS.
    Store,
    /// Reads, modifies and writes memory in one step.
    Atomic,
}

/// Memory access of an operation, as far as it does not depend on the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemoryAccess {
    /// Direction of the access.
    pub kind: AccessKind,
    /// Size of the element in bytes: per lane and address, or once per wave for scalar memory. For typed buffers the size in
    /// registers; that in memory depends on the data format.
    pub bytes: u32,
    /// Unit of the two offsets of a two-address operation in bytes; `None` for one address.
    pub offset_unit: Option<u32>,
}

impl Op {
    /// Whether the float result is rounded in the direction that MODE selects. By default a result is exact, an approximation,
    /// or always rounded to nearest.
    pub fn rounds(self) -> bool {
        self.has(Flags::ROUNDS)
    }

    /// Whether the clamp bit makes the integer result saturate. By default integer results wrap and the clamp bit has no effect
    /// on them; float results are clamped to 0..=1 by every operation that has the bit.
    pub fn saturates(self) -> bool {
        self.has(Flags::SATURATES)
    }

    /// Whether finite sources can give an infinite result that is not an overflow, and that FP16_OVFL therefore keeps. By default
    /// an infinite result of finite sources is an overflow.
    pub fn has_pole(self) -> bool {
        self.has(Flags::POLE)
    }

    /// Whether a lane's result depends on registers of other lanes. By default each lane depends only on itself. DPP, which any
    /// form of an operation may have, is not counted.
    pub fn crosses_lanes(self) -> bool {
        self.has(Flags::CROSS_LANE.union(Flags::MFMA).union(Flags::SMFMAC))
    }

    /// Whether the operation writes EXEC although EXEC is not among its operands. By default EXEC is written only as a
    /// destination.
    pub fn writes_exec(self) -> bool {
        self.has(Flags::WRITES_EXEC)
    }

    /// Whether the operation is among the most frequent ones in loops of real kernels, and so deserves a specialised
    /// implementation. By default the general implementation serves.
    pub fn is_hot(self) -> bool {
        self.has(Flags::HOT)
    }

    /// How the operation accesses memory. `None` for operations of other formats, for cross-lane moves, cache operations, clocks
    /// and semaphores in memory formats, and for images, whose access depends on the instruction's component mask. By default an
    /// access is a load of whole registers from one address.
    pub fn memory_access(self) -> Option<MemoryAccess> {
        let row = self.encoding();
        let kind = if row.flags.has(Flags::ATOMIC) {
            AccessKind::Atomic
        } else if row.flags.has(Flags::STORE) {
            AccessKind::Store
        } else {
            AccessKind::Load
        };
        let (two, data) = (row.flags.has(Flags::OFFSET2), row.src[1].dwords());
        let dwords = match (row.format, kind) {
            (Format::Ds, _) if row.flags.has(Flags::CROSS_LANE | Flags::NO_OPERANDS | Flags::GDS_ONLY) => {
                return None;
            }
            (Format::Ds, AccessKind::Load) if two => row.dst.dwords() / 2,
            (Format::Ds, AccessKind::Load) => row.dst.dwords(),
            // `ds_append` and `ds_consume` have no data.
            (Format::Ds, _) => data.max(1),
            (Format::Smem, _) if row.dst == DataType::None || row.src[0] == DataType::None => return None,
            (Format::Smem, _) if row.flags.has(Flags::COMPARE) => row.dst.dwords() / 2,
            (Format::Smem, _) => row.dst.dwords(),
            (Format::Mubuf, _) if row.flags.has(Flags::NO_OPERANDS) => return None,
            (Format::Flat | Format::Global | Format::Scratch | Format::Mubuf | Format::Mtbuf, kind) => {
                match kind {
                    AccessKind::Atomic => row.dst.dwords(),
                    // An access between memory and LDS has no registers and moves one dword, or less.
                    AccessKind::Store => data.max(1),
                    AccessKind::Load => row.dst.dwords().max(1),
                }
            }
            _ => return None,
        };
        let bytes = match () {
            () if row.flags.has(Flags::BYTE) => 1,
            () if row.flags.has(Flags::SHORT) => 2,
            () => 4 * dwords,
        };
        let unit = if row.flags.has(Flags::STRIDE64) { 64 * bytes } else { bytes };
        Some(MemoryAccess { kind, bytes, offset_unit: two.then_some(unit) })
    }

    fn has(self, flags: Flags) -> bool {
        self.encoding().flags.has(flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(name: &str) -> Option<(AccessKind, u32)> {
        let op = Op::from_name(name).expect("an operation");
        op.memory_access().map(|access| (access.kind, access.bytes))
    }

    #[test]
    fn sizes_and_kinds_of_accesses_follow_the_rows() {
        use AccessKind::{Atomic, Load, Store};
        for (name, kind, bytes) in [
            ("ds_read_b32", Load, 4),
            ("ds_read_u16_d16_hi", Load, 2),
            ("ds_read_b96", Load, 12),
            ("ds_read2st64_b64", Load, 8),
            ("ds_write_b8_d16_hi", Store, 1),
            ("ds_write2_b32", Store, 4),
            ("ds_add_rtn_u64", Atomic, 8),
            ("ds_cmpst_b32", Atomic, 4),
            ("ds_pk_add_bf16", Atomic, 4),
            ("ds_append", Atomic, 4),
            ("global_load_dwordx3", Load, 12),
            ("global_load_sbyte_d16", Load, 1),
            ("global_load_lds_dword", Load, 4),
            ("global_store_short_d16_hi", Store, 2),
            ("global_atomic_cmpswap_x2", Atomic, 8),
            ("global_atomic_pk_add_f16", Atomic, 4),
            ("flat_store_dwordx4", Store, 16),
            ("scratch_load_ushort", Load, 2),
            ("buffer_store_dwordx2", Store, 8),
            ("buffer_store_lds_dword", Store, 4),
            ("buffer_atomic_add_x2", Atomic, 8),
            ("s_load_dwordx16", Load, 64),
            ("s_scratch_store_dword", Store, 4),
            ("s_buffer_load_dwordx2", Load, 8),
            ("s_atomic_cmpswap", Atomic, 4),
        ] {
            assert_eq!(access(name), Some((kind, bytes)), "{name}");
        }
        for name in [
            "ds_bpermute_b32",
            "ds_gws_barrier",
            "s_memtime",
            "s_dcache_inv",
            "buffer_wbl2",
            "v_add_f32",
            "s_barrier",
        ] {
            assert_eq!(access(name), None, "{name}");
        }
        let unit = |name: &str| {
            Op::from_name(name).and_then(Op::memory_access).and_then(|access| access.offset_unit)
        };
        assert_eq!(unit("ds_write2st64_b32"), Some(256));
        assert_eq!(unit("ds_read2_b64"), Some(8));
        assert_eq!(unit("ds_read_b64"), None);
    }

    #[test]
    fn every_access_has_bytes() {
        for op in Op::ALL {
            assert!(op.memory_access().is_none_or(|access| access.bytes > 0), "{}", op.name());
        }
    }

    #[test]
    fn facts_fit_the_types_of_their_rows() {
        for row in super::super::ENCODINGS {
            let name = row.op.name();
            if row.op.rounds() || row.op.has_pole() {
                assert!(row.dst.is_float(), "{name}: only floats are rounded");
            }
            if row.op.saturates() {
                assert!(!row.dst.is_float() && row.dst != DataType::None, "{name}: only integers saturate");
                let clamps = row.flags.has(Flags::CLAMP) || row.format == Format::Vop3p;
                assert!(clamps, "{name}: needs a clamp bit");
            }
            if row.op.writes_exec() {
                let scalar = matches!(row.format, Format::Sop1 | Format::Sop2 | Format::Sopk);
                assert!(scalar || row.format == Format::Vopc, "{name}");
            }
        }
    }
}
