//! The suite's kernels as hand-written PTX, with the parameters that translated kernels have.

use backend_cuda::{Facts, Program, Request, Translator};

/// Header, then a body with the first argument in `%p`, the 32-bit ones that follow in `%a` and `%b`.
const HEAD: &str = "
.version 7.8
.target sm_80
.address_size 64
.visible .entry kernel(.param .align 16 .b8 arguments[ARGUMENTS], .param .align 16 .b8 block[128])
{
    .reg .pred %q;
    .reg .b32 %a, %b, %i, %t, %g;
    .reg .b64 %p, %at;
    ld.param.u64 %p, [arguments];
    ld.param.u32 %a, [arguments+8];
    ld.param.u32 %b, [arguments+12];
    mov.u32 %t, %tid.x;
    mov.u32 %g, %ctaid.x;
";

const ADD_ONE: &str = "
    mad.lo.u32 %i, %g, 64, %t;
    setp.lt.s32 %q, %i, %a;
    @!%q ret;
    mad.wide.u32 %at, %i, 4, %p;
    ld.global.u32 %t, [%at];
    add.u32 %t, %t, 1;
    st.global.u32 [%at], %t;
    ret;
}
";

const SLOW_STORE: &str = "
    mov.u32 %i, 0;
LOOP:
    setp.lt.s32 %q, %i, %b;
    @!%q bra DONE;
    st.volatile.global.u32 [%p+4], %i;
    add.u32 %i, %i, 1;
    bra LOOP;
DONE:
    st.volatile.global.u32 [%p], %a;
    ret;
}
";

const WRITE_THROUGH: &str = "
    mov.u32 %t, 1;
    st.global.u32 [%p], %t;
    ret;
}
";

const FOREVER: &str = "
LOOP:
    ld.volatile.global.u32 %t, [%p];
    setp.ne.u32 %q, %t, 0;
    @%q ret;
    bra LOOP;
}
";

const BUMP_COUNTER: &str = "
    mov.u64 %at, COUNTER;
    ld.global.u32 %t, [%at];
    add.u32 %t, %t, 1;
    st.global.u32 [%at], %t;
    st.global.u32 [%p], %t;
    ret;
}
";

/// Translator that knows only the suite's kernels.
#[derive(Debug)]
pub struct HandWritten;

impl Translator for HandWritten {
    fn translate(&self, request: &Request<'_>) -> Result<Program, String> {
        let body = match request.kernel.name.as_str() {
            "add_one" => ADD_ONE,
            "slow_store" => SLOW_STORE,
            "write_through" => WRITE_THROUGH,
            "forever" => FOREVER,
            "bump_counter" => BUMP_COUNTER,
            other => return Err(format!("no hand-written kernel {other}")),
        };
        let object =
            code_object::CodeObject::parse(backend_suite::KERNELS.into()).map_err(|e| e.to_string())?;
        let counter = object.symbol("counter").ok_or("no counter")?.value + request.assumptions.base;
        let bytes = request.kernel.kernarg_size.max(16);
        let text =
            HEAD.replace("ARGUMENTS", &bytes.to_string()) + &body.replace("COUNTER", &counter.to_string());
        let threads = request.assumptions.block.map_or(64, |block| block.iter().product());
        let facts = Facts {
            entry: "kernel".to_owned(),
            threads,
            lds_bytes: 0,
            kernarg_bytes: bytes,
            cooperative: false,
        };
        Ok(Program { text, facts })
    }

    fn version(&self) -> &str {
        "hand-written"
    }
}
