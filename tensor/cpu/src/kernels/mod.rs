//! Kernels: one instruction over one block, as tight loops compiled for each vector instruction level.

pub mod binary;
pub mod cast;
pub mod unary;

use crate::level::Level;

/// The most elements of a block.
pub const BLOCK: usize = 1024;

/// Computes `n` elements of `to` from those at `a`, `b` and `c`, of which as many are read as the instruction has operands.
///
/// # Safety
/// All used pointers are aligned for their types and hold `n` elements; `to` does not overlap the others.
pub type Kernel = unsafe fn(to: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize);

/// A function of up to three elements.
pub trait Function {
    type A: Copy;
    type B: Copy;
    type C: Copy;
    type To: Copy;
    const OPERANDS: usize;
    fn at(a: Self::A, b: Self::B, c: Self::C) -> Self::To;
}

/// The loop, inlined into functions that enable the instructions of a level.
///
/// # Safety
/// Like [`Kernel`].
#[inline(always)]
unsafe fn apply<F: Function>(to: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
    let (to, a, b, c) = (to.cast::<F::To>(), a.cast::<F::A>(), b.cast::<F::B>(), c.cast::<F::C>());
    for i in 0..n {
        // SAFETY: the caller guarantees `n` elements at each operand. Operands that the function does not have are read from the
        // first one, which then has elements of the same type (see `function!`).
        unsafe {
            let first = *a.add(i);
            let second = if F::OPERANDS > 1 { *b.add(i) } else { *a.cast::<F::B>().add(i) };
            let third = if F::OPERANDS > 2 { *c.add(i) } else { *a.cast::<F::C>().add(i) };
            *to.add(i) = F::at(first, second, third);
        }
    }
}

unsafe fn plain<F: Function>(to: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { apply::<F>(to, a, b, c, n) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2<F: Function>(to: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { apply::<F>(to, a, b, c, n) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn avx512<F: Function>(to: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { apply::<F>(to, a, b, c, n) }
}

/// For functions computed by library calls, which do not vectorise, and for rare types: one level only, to save compile time.
pub fn called<F: Function>(_: Level) -> Kernel {
    plain::<F>
}

/// For common integer types: AVX-512 gains too little for its code size.
#[cfg_attr(
    not(target_arch = "x86_64"),
    expect(unused_variables, reason = "other processors have only one level")
)]
pub fn medium<F: Function>(level: Level) -> Kernel {
    #[cfg(target_arch = "x86_64")]
    if level >= Level::Avx2 {
        return avx2::<F>;
    }
    plain::<F>
}

/// For floats: all levels.
pub fn wide<F: Function>(level: Level) -> Kernel {
    #[cfg(target_arch = "x86_64")]
    if level >= Level::Avx512 {
        return avx512::<F>;
    }
    medium::<F>(level)
}

/// Makes a kernel from a closure-like expression: `function!(wide, level, |a: f32, b: f32| -> f32 { a + b })`.
macro_rules! function {
    ($loops:ident, $level:expr, |$a:ident: $A:ty| -> $To:ty { $body:expr }) => {{
        struct F;
        impl $crate::kernels::Function for F {
            type A = $A;
            type B = $A;
            type C = $A;
            type To = $To;
            const OPERANDS: usize = 1;
            #[inline(always)]
            fn at($a: $A, _: $A, _: $A) -> $To {
                $body
            }
        }
        $crate::kernels::$loops::<F>($level)
    }};
    ($loops:ident, $level:expr, |$a:ident: $A:ty, $b:ident: $B:ty| -> $To:ty { $body:expr }) => {{
        struct F;
        impl $crate::kernels::Function for F {
            type A = $A;
            type B = $B;
            type C = $A;
            type To = $To;
            const OPERANDS: usize = 2;
            #[inline(always)]
            fn at($a: $A, $b: $B, _: $A) -> $To {
                $body
            }
        }
        $crate::kernels::$loops::<F>($level)
    }};
    ($loops:ident, $level:expr, |$a:ident: $A:ty, $b:ident: $B:ty, $c:ident: $C:ty| -> $To:ty { $body:expr }) => {{
        struct F;
        impl $crate::kernels::Function for F {
            type A = $A;
            type B = $B;
            type C = $C;
            type To = $To;
            const OPERANDS: usize = 3;
            #[inline(always)]
            fn at($a: $A, $b: $B, $c: $C) -> $To {
                $body
            }
        }
        $crate::kernels::$loops::<F>($level)
    }};
}
pub(crate) use function;

/// Selects the second operand where the first (a byte, zero or one) is true, else the third, for elements of `bytes` bytes.
pub fn select(bytes: usize, level: Level) -> Kernel {
    match bytes {
        1 => function!(medium, level, |a: u8, b: u8, c: u8| -> u8 { if a != 0 { b } else { c } }),
        2 => function!(medium, level, |a: u8, b: u16, c: u16| -> u16 { if a != 0 { b } else { c } }),
        4 => function!(wide, level, |a: u8, b: u32, c: u32| -> u32 { if a != 0 { b } else { c } }),
        8 => function!(wide, level, |a: u8, b: u64, c: u64| -> u64 { if a != 0 { b } else { c } }),
        _ => function!(called, level, |a: u8, b: [u64; 2], c: [u64; 2]| -> [u64; 2] {
            if a != 0 { b } else { c }
        }),
    }
}

/// Copies elements of `bytes` bytes.
pub fn copy(bytes: usize) -> Kernel {
    /// # Safety
    /// Like [`Kernel`].
    unsafe fn copies<const BYTES: usize>(to: *mut u8, a: *const u8, _: *const u8, _: *const u8, n: usize) {
        // SAFETY: guaranteed by the caller.
        unsafe { std::ptr::copy_nonoverlapping(a, to, n * BYTES) }
    }
    match bytes {
        1 => copies::<1>,
        2 => copies::<2>,
        4 => copies::<4>,
        8 => copies::<8>,
        _ => copies::<16>,
    }
}
