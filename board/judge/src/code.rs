//! Analysis of compiled kernels: registers, memory, occupancy, and the disassembly with source lines.
//!
//! The disassembler is Remora's own (`amdgpu/isa`); source lines come from the code object's DWARF.

use std::sync::Arc;

use board_contract::{IsaLine, IsaListing, KernelFacts};
use board_problems::{Direction, Dtype, Launch, Problem};
use code_object::{ArgKind, CodeObject, Kernel, SourceLines, SymbolKind};

use crate::gpu::Gpu;
use crate::recipe::SOURCE;

/// Most lines of all listings together.
const MOST_LINES: usize = 50_000;

/// Size and dynamic local memory of the workgroups that the occupancy is computed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Workgroup {
    /// Work-items.
    pub size: u32,
    /// Bytes.
    pub dynamic_lds: u32,
}

impl Workgroup {
    /// The workgroups of kernels whose launches are not known: those of host code.
    pub const USUAL: Workgroup = Workgroup { size: 256, dynamic_lds: 0 };

    /// Returns the workgroups of a launch.
    pub fn of(launch: &Launch) -> Workgroup {
        Workgroup { size: launch.block.iter().product(), dynamic_lds: launch.dynamic_lds }
    }
}

/// A parsed code object.
#[derive(Debug)]
pub(crate) struct Code {
    object: CodeObject,
}

impl Code {
    pub fn parse(bytes: &[u8]) -> Result<Code, code_object::Error> {
        Ok(Code { object: CodeObject::parse(Arc::from(bytes))? })
    }

    /// Returns the facts of every kernel, with the occupancy of workgroups like these. Workgroups that are too large for a kernel
    /// count as its largest ones: only `solution` is launched by the judge, and other kernels may be compiled for smaller workgroups.
    pub fn facts(&self, gpu: &Gpu, group: Workgroup) -> Vec<KernelFacts> {
        let facts = |kernel: &Kernel| {
            let workgroup = group.size.clamp(1, kernel.max_flat_workgroup_size.max(1));
            let occupancy = kernel.occupancy(workgroup, u64::from(group.dynamic_lds), u64::from(gpu.local));
            KernelFacts {
                name: kernel.name.clone(),
                vgprs: kernel.vgpr_count - kernel.agpr_count.min(kernel.vgpr_count),
                agprs: kernel.agpr_count,
                sgprs: kernel.sgpr_count,
                lds_bytes: kernel.group_size,
                scratch_bytes: kernel.private_size,
                workgroups_per_cu: occupancy.groups,
                waves_per_simd: occupancy.waves_per_simd(),
                spilled_vgprs: kernel.vgpr_spill_count,
                spilled_sgprs: kernel.sgpr_spill_count,
                workgroup,
                dynamic_lds_bytes: group.dynamic_lds,
            }
        };
        self.object.kernels().iter().map(facts).collect()
    }

    /// Returns what is wrong with the parameters of `solution`; `None` if they match the problem.
    pub fn complaint(&self, problem: &Problem, dtype: Dtype) -> Option<String> {
        let signature = problem.signature(dtype, board_problems::Shape::Kernel);
        let Some(kernel) = self.object.kernel("solution") else {
            return Some(format!("there is no kernel named solution; its declaration must be\n{signature}"));
        };
        let found = kernel.explicit();
        if found.len() != problem.parameters.len() {
            let (found, wanted) = (found.len(), problem.parameters.len());
            return Some(format!(
                "solution takes {found} parameters, not {wanted}; its declaration must be\n{signature}"
            ));
        }
        for (argument, parameter) in found.iter().zip(&problem.parameters) {
            let is_scalar = parameter.direction == Direction::Scalar;
            let size = if is_scalar { parameter.element.dtype(dtype).size() } else { 8 };
            let is_buffer = argument.kind == ArgKind::GlobalBuffer;
            if argument.size as usize != size || is_buffer == is_scalar {
                let name = &parameter.name;
                return Some(format!(
                    "the parameter {name} of solution has the wrong type; its declaration must be\n{signature}"
                ));
            }
        }
        None
    }

    /// Disassembles every kernel and the functions they call.
    pub fn listings(&self) -> Vec<IsaListing> {
        let arch = if self.object.target().processor.starts_with("gfx90a") {
            isa::Arch::Gfx90a
        } else {
            isa::Arch::Gfx942
        };
        let lines = SourceLines::parse(self.object.image());
        let mut left = MOST_LINES;
        let mut listings = Vec::new();
        for symbol in self.object.symbols().iter().filter(|symbol| symbol.kind == SymbolKind::Function) {
            let Some(bytes) = self.object.bytes_at(symbol.value, symbol.size as usize) else { continue };
            let mut listing = IsaListing { kernel: symbol.name.clone(), lines: Vec::new() };
            let mut at = 0;
            while at + 4 <= bytes.len() && left > 0 {
                let address = symbol.value + at as u64;
                let (text, size) = match isa::decode(arch, &bytes[at..]) {
                    Ok(inst) => (isa::disassemble(arch, &inst, address), usize::from(inst.size).max(4)),
                    Err(_) => {
                        let word =
                            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
                        (format!(".long 0x{word:08x}"), 4)
                    }
                };
                let line = lines.find(address).filter(|line| line.file_name() == SOURCE);
                listing.lines.push(IsaLine {
                    address: at as u64,
                    text,
                    source_line: line.map(|line| line.line),
                });
                at += size;
                left -= 1;
            }
            listings.push(listing);
        }
        listings
    }
}
