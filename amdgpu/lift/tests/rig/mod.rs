//! A device that evaluates kernels instead of running them, for tests that are written for the software GPU.
#![allow(dead_code, reason = "each test binary uses a part")]

#[path = "../../../emulator/tests/rig/mod.rs"]
mod software;

use std::ops::Deref;
use std::sync::Arc;

use code_object::ArgKind;
use emulator::Dispatch;
use isa::Arch;
use lift::evaluate::{self, Launch, Memory};
use lift::{Assumptions, Code};

pub use software::{ARCHS, Args, hip};

/// Instructions of the form that a launch may run.
const STEPS: u64 = 4_000_000_000;

/// Stack of a lane where the compiler could not determine its size, as the software GPU has it.
const STACK_BYTES: u32 = 16 << 10;

/// What a launch did.
pub struct Done {
    pub workgroups: u64,
    /// Instructions of the form.
    pub size: usize,
}

/// The device.
pub struct Gpu {
    arch: Arch,
    base: u64,
    /// Address of the code, relative to the base, and its bytes.
    code: (u64, Vec<u8>),
    pointers: Vec<u64>,
}

/// A device with one loaded module.
pub struct Rig {
    software: software::Rig,
    pub gpu: Gpu,
}

impl Deref for Rig {
    type Target = software::Rig;

    fn deref(&self) -> &software::Rig {
        &self.software
    }
}

impl Rig {
    pub fn new(arch: Arch, image: Arc<[u8]>) -> Rig {
        let software = software::Rig::new(arch, image);
        let object = software.module.object();
        let text = object.segments().iter().find(|segment| segment.is_executable()).expect("code");
        let code = (text.vaddr, text.bytes.to_vec());
        let pointers = lift::function_pointers(object);
        let base = software.module.base();
        Rig { gpu: Gpu { arch, base, code, pointers }, software }
    }

    pub fn hip(file: &str, arch: Arch) -> Rig {
        Rig::new(arch, hip(file, arch, &[]))
    }

    pub fn run(&self, kernel: &str, blocks: u32, threads: u32, args: Args) -> Result<Done, String> {
        self.gpu.launch(&self.dispatch(kernel, [blocks, 1, 1], [threads, 1, 1], args))
    }
}

/// The host's memory, as far as kernels may access it, and the launch's own blocks.
struct Host<'a> {
    memory: &'a emulator::Memory,
    own: Vec<(u64, u64)>,
}

impl Host<'_> {
    fn allows(&self, address: u64, count: usize, write: bool) -> bool {
        let end = address.checked_add(count as u64);
        let own =
            |(start, size): &(u64, u64)| address >= *start && end.is_some_and(|end| end <= start + size);
        self.own.iter().any(own) || self.memory.contains(address, count as u64, write)
    }
}

impl Memory for Host<'_> {
    fn read(&mut self, address: u64, to: &mut [u8]) -> bool {
        if !self.allows(address, to.len(), false) {
            return false;
        }
        // SAFETY: the range was just found to be readable memory of this process.
        unsafe { std::ptr::copy_nonoverlapping(address as *const u8, to.as_mut_ptr(), to.len()) };
        true
    }

    fn write(&mut self, address: u64, from: &[u8]) -> bool {
        if !self.allows(address, from.len(), true) {
            return false;
        }
        // SAFETY: the range was just found to be writable memory of this process.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), address as *mut u8, from.len()) };
        true
    }
}

impl Gpu {
    /// Lifts, optimises and evaluates a kernel.
    pub fn launch(&self, dispatch: &Dispatch) -> Result<Done, String> {
        let kernel = &dispatch.kernel.kernel;
        let items: u32 = dispatch.workgroup.iter().product();
        let full = (0..3).all(|k| dispatch.grid[k].is_multiple_of(dispatch.workgroup[k]));
        let assumptions = Assumptions {
            base: self.base,
            block: full.then_some(dispatch.workgroup),
            full_waves: full && items.is_multiple_of(64),
            stack_bytes: STACK_BYTES,
            ..Assumptions::default()
        };
        let code = Code { address: self.code.0, bytes: &self.code.1, pointers: &self.pointers };
        let mut function =
            lift::lift(self.arch, &code, kernel, &assumptions).map_err(|refusal| refusal.to_string())?;
        lift::verify(&function)?;
        lift::optimize(&mut function, &assumptions);
        lift::verify(&function).map_err(|what| format!("optimised: {what}\n{function}"))?;
        let mut launch = Launch {
            grid: dispatch.grid,
            block: dispatch.workgroup,
            lds_bytes: (kernel.group_size + dispatch.dynamic_lds).next_multiple_of(512),
            private_bytes: function.private_bytes,
            steps: STEPS,
            ..Launch::default()
        };
        let mut arguments = vec![0_u64; (kernel.kernarg_size as usize + 64).div_ceil(8) + 1];
        let mut queue = vec![0_u64; 64];
        // The apertures, in the queue's descriptor.
        queue[8] = launch.shared_base >> 32 | launch.private_base;
        launch.kernarg = (arguments.as_ptr() as u64).next_multiple_of(16);
        launch.queue = queue.as_ptr() as u64;
        let packet = packet(dispatch, launch.kernarg);
        launch.dispatch = packet.as_ptr() as u64;
        let skip = (launch.kernarg - arguments.as_ptr() as u64) as usize;
        let mut bytes = vec![0; kernel.kernarg_size as usize];
        bytes[..dispatch.kernarg.len()].copy_from_slice(&dispatch.kernarg);
        for arg in kernel.hidden() {
            let value = hidden(&arg.kind, dispatch, &launch)?;
            let (at, size) = (arg.offset as usize, (arg.size as usize).min(8));
            bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
        }
        let mut all: Vec<u8> = arguments.iter().flat_map(|word| word.to_le_bytes()).collect();
        all[skip..skip + bytes.len()].copy_from_slice(&bytes);
        for (word, bytes) in arguments.iter_mut().zip(all.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().map_err(|_| "eight bytes")?);
        }
        let own = vec![
            (arguments.as_ptr() as u64, 8 * arguments.len() as u64),
            (packet.as_ptr() as u64, 64),
            (launch.queue, 8 * queue.len() as u64),
        ];
        let mut host = Host { memory: &dispatch.memory, own };
        evaluate::run(&function, &launch, &mut host).map_err(|fault| format!("{}: {fault}", kernel.name))?;
        let size = function.blocks.iter().map(|block| block.instructions.len()).sum();
        let workgroups = launch.workgroups().iter().map(|count| u64::from(*count)).product();
        Ok(Done { workgroups, size })
    }
}

/// The dispatch packet that a queue would hold.
fn packet(dispatch: &Dispatch, kernarg: u64) -> Vec<u8> {
    let mut packet = vec![0; 64];
    packet[0] = 2;
    packet[2] = 3;
    for k in 0..3 {
        packet[4 + 2 * k..6 + 2 * k].copy_from_slice(&(dispatch.workgroup[k] as u16).to_le_bytes());
        packet[12 + 4 * k..16 + 4 * k].copy_from_slice(&dispatch.grid[k].to_le_bytes());
    }
    packet[32..40].copy_from_slice(&dispatch.kernel.descriptor_address().to_le_bytes());
    packet[40..48].copy_from_slice(&kernarg.to_le_bytes());
    packet
}

/// Value of a hidden argument.
fn hidden(kind: &ArgKind, dispatch: &Dispatch, launch: &Launch) -> Result<u64, String> {
    let whole = |k: usize| u64::from(dispatch.grid[k] / dispatch.workgroup[k]);
    let size = |k: usize| u64::from(dispatch.workgroup[k]);
    let rest = |k: usize| u64::from(dispatch.grid[k] % dispatch.workgroup[k]);
    Ok(match kind {
        ArgKind::HiddenBlockCountX => whole(0),
        ArgKind::HiddenBlockCountY => whole(1),
        ArgKind::HiddenBlockCountZ => whole(2),
        ArgKind::HiddenGroupSizeX => size(0),
        ArgKind::HiddenGroupSizeY => size(1),
        ArgKind::HiddenGroupSizeZ => size(2),
        ArgKind::HiddenRemainderX => rest(0),
        ArgKind::HiddenRemainderY => rest(1),
        ArgKind::HiddenRemainderZ => rest(2),
        ArgKind::HiddenGridDims if dispatch.grid[2] > 1 => 3,
        ArgKind::HiddenGridDims if dispatch.grid[1] > 1 => 2,
        ArgKind::HiddenGridDims => 1,
        ArgKind::HiddenDynamicLdsSize => dispatch.dynamic_lds.into(),
        ArgKind::HiddenPrivateBase => launch.private_base >> 32,
        ArgKind::HiddenSharedBase => launch.shared_base >> 32,
        ArgKind::HiddenQueuePtr => launch.queue,
        _ => 0,
    })
}
