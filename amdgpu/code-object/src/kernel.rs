//! Kernels and their arguments, as needed for a launch.

use crate::Descriptor;

/// A kernel of a code object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// Name by which programs look it up.
    pub name: String,
    /// Symbol of the descriptor, normally the name plus `.kd`.
    pub symbol: String,
    /// Address of the descriptor before relocation.
    pub descriptor_address: u64,
    /// Address of the first instruction before relocation.
    pub entry_address: u64,
    /// The decoded descriptor.
    pub descriptor: Descriptor,
    /// Arguments in order; empty if the metadata does not list them (hand-written assembly).
    pub args: Vec<Arg>,
    /// Number of `args` that the caller passes: those before the first hidden one.
    pub explicit_args: usize,
    /// Size of the kernel argument block in bytes.
    pub kernarg_size: u32,
    /// Alignment of the kernel argument block.
    pub kernarg_align: u32,
    /// LDS bytes of statically sized arrays.
    pub group_size: u32,
    /// Scratch bytes per lane.
    pub private_size: u32,
    /// SGPRs used.
    pub sgpr_count: u32,
    /// VGPRs used, including accumulation registers if they share one register file.
    pub vgpr_count: u32,
    /// Accumulation registers used.
    pub agpr_count: u32,
    /// Scalar registers spilled to memory.
    pub sgpr_spill_count: u32,
    /// Vector registers spilled to memory.
    pub vgpr_spill_count: u32,
    /// Maximum workgroup size that the kernel was compiled for.
    pub max_flat_workgroup_size: u32,
    /// Required workgroup shape, if any.
    pub reqd_workgroup_size: Option<[u32; 3]>,
    /// Lanes per wave.
    pub wavefront_size: u32,
    /// The compiler could not determine the stack size.
    pub uses_dynamic_stack: bool,
    /// The grid size must be a multiple of the workgroup size.
    pub uniform_workgroup_size: bool,
    /// Source language, such as `OpenCL C`.
    pub language: Option<String>,
    /// Source language version.
    pub language_version: Option<[u32; 2]>,
    /// `normal`, or `init` and `fini` for kernels that run at load and unload.
    pub kind: Option<String>,
}

impl Kernel {
    /// Arguments that the caller passes.
    pub fn explicit(&self) -> &[Arg] {
        &self.args[..self.explicit_args]
    }

    /// Arguments that the runtime fills in.
    pub fn hidden(&self) -> impl Iterator<Item = &Arg> {
        self.args.iter().filter(|arg| arg.kind.is_hidden())
    }

    /// Whether any argument is of this kind.
    pub fn has_arg(&self, kind: &ArgKind) -> bool {
        self.args.iter().any(|arg| arg.kind == *kind)
    }
}

/// One argument of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arg {
    /// Name in the source, or empty.
    pub name: String,
    /// Offset in the argument block.
    pub offset: u32,
    /// Size in bytes.
    pub size: u32,
    /// Kind of the argument.
    pub kind: ArgKind,
    /// Address space that a pointer points into, if specified.
    pub address_space: Option<AddressSpace>,
    /// Name of the source type, if specified.
    pub type_name: Option<String>,
    /// `read_only`, `write_only` or `read_write`, if specified; the actual access of the code if known, else the declared one.
    pub access: Option<String>,
    /// Alignment of the memory that a `dynamic_shared_pointer` points to.
    pub pointee_align: Option<u32>,
    /// A pointer to constant data.
    pub is_const: bool,
    /// A pointer not aliased by others.
    pub is_restrict: bool,
}

/// Address space of a pointer argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressSpace {
    /// Scratch.
    Private,
    /// Device memory.
    Global,
    /// Read-only device memory.
    Constant,
    /// LDS.
    Local,
    /// Any of them (flat addressing).
    Generic,
    /// Region (GDS).
    Region,
    /// An unknown name.
    Other(String),
}

impl AddressSpace {
    pub(crate) fn from_name(name: &str) -> AddressSpace {
        match name {
            "private" => AddressSpace::Private,
            "global" => AddressSpace::Global,
            "constant" => AddressSpace::Constant,
            "local" => AddressSpace::Local,
            "generic" => AddressSpace::Generic,
            "region" => AddressSpace::Region,
            other => AddressSpace::Other(other.to_owned()),
        }
    }
}

macro_rules! arg_kinds {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// Kind of an argument. Unknown kinds are kept as [`ArgKind::Other`].
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum ArgKind {
            $($(#[$doc])* $variant,)*
            /// An unknown name.
            Other(String),
        }

        impl ArgKind {
            /// Kind for a name in the metadata.
            pub fn from_name(name: &str) -> ArgKind {
                match name {
                    $($name => ArgKind::$variant,)*
                    other => ArgKind::Other(other.to_owned()),
                }
            }

            /// Name in the metadata.
            pub fn name(&self) -> &str {
                match self {
                    $(ArgKind::$variant => $name,)*
                    ArgKind::Other(name) => name,
                }
            }
        }
    };
}

arg_kinds! {
    /// The value itself.
    ByValue = "by_value",
    /// A pointer to device memory.
    GlobalBuffer = "global_buffer",
    /// A pointer to dynamic LDS, whose size the launch specifies.
    DynamicSharedPointer = "dynamic_shared_pointer",
    /// A sampler's address.
    Sampler = "sampler",
    /// An image's address.
    Image = "image",
    /// A pipe's address.
    Pipe = "pipe",
    /// A device queue's address.
    Queue = "queue",
    /// Grid offset x.
    HiddenGlobalOffsetX = "hidden_global_offset_x",
    /// Grid offset y.
    HiddenGlobalOffsetY = "hidden_global_offset_y",
    /// Grid offset z.
    HiddenGlobalOffsetZ = "hidden_global_offset_z",
    /// Unused padding.
    HiddenNone = "hidden_none",
    /// `printf` buffer.
    HiddenPrintfBuffer = "hidden_printf_buffer",
    /// Hostcall buffer.
    HiddenHostcallBuffer = "hidden_hostcall_buffer",
    /// Default device queue.
    HiddenDefaultQueue = "hidden_default_queue",
    /// Completion action of device enqueue.
    HiddenCompletionAction = "hidden_completion_action",
    /// State of a multi-grid barrier.
    HiddenMultigridSyncArg = "hidden_multigrid_sync_arg",
    /// Workgroups in x.
    HiddenBlockCountX = "hidden_block_count_x",
    /// Workgroups in y.
    HiddenBlockCountY = "hidden_block_count_y",
    /// Workgroups in z.
    HiddenBlockCountZ = "hidden_block_count_z",
    /// Workgroup size in x.
    HiddenGroupSizeX = "hidden_group_size_x",
    /// Workgroup size in y.
    HiddenGroupSizeY = "hidden_group_size_y",
    /// Workgroup size in z.
    HiddenGroupSizeZ = "hidden_group_size_z",
    /// Size in x of the partial workgroup.
    HiddenRemainderX = "hidden_remainder_x",
    /// Size in y of the partial workgroup.
    HiddenRemainderY = "hidden_remainder_y",
    /// Size in z of the partial workgroup.
    HiddenRemainderZ = "hidden_remainder_z",
    /// Dimensions of the grid.
    HiddenGridDims = "hidden_grid_dims",
    /// The device heap.
    HiddenHeapV1 = "hidden_heap_v1",
    /// Dynamic LDS bytes of the launch.
    HiddenDynamicLdsSize = "hidden_dynamic_lds_size",
    /// High half of scratch addresses.
    HiddenPrivateBase = "hidden_private_base",
    /// High half of LDS addresses.
    HiddenSharedBase = "hidden_shared_base",
    /// The queue's address.
    HiddenQueuePtr = "hidden_queue_ptr",
}

impl ArgKind {
    /// Whether the runtime provides it instead of the caller.
    pub fn is_hidden(&self) -> bool {
        self.name().starts_with("hidden_")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_kinds_keep_their_word() {
        let kind = ArgKind::from_name("hidden_future_thing");
        assert_eq!(kind, ArgKind::Other("hidden_future_thing".into()));
        assert!(kind.is_hidden());
        assert!(!ArgKind::from_name("by_value").is_hidden());
        assert_eq!(ArgKind::from_name(ArgKind::HiddenHeapV1.name()), ArgKind::HiddenHeapV1);
    }
}
