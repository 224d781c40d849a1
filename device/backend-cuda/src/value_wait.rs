//! Waits for a value in memory: a small kernel that polls it.
//!
//! The driver's own wait compares cyclically and has no mask.

use std::ffi::c_void;
use std::sync::{Arc, OnceLock};

use backend::{Comparison, DeviceError, ValueWait};

use crate::error::call;
use crate::functions::Functions;
use crate::program::Compiled;
use crate::translate::Facts;
use crate::types::CuStream;

/// Polls until the masked value compares as asked: 0 at least, 1 equal, 2 and, 3 nor. The comparison is done on 64 bits; a narrow
/// value is zero-extended, and the complement of nor is cut to 32 bits by the mask `ones`.
const TEXT: &str = concat!(
    r#"
.version 7.8
.target sm_80
.address_size 64
.visible .entry wait_value(.param .u64 at, .param .u64 value, .param .u64 mask, .param .u64 ones, .param .u32 how, .param .u32 wide)
{
    .reg .pred %p, %wide, %q;
    .reg .b32 %narrow, %how, %flag;
    .reg .b64 %at, %value, %mask, %ones, %found, %tmp;
    ld.param.u64 %at, [at];
    ld.param.u64 %value, [value];
    ld.param.u64 %mask, [mask];
    ld.param.u64 %ones, [ones];
    ld.param.u32 %how, [how];
    ld.param.u32 %flag, [wide];
    setp.ne.u32 %wide, %flag, 0;
LOOP:
    @%wide ld.relaxed.sys.global.u64 %found, [%at];
    @%wide bra HAVE;
    ld.relaxed.sys.global.u32 %narrow, [%at];
    cvt.u64.u32 %found, %narrow;
HAVE:
    and.b64 %found, %found, %mask;
    setp.eq.u32 %q, %how, 0;
    @%q bra ATLEAST;
    setp.eq.u32 %q, %how, 1;
    @%q bra EQUAL;
    setp.eq.u32 %q, %how, 2;
    @%q bra AND;
    or.b64 %tmp, %found, %value;
    not.b64 %tmp, %tmp;
    and.b64 %tmp, %tmp, %ones;
    setp.ne.u64 %p, %tmp, 0;
    bra TEST;
ATLEAST:
    setp.ge.u64 %p, %found, %value;
    bra TEST;
EQUAL:
    setp.eq.u64 %p, %found, %value;
    bra TEST;
AND:
    and.b64 %tmp, %found, %value;
    setp.ne.u64 %p, %tmp, 0;
TEST:
    @%p bra DONE;
    nanosleep.u32 2000;
    bra LOOP;
DONE:
    fence.acq_rel.sys;
    ret;
}
"#,
    "\0"
);

/// The polling kernel of one device, loaded at its first use.
#[derive(Default)]
pub(crate) struct ValueWaits {
    kernel: OnceLock<Arc<Compiled>>,
}

impl ValueWaits {
    /// Loads the kernel. The context of the device must be current.
    fn kernel(&self, functions: &Functions) -> Result<Arc<Compiled>, DeviceError> {
        if let Some(kernel) = self.kernel.get() {
            return Ok(Arc::clone(kernel));
        }
        let facts = Facts {
            entry: "wait_value".to_owned(),
            threads: 1,
            lds_bytes: 0,
            kernarg_bytes: 0,
            cooperative: false,
        };
        let kernel = Arc::new(Compiled::load(functions, TEXT.as_bytes(), facts)?);
        Ok(Arc::clone(self.kernel.get_or_init(|| kernel)))
    }

    /// Queues a wait for a value in memory.
    pub(crate) fn queue(
        &self,
        functions: &Functions,
        it: &ValueWait,
        stream: CuStream,
    ) -> Result<(), DeviceError> {
        let kernel = self.kernel(functions)?;
        let ones = if it.wide { u64::MAX } else { u64::from(u32::MAX) };
        let (mut at, mut value, mut mask, mut ones) = (it.address, it.value, it.mask, ones);
        let mut how: u32 = match it.comparison {
            Comparison::AtLeast => 0,
            Comparison::Equal => 1,
            Comparison::And => 2,
            Comparison::Nor => 3,
        };
        let mut wide = u32::from(it.wide);
        let mut parameters: [*mut c_void; 6] = [
            (&raw mut at).cast(),
            (&raw mut value).cast(),
            (&raw mut mask).cast(),
            (&raw mut ones).cast(),
            (&raw mut how).cast(),
            (&raw mut wide).cast(),
        ];
        let none = std::ptr::null_mut();
        call!(
            functions,
            cuLaunchKernel(kernel.function(), 1, 1, 1, 1, 1, 1, 0, stream, parameters.as_mut_ptr(), none)
        )
    }
}
