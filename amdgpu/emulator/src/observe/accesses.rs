//! Memory accesses that an instruction is about to make, computed from its encoding and the wave's registers.
//!
//! Mirrors the address computation of the handlers without accessing memory. The [`Shape`] of an instruction is computed once per
//! program; its addresses ([`Accesses`]) before each execution, since a load may overwrite its own address register.

use isa::{AccessKind, DataType, Flags, Format, Inst, MemoryAccess};

use crate::compile::{PRIVATE_APERTURE, SHARED_APERTURE};
use crate::exec::format::{mubuf, smem};
use crate::wave::sreg;
use crate::{SrcKind, Uop, Wave};

/// Address space of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Space {
    /// Addresses are virtual addresses.
    Global,
    /// Addresses are offsets in the workgroup's LDS.
    Local,
    /// Addresses are offsets in the work-item's private memory.
    Private,
}

/// One access of a wave: the same number of bytes per lane, at one address per lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub space: Space,
    pub kind: AccessKind,
    /// Bytes at each address.
    pub bytes: u32,
    /// Active lanes; if `scalar`, lane 0 stands for the wave.
    pub lanes: u64,
    pub scalar: bool,
    /// Coherent with other workgroups: atomic and volatile loads and stores carry this flag.
    pub coherent: bool,
    /// First of the registers that are stored, if they are vector registers.
    pub data: Option<u16>,
    pub addresses: [u64; 64],
}

impl Access {
    /// Active lanes and their addresses.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let mut left = self.lanes;
        std::iter::from_fn(move || {
            let lane = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            (lane < 64).then(|| (lane, self.addresses[lane as usize]))
        })
    }

    pub fn address_of(&self, lane: u32) -> Option<u64> {
        (lane < 64 && self.lanes >> lane & 1 != 0).then(|| self.addresses[lane as usize])
    }
}

/// The accesses of one execution of an instruction.
pub(crate) type Accesses = Vec<Access>;

/// Addressing mode of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    None,
    /// One or two offsets from a vector address.
    Local([Option<u32>; 2]),
    /// M0 plus an offset, once per wave.
    LocalCounter(u32),
    /// M0 plus an offset plus the lane number.
    LocalLane(u32),
    Flat,
    Global,
    Scratch,
    Buffer,
    Scalar,
    ScalarBuffer,
}

/// Properties of an instruction's accesses that do not depend on register contents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    form: Form,
    kind: AccessKind,
    bytes: u32,
    /// The loaded elements are written to LDS.
    to_local: bool,
    coherent: bool,
}

impl Shape {
    const NONE: Shape =
        Shape { form: Form::None, kind: AccessKind::Load, bytes: 0, to_local: false, coherent: false };

    pub fn of(inst: &Inst) -> Shape {
        let flags = inst.encoding().flags;
        let Some(MemoryAccess { kind, bytes, offset_unit }) = inst.op.memory_access() else {
            return Shape::NONE;
        };
        let form = match inst.format {
            Format::Ds => local_form(inst, kind, offset_unit),
            Format::Flat => Form::Flat,
            Format::Global => Form::Global,
            Format::Scratch => Form::Scratch,
            Format::Mubuf => Form::Buffer,
            // Scalar accesses to scratch and typed buffers are not observed.
            Format::Smem if flags.has(Flags::SCRATCH) => return Shape::NONE,
            Format::Smem if inst.encoding().src[0] == DataType::B128 => Form::ScalarBuffer,
            Format::Smem => Form::Scalar,
            _ => return Shape::NONE,
        };
        let vector = !matches!(inst.format, Format::Ds | Format::Smem);
        let to_local = vector && kind == AccessKind::Load && (inst.memory.lds || flags.has(Flags::LDS_LOAD));
        let coherent = vector && kind != AccessKind::Atomic && (inst.memory.glc || inst.memory.scc);
        Shape { form, kind, bytes, to_local, coherent }
    }

    pub fn touches_memory(&self) -> bool {
        self.form != Form::None
    }

    /// Appends the accesses that a micro-op of this shape is about to make.
    pub fn place(&self, wave: &Wave, uop: &Uop, inst: &Inst, out: &mut Accesses) {
        let exec = wave.exec();
        let data = |src: usize| (uop.src[src].kind == SrcKind::Vector).then_some(uop.src[src].index);
        let access = |space, lanes, addresses| Access {
            space,
            kind: self.kind,
            bytes: self.bytes,
            lanes,
            scalar: false,
            coherent: self.coherent,
            data: if self.kind == AccessKind::Store { data(1) } else { None },
            addresses,
        };
        if matches!(self.form, Form::Scalar | Form::ScalarBuffer) {
            if let Some(address) =
                smem::observed_address(wave, uop, inst, self.bytes, self.form == Form::ScalarBuffer)
            {
                out.push(Access { scalar: true, data: None, ..access(Space::Global, 1, [address; 64]) });
            }
            return;
        }
        if exec == 0 {
            return;
        }
        match self.form {
            Form::None | Form::Scalar | Form::ScalarBuffer => {}
            Form::Local(offsets) => {
                let vaddr = &wave.vgprs[usize::from(uop.src[0].index)].0;
                for (k, offset) in offsets.iter().enumerate() {
                    if let Some(offset) = offset {
                        let addresses =
                            std::array::from_fn(|lane| u64::from(vaddr[lane].wrapping_add(*offset)));
                        let mut access = access(Space::Local, exec, addresses);
                        if self.kind == AccessKind::Store {
                            access.data = data(1 + k);
                        }
                        out.push(access);
                    }
                }
            }
            Form::LocalCounter(offset) => {
                let at = u64::from(wave.sgprs[sreg::M0] & 0xffff) + u64::from(offset);
                out.push(Access { scalar: true, ..access(Space::Local, 1, [at; 64]) });
            }
            Form::LocalLane(offset) => {
                let at = u64::from(wave.sgprs[sreg::M0] & 0xffff) + u64::from(offset);
                out.push(access(Space::Local, exec, std::array::from_fn(|lane| at + 4 * lane as u64)));
            }
            Form::Flat | Form::Global => {
                let addresses = flat_addresses(wave, uop, inst);
                let (mut local, mut private) = (0, 0);
                if self.form == Form::Flat {
                    for (lane, address) in addresses.iter().enumerate() {
                        local |= u64::from((address >> 32) as u32 == SHARED_APERTURE) << lane;
                        private |= u64::from((address >> 32) as u32 == PRIVATE_APERTURE) << lane;
                    }
                }
                let offsets = addresses.map(|address| address & 0xffff_ffff);
                let global = exec & !local & !private;
                for (space, lanes, addresses) in [
                    (Space::Global, global, addresses),
                    (Space::Local, exec & local, offsets),
                    (Space::Private, exec & private, offsets),
                ] {
                    if lanes != 0 {
                        out.push(access(space, lanes, addresses));
                    }
                }
                if self.to_local {
                    out.push(self.copied(wave, exec, inst));
                }
            }
            Form::Scratch => {
                let mut base = inst.imm as u32;
                if uop.src[2].kind == SrcKind::Scalar {
                    base = base.wrapping_add(wave.sgprs[usize::from(uop.src[2].index)]);
                }
                let addresses = match uop.src[0].kind {
                    SrcKind::Vector => {
                        let vaddr = &wave.vgprs[usize::from(uop.src[0].index)].0;
                        std::array::from_fn(|lane| u64::from(vaddr[lane].wrapping_add(base)))
                    }
                    _ => [u64::from(base); 64],
                };
                out.push(access(Space::Private, exec, addresses));
                if self.to_local {
                    out.push(self.copied(wave, exec, inst));
                }
            }
            Form::Buffer => self.place_buffer(wave, uop, exec, inst, access, out),
        }
    }

    /// Appends buffer accesses. Buffers are range-checked per dword, so parts of an element may be out of range and not accessed.
    fn place_buffer(
        &self,
        wave: &Wave,
        uop: &Uop,
        exec: u64,
        inst: &Inst,
        access: impl Fn(Space, u64, [u64; 64]) -> Access,
        out: &mut Accesses,
    ) {
        let (addresses, within, stride) = mubuf::observed_access(wave, uop, exec, self.bytes);
        let private = wave.private as u64;
        let private_bytes = 64 * u64::from(wave.private_size);
        let dwords = self.bytes.div_ceil(4) as usize;
        if self.to_local {
            // Lanes out of range write zero to LDS.
            out.push(self.copied(wave, exec, inst));
        }
        let whole = stride == 4 && (0..dwords).all(|k| within[k] == within[0]);
        let pieces = if whole { 1 } else { dwords };
        for (k, lanes) in within.iter().enumerate().take(pieces) {
            if *lanes == 0 {
                continue;
            }
            let addresses = addresses.map(|address| address.wrapping_add((k * stride) as u64));
            // Private memory is interleaved: one dword of all lanes, then the next dword.
            let offsets = addresses.map(|address| address.wrapping_sub(private));
            let mut piece = if offsets[lanes.trailing_zeros() as usize] < private_bytes {
                access(Space::Private, *lanes, offsets.map(|offset| offset / 256 * 4 + offset % 4))
            } else {
                access(Space::Global, *lanes, addresses)
            };
            if !whole {
                piece.bytes = self.bytes.min(4);
                piece.data = piece.data.map(|data| data + k as u16);
            }
            out.push(piece);
        }
    }

    /// LDS destination of a load to LDS.
    fn copied(&self, wave: &Wave, lanes: u64, inst: &Inst) -> Access {
        let width = u64::from(self.bytes.next_multiple_of(4));
        let base = u64::from(wave.sgprs[sreg::M0] & 0xffff).wrapping_add_signed(i64::from(inst.imm));
        Access {
            space: Space::Local,
            kind: AccessKind::Store,
            bytes: width as u32,
            lanes,
            scalar: false,
            coherent: false,
            data: None,
            addresses: std::array::from_fn(|lane| base.wrapping_add(width * lane as u64)),
        }
    }
}

/// Addresses of a GLOBAL or FLAT instruction.
fn flat_addresses(wave: &Wave, uop: &Uop, inst: &Inst) -> [u64; 64] {
    let at = usize::from(uop.src[0].index);
    let offset = i64::from(inst.imm);
    let low = &wave.vgprs[at].0;
    if uop.src[2].kind == SrcKind::Scalar {
        let base = wave.sgpr64(usize::from(uop.src[2].index)).wrapping_add_signed(offset);
        return std::array::from_fn(|lane| base.wrapping_add(u64::from(low[lane])));
    }
    let high = &wave.vgprs[at + 1].0;
    std::array::from_fn(|lane| {
        (u64::from(low[lane]) | u64::from(high[lane]) << 32).wrapping_add_signed(offset)
    })
}

/// Addressing mode of a DS instruction. Without an address operand, the address is M0 plus the offset: of one counter for the
/// atomics, of a dword per lane for loads and stores.
fn local_form(inst: &Inst, kind: AccessKind, offset_unit: Option<u32>) -> Form {
    let raw = inst.imm as u32 & 0xffff;
    match (inst.encoding().src[0], offset_unit) {
        (DataType::None, _) if kind == AccessKind::Atomic => Form::LocalCounter(raw),
        (DataType::None, _) => Form::LocalLane(raw),
        (_, Some(unit)) => Form::Local([Some((raw & 0xff) * unit), Some((raw >> 8) * unit)]),
        (_, None) => Form::Local([Some(raw), None]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(name: &str) -> Shape {
        let op = isa::Op::from_name(name).unwrap();
        Shape::of(&Inst {
            op,
            format: op.encoding().format,
            size: 8,
            dst: isa::Operand::None,
            sdst: isa::Operand::None,
            src: [isa::Operand::None; 4],
            imm: 0x0201,
            modifiers: Default::default(),
            memory: Default::default(),
            dpp: None,
            sdwa: None,
        })
    }

    #[test]
    fn forms_follow_the_rows() {
        assert_eq!(shape("ds_write2st64_b32").form, Form::Local([Some(256), Some(512)]));
        assert_eq!(shape("ds_read_b32").form, Form::Local([Some(0x201), None]));
        assert_eq!(shape("ds_append").form, Form::LocalCounter(0x201));
        assert_eq!(shape("ds_read_addtid_b32").form, Form::LocalLane(0x201));
        assert_eq!(shape("ds_write_addtid_b32").form, Form::LocalLane(0x201));
        assert_eq!(shape("s_load_dwordx2").form, Form::Scalar);
        assert_eq!(shape("s_buffer_atomic_add").form, Form::ScalarBuffer);
        assert!(shape("global_load_lds_dword").to_local);
        for name in
            ["ds_bpermute_b32", "ds_gws_barrier", "s_memtime", "s_dcache_inv", "v_add_f32", "s_barrier"]
        {
            assert!(!shape(name).touches_memory(), "{name}");
        }
    }
}
