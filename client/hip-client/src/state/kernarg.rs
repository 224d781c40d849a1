//! Kernel arguments: gathers the program's argument pointers into the kernarg segment.
//!
//! The layout comes from the code object's metadata. The worker adds hidden arguments; only the explicit part is sent.

use std::ffi::c_void;

use code_object::Kernel;

/// The explicit arguments of one launch. Most launches fit the inline part, so the hot path does not allocate.
#[derive(Debug)]
pub struct Kernarg {
    inline: [u8; Kernarg::INLINE],
    heap: Vec<u8>,
    len: usize,
}

/// Errors in the argument pointers of a launch.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum KernargError {
    #[error("the kernel takes {expected} arguments, and no argument array was given")]
    Missing { expected: usize },
    #[error("argument {index} is a null pointer")]
    NullArgument { index: usize },
    #[error("kernelParams and extra were both given")]
    Both,
    #[error("the extra array is malformed")]
    MalformedExtra,
    #[error("the code object describes no arguments for this kernel: pass them packed through `extra`")]
    Undescribed,
}

impl Kernarg {
    const INLINE: usize = 256;
    /// Hardware limit of the kernarg segment as HIP documents it.
    const MOST: usize = 64 << 10;

    pub fn bytes(&self) -> &[u8] {
        if self.heap.is_empty() { &self.inline[..self.len] } else { &self.heap }
    }

    fn zeroed(len: usize) -> Kernarg {
        let heap = if len > Kernarg::INLINE { vec![0; len] } else { Vec::new() };
        Kernarg { inline: [0; Kernarg::INLINE], heap, len }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        if self.heap.is_empty() { &mut self.inline[..self.len] } else { &mut self.heap }
    }

    /// Gathers the arguments of a launch from `kernelParams` or `extra`, as hipModuleLaunchKernel takes them.
    ///
    /// # Safety
    /// `params` is null or an array with one readable pointer per explicit argument of `kernel`; `extra` is null or a
    /// HIP_LAUNCH_PARAM list.
    pub unsafe fn gather(
        kernel: &Kernel,
        params: *const *mut c_void,
        extra: *const *mut c_void,
    ) -> Result<Kernarg, KernargError> {
        match (params.is_null(), extra.is_null()) {
            (false, false) => Err(KernargError::Both),
            // SAFETY: the caller guarantees `extra`.
            (true, false) => unsafe { Kernarg::from_extra(kernel, extra) },
            // SAFETY: the caller guarantees `params`.
            (_, true) => unsafe { Kernarg::from_params(kernel, params) },
        }
    }

    unsafe fn from_params(kernel: &Kernel, params: *const *mut c_void) -> Result<Kernarg, KernargError> {
        let explicit = &kernel.args[..kernel.explicit_args.min(kernel.args.len())];
        if params.is_null() {
            return match explicit.len() {
                0 => Ok(Kernarg::zeroed(0)),
                expected => Err(KernargError::Missing { expected }),
            };
        }
        if kernel.args.is_empty() && kernel.kernarg_size > 0 {
            return Err(KernargError::Undescribed);
        }
        let len = explicit.iter().map(|a| a.offset as usize + a.size as usize).max().unwrap_or(0);
        let mut kernarg = Kernarg::zeroed(len.min(Kernarg::MOST));
        let bytes = kernarg.bytes_mut();
        for (index, arg) in explicit.iter().enumerate() {
            // SAFETY: the caller guarantees one pointer per explicit argument.
            let source = unsafe { *params.add(index) }.cast_const().cast::<u8>();
            if source.is_null() {
                return Err(KernargError::NullArgument { index });
            }
            let at = arg.offset as usize;
            let Some(slot) = bytes.get_mut(at..at + arg.size as usize) else { continue };
            // SAFETY: the program guarantees `size` readable bytes behind each argument pointer.
            unsafe { std::ptr::copy_nonoverlapping(source, slot.as_mut_ptr(), slot.len()) };
        }
        Ok(kernarg)
    }

    /// `extra` is a list of (1, buffer), (2, &size), terminated by 3. Bytes beyond the kernel's arguments are ignored, as
    /// in HIP: Tensile packs one buffer for kernels that take one argument more or less.
    unsafe fn from_extra(kernel: &Kernel, extra: *const *mut c_void) -> Result<Kernarg, KernargError> {
        const BUFFER_POINTER: usize = 1;
        const BUFFER_SIZE: usize = 2;
        const END: usize = 3;
        let (mut buffer, mut size) = (std::ptr::null::<u8>(), None);
        let mut at = 0;
        loop {
            // SAFETY: the list is read up to its end marker; at most two pairs precede it.
            let tag = unsafe { *extra.add(at) } as usize;
            match tag {
                END => break,
                _ if at >= 4 => return Err(KernargError::MalformedExtra),
                // SAFETY: a tag is followed by its value.
                BUFFER_POINTER => buffer = unsafe { *extra.add(at + 1) }.cast_const().cast(),
                BUFFER_SIZE => {
                    // SAFETY: the value of this tag is a pointer to the size.
                    let pointer = unsafe { *extra.add(at + 1) }.cast_const().cast::<usize>();
                    if pointer.is_null() {
                        return Err(KernargError::MalformedExtra);
                    }
                    // SAFETY: as above.
                    size = Some(unsafe { pointer.read_unaligned() });
                }
                _ => return Err(KernargError::MalformedExtra),
            }
            at += 2;
        }
        let size = size.filter(|size| *size <= Kernarg::MOST).ok_or(KernargError::MalformedExtra)?;
        if buffer.is_null() && size > 0 {
            return Err(KernargError::MalformedExtra);
        }
        let size = size.min(kernel.kernarg_size as usize);
        let mut kernarg = Kernarg::zeroed(size);
        if size > 0 {
            // SAFETY: the program guarantees at least `size` readable bytes behind its buffer pointer.
            unsafe { std::ptr::copy_nonoverlapping(buffer, kernarg.bytes_mut().as_mut_ptr(), size) };
        }
        Ok(kernarg)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use code_object::Descriptor;
    use hip_api::types::*;

    fn kernel_of(kernarg_size: u32) -> Kernel {
        Kernel {
            name: "kernel".to_owned(),
            symbol: "kernel.kd".to_owned(),
            descriptor_address: 0,
            entry_address: 0,
            descriptor: Descriptor::parse(&[0; Descriptor::SIZE]),
            args: Vec::new(),
            explicit_args: 0,
            kernarg_size,
            kernarg_align: 8,
            group_size: 0,
            private_size: 0,
            sgpr_count: 0,
            vgpr_count: 0,
            agpr_count: 0,
            sgpr_spill_count: 0,
            vgpr_spill_count: 0,
            max_flat_workgroup_size: 64,
            reqd_workgroup_size: None,
            wavefront_size: 64,
            uses_dynamic_stack: false,
            uniform_workgroup_size: false,
            language: None,
            language_version: None,
            kind: None,
        }
    }

    #[test]
    fn packed_arguments_beyond_those_of_the_kernel_are_left_out() {
        let mut packed: Vec<u8> = (0..116).collect();
        let mut size = packed.len();
        let list: [*mut c_void; 5] = [
            HIP_LAUNCH_PARAM_BUFFER_POINTER,
            packed.as_mut_ptr().cast(),
            HIP_LAUNCH_PARAM_BUFFER_SIZE,
            (&raw mut size).cast(),
            HIP_LAUNCH_PARAM_END,
        ];
        // SAFETY: the list names a buffer of that size and is terminated.
        let gather =
            |takes| unsafe { Kernarg::gather(&kernel_of(takes), std::ptr::null(), list.as_ptr()) }.unwrap();
        assert_eq!(gather(112).bytes(), &packed[..112]);
        assert_eq!(gather(200).bytes(), &packed[..]);
    }
}
