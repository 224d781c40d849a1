//! Operand access of scalar operations, and the macro that turns a table of operations into handlers.

use crate::compile::Type;
use crate::{Src, Wave};

/// Type of a scalar operand: defines how it is read, written and (for constants) widened.
pub(crate) trait Operand {
    type Value: Copy;
    const WIDTH: u16;
    const TYPE: Type;
    fn read(wave: &Wave, src: &Src) -> Self::Value;
    fn write(wave: &mut Wave, dst: u16, value: Self::Value);
}

/// 32-bit operand.
pub(crate) struct B32;
/// 64-bit operand.
pub(crate) struct B64;
/// 64-bit operand whose literals are sign-extended.
pub(crate) struct I64;
/// No destination.
pub(crate) struct No;

impl Operand for B32 {
    type Value = u32;
    const WIDTH: u16 = 1;
    const TYPE: Type = Type::B32;
    #[inline(always)]
    fn read(wave: &Wave, src: &Src) -> u32 {
        src.dword(wave, 0)
    }
    #[inline(always)]
    fn write(wave: &mut Wave, dst: u16, value: u32) {
        wave.sgprs[usize::from(dst)] = value;
    }
}

impl Operand for B64 {
    type Value = u64;
    const WIDTH: u16 = 2;
    const TYPE: Type = Type::B64;
    #[inline(always)]
    fn read(wave: &Wave, src: &Src) -> u64 {
        u64::from(src.dword(wave, 0)) | u64::from(src.dword(wave, 1)) << 32
    }
    #[inline(always)]
    fn write(wave: &mut Wave, dst: u16, value: u64) {
        wave.set_sgpr64(usize::from(dst), value);
    }
}

impl Operand for I64 {
    type Value = u64;
    const WIDTH: u16 = 2;
    const TYPE: Type = Type::I64;
    #[inline(always)]
    fn read(wave: &Wave, src: &Src) -> u64 {
        B64::read(wave, src)
    }
    #[inline(always)]
    fn write(wave: &mut Wave, dst: u16, value: u64) {
        B64::write(wave, dst, value);
    }
}

impl Operand for No {
    type Value = ();
    const WIDTH: u16 = 0;
    const TYPE: Type = Type::B32;
    #[inline(always)]
    fn read(_: &Wave, _: &Src) {}
    #[inline(always)]
    fn write(_: &mut Wave, _: u16, (): ()) {}
}

/// Defines the handlers and a `select` function for a table of operations.
///
/// `name Dst = Src...; |wave, a...| value` — `select(op)` returns the handler, the destination width and the source types.
macro_rules! scalar_ops {
    ($($name:ident $dst:ident = $($src:ident)*; |$wave:ident $(, $arg:ident)*| $body:expr)*) => {
        $(
            #[expect(non_camel_case_types, reason = "handlers are named after AMD's mnemonics")]
            struct $name;
            impl crate::Body for $name {
                #[inline(always)]
                fn run(wave: &mut crate::Wave, uop: &crate::Uop) -> crate::Flow {
                    #[allow(unused_mut, unused_variables, unused_assignments, reason = "not every operation has a source")]
                    {
                        let mut k = 0;
                        $(let $arg = <$src as crate::exec::format::scalar::Operand>::read(wave, &uop.src[k]); k += 1;)*
                        let $wave: &mut crate::Wave = &mut *wave;
                        let value = $body;
                        <$dst as crate::exec::format::scalar::Operand>::write(wave, uop.dst, value);
                    }
                    crate::Flow::Next
                }
            }
        )*

        /// Handler, destination width and source (width, type) list of an operation in this table.
        fn select(op: isa::Op) -> Option<(crate::Handler, u16, &'static [(u16, crate::compile::Type)])> {
            use crate::exec::format::scalar::Operand as _;
            Some(match op {
                $(isa::Op::$name => (
                    crate::handler::<$name>(crate::Level::Base),
                    $dst::WIDTH,
                    &[$(($src::WIDTH, $src::TYPE)),*],
                ),)*
                _ => return None,
            })
        }
    };
}
pub(crate) use scalar_ops;

/// Compiles an operation whose sources are `inst.src` and whose destination is `inst.dst`.
pub(crate) fn compile(
    compiler: &mut crate::compile::Compiler,
    inst: &isa::Inst,
    inst_index: u32,
    (run, dst_width, sources): (crate::Handler, u16, &'static [(u16, Type)]),
) -> Result<crate::Uop, crate::compile::Unsupported> {
    let mut uop = compiler.uop(run, inst_index);
    for (k, (width, ty)) in sources.iter().enumerate() {
        uop.src[k] = compiler.source(inst, &inst.src[k], *width, *ty)?;
    }
    if dst_width > 0 {
        uop.dst = compiler.scalar(inst, &inst.dst, dst_width)?;
    }
    uop.imm = i64::from(inst.imm);
    Ok(uop)
}
