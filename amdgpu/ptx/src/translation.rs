//! The entry point: a function of the form in, PTX text out.

use lift::form::{Function, Refusal};

use crate::generator::Generator;
use crate::launch;
use crate::mode;

/// What the text is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Compute capability, such as 90 for 9.0. At least 80.
    pub sm: u32,
    /// PTX version, at least 7.8: what the driver understands.
    pub ptx: (u8, u8),
}

impl Default for Target {
    fn default() -> Target {
        Target { sm: 90, ptx: (8, 0) }
    }
}

/// How lanes become threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// A wave is a warp; a thread holds two lanes.
    Pair,
    /// A lane is a thread; a wave is two warps.
    Lane,
}

/// What the caller knows and wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The mode; `None` chooses.
    pub mode: Option<Mode>,
    /// Size of the workgroup; `None` if it is known only at launch.
    pub block: Option<[u32; 3]>,
    /// Words (4 bytes) in memory are at multiples of 4 although nothing proves it. Others fault on the GPU. Without it a check
    /// at run time guards every access whose alignment is unknown.
    pub aligned_words: bool,
    /// Matrix operations sum in the order and with the rounding of the form, also where tensor cores are faster.
    pub exact_matrix: bool,
    /// LDS accesses are in range although nothing proves it. Others fault on the GPU.
    pub trusted_lds: bool,
}

/// PTX of a kernel, and what its launch needs to know. [`crate::launch`] has the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translation {
    /// The module.
    pub text: String,
    /// Name of the entry in it.
    pub entry: String,
    /// The mode that was chosen.
    pub mode: Mode,
    /// Threads of a wave: 32 or 64.
    pub threads_per_wave: u32,
    /// Bytes of statically sized LDS; a launch adds the dynamic ones and gives the sum as dynamic shared memory.
    pub lds_bytes: u32,
    /// Bytes of the first parameter. May be more than the kernel's argument block; the rest is zero.
    pub kernarg_bytes: u32,
    /// Bytes of local memory of a thread.
    pub local_bytes: u32,
    /// Most threads of a block that the text permits.
    pub max_threads: u32,
    /// The grid synchronises: a cooperative launch with [`launch::GRID_BARRIER_AT`].
    pub cooperative: bool,
}

/// Translates a function to PTX.
///
/// # Errors
/// A refusal names the operation that cannot be translated.
pub fn translate(function: &Function, target: &Target, options: &Options) -> Result<Translation, Refusal> {
    let refuse = |reason: &str| Refusal {
        kernel: function.name.clone(),
        address: 0,
        instruction: String::new(),
        reason: reason.to_owned(),
    };
    if target.sm < 80 || target.ptx < (7, 8) {
        return Err(refuse("the translator needs compute capability 8.0 and PTX 7.8"));
    }
    if function.kernarg_bytes > launch_parameter_limit() {
        return Err(refuse("the kernel arguments are larger than a launch can pass"));
    }
    let items = match options.block {
        Some(block) => match block.iter().try_fold(1u32, |all, size| all.checked_mul(*size)) {
            Some(items @ 1..=1024) => items,
            _ => return Err(refuse("a workgroup has 1 to 1024 work-items")),
        },
        None => 1024,
    };
    let mode::Choice { mode, separated } = mode::choose(function, options)?;
    let max_threads = launch::threads(mode, items);
    let parted = separated.is_some();
    let function = separated.as_ref().unwrap_or(function);
    Generator::new(function, *target, options, mode, max_threads).parted(parted).generate()
}

/// Bytes of kernel arguments that a launch can pass next to the launch block: parameters have 4 KiB together.
fn launch_parameter_limit() -> u32 {
    4096 - launch::LAUNCH_BYTES
}
