//! Run entry: the handler at the head of each run, and compilation of hot runs.

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use isa::Inst;
use parking_lot::Mutex;

use super::assembler::Line;
use super::block;
use super::executable::Executable;
use super::lower::{self, Entry};
use super::run::Run;
use super::target::Target;
use crate::exec::format::sopp;
use crate::program::Program;
use crate::{Body, Flow, Level, Mode, Uop, Wave, handler};

/// The runs of a program and their native code.
#[derive(Debug, Default)]
pub struct Native {
    blocks: Box<[Block]>,
}

/// Number of entries of a run that is compiled or cannot be.
const DECIDED: u32 = u32::MAX;

/// A run and its native code, once compiled.
#[derive(Debug)]
struct Block {
    target: Target,
    run: Run,
    /// The original first micro-op.
    head: Uop,
    before: Box<[Uop]>,
    after: Box<[Uop]>,
    /// Number of entries before compilation, then [`DECIDED`]: from then on nothing writes the block, which all threads read.
    entries: AtomicU32,
    /// Pointer to the code in `compiled`, or null.
    code: AtomicPtr<u8>,
    compiled: Mutex<Compiled>,
}

#[derive(Debug, Default)]
enum Compiled {
    #[default]
    NotYet,
    /// The code and its constant pool.
    Code(
        #[expect(dead_code, reason = "kept alive for `Block::code`")] Executable,
        #[expect(dead_code, reason = "kept alive for `Block::code`")] Box<[Line]>,
    ),
    /// The run cannot be compiled, or the limit on executable memory is reached.
    Refused,
}

impl Native {
    /// Number of runs with native code.
    #[cfg(test)]
    pub fn compiled(&self) -> usize {
        self.blocks.iter().filter(|block| !block.code.load(Ordering::Acquire).is_null()).count()
    }

    /// Micro-op range (start, exclusive end) of each run.
    #[cfg(test)]
    pub fn runs(&self) -> Vec<(usize, usize)> {
        self.blocks.iter().map(|block| (block.run.start, block.run.end)).collect()
    }

    /// Finds the runs of a program and replaces the handler of each run's first micro-op.
    pub fn install(level: Level, uops: &mut [Uop], insts: &[Inst], plain: &[bool]) -> Native {
        let Some(target) = Target::of(level) else {
            return Native::default();
        };
        let mut targets = vec![false; uops.len()];
        for uop in uops.iter().filter(|uop| sopp::is_branch(insts[uop.inst as usize].op)) {
            if let Some(target) = usize::try_from(uop.imm).ok().and_then(|target| targets.get_mut(target)) {
                *target = true;
            }
        }
        let runs = block::discover(target, uops, insts, plain, &targets);
        let blocks: Box<[Block]> = runs.into_iter().map(|run| Block::new(target, run, uops)).collect();
        for (index, block) in blocks.iter().enumerate() {
            let head = &mut uops[block.run.start];
            *head = Uop { run: handler::<Enter>(Level::Base), imm: index as i64, ..*head };
        }
        Native { blocks }
    }
}

impl Block {
    fn new(target: Target, run: Run, uops: &[Uop]) -> Block {
        let copies = |places: &[usize]| places.iter().map(|at| uops[*at]).collect();
        Block {
            target,
            head: uops[run.start],
            before: copies(&run.before),
            after: copies(&run.after),
            run,
            entries: AtomicU32::new(0),
            code: AtomicPtr::default(),
            compiled: Mutex::default(),
        }
    }

    /// Counts an entry and compiles the run when the threshold is exceeded.
    #[cold]
    #[inline(never)]
    fn warm(&self, wave: &Wave) {
        let before = self.entries.load(Ordering::Relaxed);
        if wave.native == u32::MAX || before == DECIDED {
            return;
        }
        // A lost update between two threads only delays compilation slightly.
        let entries = before + 1;
        self.entries.store(entries, Ordering::Relaxed);
        if entries <= wave.native {
            return;
        }
        // If another thread is compiling the run, do not wait for it.
        let Some(mut compiled) = self.compiled.try_lock() else { return };
        if !matches!(*compiled, Compiled::NotYet) {
            // Another thread has overwritten the mark with its count.
            return self.entries.store(DECIDED, Ordering::Relaxed);
        }
        // SAFETY: a wave that enters a run executes the program that owns it.
        let program = unsafe { Program::of(wave) };
        let mut uops = program.uops[self.run.start..self.run.end].to_vec();
        uops[0] = self.head;
        let made = lower::compile(self.target, &self.run, &uops, &program.insts, &program.constants);
        let made = made.ok().and_then(|(bytes, pool)| Some((Executable::new(&bytes)?, pool)));
        *compiled = match made {
            Some((code, pool)) => {
                self.code.store(code.start().cast_mut(), Ordering::Release);
                Compiled::Code(code, pool)
            }
            None => Compiled::Refused,
        };
        self.entries.store(DECIDED, Ordering::Relaxed);
    }
}

/// Returns true if MODE matches the arithmetic of native code.
#[inline(always)]
fn is_usual(mode: &Mode) -> bool {
    mode.round_f32 | mode.round_f64 == 0
        && mode.denorm_f32 & mode.denorm_f64 == 3
        && mode.ieee
        && mode.dx10_clamp
}

/// Handler of the first micro-op of a run.
struct Enter;
impl Body for Enter {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        // SAFETY: a wave with this micro-op executes the program that owns the block; blocks never move.
        let block = unsafe {
            let program = Program::of(wave);
            program.native.blocks.get_unchecked(uop.imm as usize)
        };
        let mut code = block.code.load(Ordering::Acquire);
        if code.is_null() {
            block.warm(wave);
            code = block.code.load(Ordering::Acquire);
        }
        let run = &block.run;
        let fits = wave.native != u32::MAX
            && (!run.float || is_usual(&wave.mode))
            // 16 bytes is the largest element of an LDS read.
            && (!run.reads_local || wave.lds_size >= 16);
        if code.is_null() || !fits {
            // SAFETY: the micro-op was compiled for this program.
            return unsafe { (block.head.run)(wave, &block.head) };
        }
        // SAFETY: the code was compiled for this program, whose registers the wave has, and for a level this CPU has. The scalar
        // operations of the run were compiled for the same program.
        unsafe {
            for uop in &block.before {
                (uop.run)(wave, uop);
            }
            let entry = std::mem::transmute::<*mut u8, Entry>(code);
            entry(
                wave.vgprs.as_mut_ptr(),
                wave.sgprs.as_mut_ptr(),
                wave.exec(),
                wave.lds,
                u64::from(wave.lds_size),
            );
            for uop in &block.after {
                (uop.run)(wave, uop);
            }
        }
        wave.pc = run.end;
        Flow::Skip
    }
}
