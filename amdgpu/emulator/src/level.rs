//! CPU levels: every vector handler is compiled once per level, and the level is chosen once at startup.
//!
//! A handler body is an `#[inline(always)]` function of a zero-sized type. The three wrappers below are the only functions with
//! `target_feature`, so each instantiation is compiled and vectorised for its level.

use crate::{Flow, Handler, Uop, Wave};

/// Body of a handler. `run` must be `#[inline(always)]`; otherwise the wrapper's target features do not apply to it.
pub(crate) trait Body {
    /// Executes one micro-op of one wave.
    fn run(wave: &mut Wave, uop: &Uop) -> Flow;
}

/// Body of a handler that has nothing to do unless a lane is active, as of every vector memory instruction.
pub(crate) trait ActiveBody {
    /// Like [`Body::run`]; `exec` is the wave's EXEC and not zero.
    fn run_active(wave: &mut Wave, uop: &Uop, exec: u64) -> Flow;
}

impl<B: ActiveBody> Body for B {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        match wave.exec() {
            0 => Flow::Next,
            exec => B::run_active(wave, uop, exec),
        }
    }
}

/// The CPU levels handlers are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The build's baseline target (x86-64-v1 or aarch64). On x86, `mul_add` is a library call at this level: correct, but slow.
    Base,
    /// AVX2, FMA, F16C, BMI1, BMI2, LZCNT, POPCNT.
    V3,
    /// AVX-512 F, BW, DQ, VL, CD.
    V4,
}

impl Level {
    /// Returns the best level that this machine supports.
    pub fn detect() -> Level {
        #[cfg(target_arch = "x86_64")]
        {
            let v3 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("lzcnt")
                && is_x86_feature_detected!("popcnt");
            let v4 = v3
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512cd");
            if v4 {
                return Level::V4;
            }
            if v3 {
                return Level::V3;
            }
        }
        Level::Base
    }

    /// Whether this machine supports the level. If not, reports on stderr, once, that the running test skips it.
    #[cfg(test)]
    pub(crate) fn available(self) -> bool {
        use std::collections::HashSet;
        use std::io::Write;
        static REPORTED: parking_lot::Mutex<Option<HashSet<String>>> = parking_lot::Mutex::new(None);
        if self <= Level::detect() {
            return true;
        }
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        let line = format!("skipped: {test}: this CPU lacks level {self:?}");
        if REPORTED.lock().get_or_insert_default().insert(line.clone()) {
            // Written directly: the test harness hides what passing tests print.
            let _ = writeln!(std::io::stderr().lock(), "{line}");
        }
        false
    }
}

/// Returns the function that runs `B` at `level`.
///
/// The result may only be called on a machine where `level <= Level::detect()`.
pub(crate) fn handler<B: Body>(level: Level) -> Handler {
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::V4 => run_v4::<B>,
        #[cfg(target_arch = "x86_64")]
        Level::V3 => run_v3::<B>,
        _ => run_base::<B>,
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn run_v4<B: Body>(wave: &mut Wave, uop: &Uop) -> Flow {
    B::run(wave, uop)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn run_v3<B: Body>(wave: &mut Wave, uop: &Uop) -> Flow {
    B::run(wave, uop)
}

unsafe fn run_base<B: Body>(wave: &mut Wave, uop: &Uop) -> Flow {
    B::run(wave, uop)
}
