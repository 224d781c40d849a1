//! Plans: a program compiled to a list of kernels over blocks of elements, and the block-sized registers they work in.
//!
//! Halves are f32 in registers, rounded after each instruction to the half type, so that a program gives the same result whether
//! its instructions run in one launch or in several.

use std::cell::RefCell;

use smallvec::SmallVec;
use tensor_core::dtype::{DType, Scalar};
use tensor_core::program::{Binary, Code, Program, Unary};

use crate::kernels::binary::binary;
use crate::kernels::cast::{cast, narrow, round, widen};
use crate::kernels::unary::unary;
use crate::kernels::{BLOCK, Kernel, copy, select};
use crate::level::Level;
use crate::memory::Line;
use crate::walk::{Walk, gather_bytes};

/// Returns the type of a value in a register.
pub fn lane(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    }
}

fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// An operand of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Register(usize),
    Source(usize),
    Output(usize),
}

#[derive(Clone, Copy, Debug)]
struct Action {
    kernel: Kernel,
    to: Place,
    from: [Place; 3],
}

/// A source of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The step's nth operand, with this many bytes per element.
    Operand(usize, usize),
    /// The index along an axis, as i64.
    Index(usize),
}

/// A compiled program.
#[derive(Debug)]
pub struct Plan {
    actions: Vec<Action>,
    registers: usize,
    /// Registers that hold a constant.
    constants: Vec<(usize, [u8; 16], usize)>,
    sources: Vec<Source>,
    /// The location of each result if the plan has no outputs, and its register type.
    results: Vec<(Place, DType)>,
    /// Estimated cost, in picoseconds per element.
    cost: usize,
}

/// The reason why a program cannot be compiled.
pub type Unsupported = String;

impl Plan {
    /// Compiles a program for operands of these types. With `outputs`, results are written in these types; without, they stay in
    /// registers.
    pub fn new(
        program: &Program,
        operands: &[DType],
        outputs: Option<&[DType]>,
        level: Level,
    ) -> Result<Plan, Unsupported> {
        let mut writer = Writer { program, operands, level, plan: Plan::empty(), places: Vec::new() };
        for number in 0..program.instructions.len() {
            writer.lower(number, outputs)?;
        }
        writer.finish(outputs)?;
        let mut plan = writer.plan;
        plan.reuse_registers();
        Ok(plan)
    }

    fn empty() -> Plan {
        Plan {
            actions: Vec::new(),
            registers: 0,
            constants: Vec::new(),
            sources: Vec::new(),
            results: Vec::new(),
            cost: 100,
        }
    }

    /// The register type of a result.
    pub fn result(&self, number: usize) -> DType {
        self.results[number].1
    }

    /// Estimated nanoseconds for this many elements.
    pub fn cost(&self, elements: usize) -> usize {
        elements.saturating_mul(self.cost) / 1000
    }

    /// Reuses registers whose values are dead, so that all registers stay in the first-level cache.
    fn reuse_registers(&mut self) {
        let mut last = vec![0; self.registers];
        for (when, action) in self.actions.iter().enumerate() {
            for place in action.from.iter().chain([&action.to]) {
                if let Place::Register(register) = *place {
                    last[register] = when;
                }
            }
        }
        let for_ever = self.constants.iter().map(|constant| constant.0);
        let results = self.results.iter().filter_map(|(place, _)| match *place {
            Place::Register(register) => Some(register),
            _ => None,
        });
        for register in for_ever.clone().chain(results) {
            last[register] = usize::MAX;
        }
        let mut names: Vec<Option<usize>> = vec![None; self.registers];
        let (mut count, mut free) = (0, Vec::new());
        let mut name = |register: usize, free: &mut Vec<usize>| {
            *names[register].get_or_insert_with(|| {
                free.pop().unwrap_or_else(|| {
                    count += 1;
                    count - 1
                })
            })
        };
        for constant in &mut self.constants {
            constant.0 = name(constant.0, &mut free);
        }
        for (when, action) in self.actions.iter_mut().enumerate() {
            let mut over = Vec::new();
            for place in action.from.iter_mut().chain([&mut action.to]) {
                if let Place::Register(register) = place {
                    let new = name(*register, &mut free);
                    if last[*register] == when && !over.contains(&new) {
                        over.push(new);
                    }
                    *register = new;
                }
            }
            free.extend(over);
        }
        for (place, _) in &mut self.results {
            if let Place::Register(register) = place {
                *register = name(*register, &mut free);
            }
        }
        self.registers = count;
    }
}

struct Writer<'a> {
    program: &'a Program,
    operands: &'a [DType],
    level: Level,
    plan: Plan,
    /// The location of each value so far.
    places: Vec<Place>,
}

impl Writer<'_> {
    fn dtype(&self, value: u16) -> Result<DType, Unsupported> {
        let number = usize::from(value);
        if number >= self.places.len() {
            return Err(format!("value {value} is used before it is defined"));
        }
        Ok(self.program.instructions[number].dtype)
    }

    fn register(&mut self) -> Place {
        self.plan.registers += 1;
        Place::Register(self.plan.registers - 1)
    }

    fn source(&mut self, source: Source) -> Place {
        let sources = &mut self.plan.sources;
        let number = sources.iter().position(|&one| one == source).unwrap_or_else(|| {
            sources.push(source);
            sources.len() - 1
        });
        Place::Source(number)
    }

    fn act(&mut self, kernel: Kernel, to: Place, from: &[Place], cost: usize) {
        let first = from[0];
        let at = |n: usize| from.get(n).copied().unwrap_or(first);
        self.plan.actions.push(Action { kernel, to, from: [at(0), at(1), at(2)] });
        self.plan.cost += cost;
    }

    /// Emits the kernel that computes a value, and the rounding of halves if needed.
    fn compute(&mut self, number: usize, kernel: Kernel, from: &[Place], round_it: bool, target: Target) {
        let dtype = self.program.instructions[number].dtype;
        let place = if is_half(dtype) && round_it {
            let raw = self.register();
            self.act(kernel, raw, from, target.cost);
            let rounded = self.register();
            self.act(round(dtype, self.level), rounded, &[raw], 50);
            rounded
        } else {
            let to = match target.output {
                Some(output) => Place::Output(output),
                None => self.register(),
            };
            self.act(kernel, to, from, target.cost);
            to
        };
        self.places.push(place);
    }

    fn lower(&mut self, number: usize, outputs: Option<&[DType]>) -> Result<(), Unsupported> {
        let instruction = self.program.instructions[number];
        let dtype = instruction.dtype;
        // A value that is an output is computed in the output buffer; other users read it from there.
        let output = outputs.and_then(|types| {
            let output = self.program.results.iter().position(|&value| usize::from(value) == number)?;
            (types.get(output) == Some(&dtype) && !is_half(dtype)).then_some(output)
        });
        let target = |cost| Target { output, cost };
        let level = self.level;
        match instruction.code {
            Code::Input(operand) => {
                let operand = usize::from(operand);
                let from = *self.operands.get(operand).ok_or("an operand is missing")?;
                let place = self.source(Source::Operand(operand, from.bytes()));
                let wide = if is_half(from) {
                    let wide = self.register();
                    self.act(widen(from, level), wide, &[place], 50);
                    wide
                } else {
                    place
                };
                self.convert(number, wide, from, target(50));
            }
            Code::Constant(value) => {
                let Place::Register(register) = self.register() else {
                    unreachable!("`register` always returns a register")
                };
                let (bytes, size) = constant(value, dtype);
                self.plan.constants.push((register, bytes, size));
                self.places.push(Place::Register(register));
            }
            Code::Index(axis) => {
                let place = self.source(Source::Index(usize::from(axis)));
                self.convert(number, place, DType::I64, target(50));
            }
            Code::Cast(value) => {
                let from = self.dtype(value)?;
                self.convert(number, self.places[usize::from(value)], from, target(50));
            }
            Code::Unary(what, value) => {
                let from = self.dtype(value)?;
                let kernel = unary(what, lane(from), lane(dtype), level)
                    .ok_or_else(|| format!("{what:?} from {from} to {dtype} is not defined"))?;
                let exact = matches!(what, Unary::Neg | Unary::Abs | Unary::Sign);
                self.compute(
                    number,
                    kernel,
                    &[self.places[usize::from(value)]],
                    !exact,
                    target(unary_cost(what, from)),
                );
            }
            Code::Binary(what, left, right) => {
                let (of, other) = (self.dtype(left)?, self.dtype(right)?);
                let answers = match what {
                    Binary::Complex => of.with_imaginary(),
                    _ if what.compares() => DType::Bool,
                    _ => of,
                };
                let kernel = binary(what, lane(of), level)
                    .filter(|_| of == other && answers == dtype)
                    .ok_or_else(|| format!("{what:?} of {of} and {other} to {dtype} is not defined"))?;
                let exact = matches!(what, Binary::Max | Binary::Min | Binary::Copysign);
                let (left, right) = (self.places[usize::from(left)], self.places[usize::from(right)]);
                self.compute(number, kernel, &[left, right], !exact, target(binary_cost(what, of)));
            }
            Code::Select(condition, yes, no) => {
                let types = (self.dtype(condition)?, self.dtype(yes)?, self.dtype(no)?);
                if types != (DType::Bool, dtype, dtype) {
                    return Err(format!(
                        "a select by {} between {} and {} is not defined",
                        types.0, types.1, types.2
                    ));
                }
                let from = [condition, yes, no].map(|value| self.places[usize::from(value)]);
                self.compute(number, select(lane(dtype).bytes(), level), &from, false, target(50));
            }
        }
        Ok(())
    }

    /// Converts an available value to this instruction's type.
    fn convert(&mut self, number: usize, from: Place, dtype: DType, target: Target) {
        let to = self.program.instructions[number].dtype;
        if dtype == to || (lane(dtype) == lane(to) && !is_half(to)) {
            // The same bits; a half is held as f32 anyway.
            self.places.push(from);
        } else if lane(dtype) == lane(to) {
            let rounded = self.register();
            self.act(round(to, self.level), rounded, &[from], target.cost);
            self.places.push(rounded);
        } else {
            self.compute(number, cast(lane(dtype), lane(to), self.level), &[from], true, target);
        }
    }

    fn finish(&mut self, outputs: Option<&[DType]>) -> Result<(), Unsupported> {
        let program = self.program;
        for (output, &value) in program.results.iter().enumerate() {
            let dtype = self.dtype(value)?;
            let place = self.places[usize::from(value)];
            self.plan.results.push((place, lane(dtype)));
            let Some(types) = outputs else { continue };
            let to = *types.get(output).ok_or("an output is missing")?;
            if place == Place::Output(output) {
                continue;
            }
            let mut from = place;
            if lane(dtype) != lane(to) {
                let kernel = cast(lane(dtype), lane(to), self.level);
                let there = if is_half(to) { self.register() } else { Place::Output(output) };
                self.act(kernel, there, &[from], 50);
                from = there;
            }
            if is_half(to) {
                self.act(narrow(to, self.level), Place::Output(output), &[from], 50);
            } else if from != Place::Output(output) {
                self.act(copy(to.bytes()), Place::Output(output), &[from], 50);
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
struct Target {
    output: Option<usize>,
    cost: usize,
}

fn unary_cost(what: Unary, of: DType) -> usize {
    use Unary::*;
    match what {
        Neg | Abs | Sign | Not | BitNot | Floor | Ceil | Trunc | Round | IsNan | IsInf | Real | Imag
        | Conj => 50,
        Sqrt | Rsqrt | Recip => 300,
        Exp | Log | Tanh | Sigmoid | Erf | Sin | Cos if lane(of) == DType::F32 => 500,
        _ => 10_000,
    }
}

fn binary_cost(what: Binary, of: DType) -> usize {
    use Binary::*;
    match what {
        Add | Sub | Mul | Max | Min | Eq | Ne | Lt | Le | Gt | Ge | And | Or | Xor | Copysign | Complex => 80,
        Div if of.is_float() => 300,
        _ => 5_000,
    }
}

/// Returns the register bytes of a constant, and their count.
fn constant(value: Scalar, dtype: DType) -> ([u8; 16], usize) {
    let (real, imaginary) = match value {
        Scalar::Bool(value) => (f64::from(u8::from(value)), 0.0),
        Scalar::Int(value) => (value as f64, 0.0),
        Scalar::UInt(value) => (value as f64, 0.0),
        Scalar::Float(value) => (value, 0.0),
        Scalar::Complex(real, imaginary) => (real, imaginary),
    };
    let whole = match value {
        Scalar::Bool(value) => i128::from(value),
        Scalar::Int(value) => i128::from(value),
        Scalar::UInt(value) => i128::from(value),
        Scalar::Float(_) | Scalar::Complex(..) => real as i128,
    };
    let mut bytes = [0; 16];
    match dtype {
        DType::Bool => bytes[0] = u8::from(real != 0.0 || real.is_nan() || imaginary != 0.0),
        DType::F32 => bytes[..4].copy_from_slice(&(real as f32).to_ne_bytes()),
        DType::F16 => {
            let rounded = half::f16::from_f64(real).to_f32();
            bytes[..4].copy_from_slice(&rounded.to_ne_bytes());
        }
        DType::BF16 => {
            let rounded = half::bf16::from_f64(real).to_f32();
            bytes[..4].copy_from_slice(&rounded.to_ne_bytes());
        }
        DType::F64 => bytes[..8].copy_from_slice(&real.to_ne_bytes()),
        DType::C64 => {
            bytes[..4].copy_from_slice(&(real as f32).to_ne_bytes());
            bytes[4..8].copy_from_slice(&(imaginary as f32).to_ne_bytes());
        }
        DType::C128 => {
            bytes[..8].copy_from_slice(&real.to_ne_bytes());
            bytes[8..].copy_from_slice(&imaginary.to_ne_bytes());
        }
        // Narrower integers are the low bytes, as in casts between integers.
        _ => bytes[..8].copy_from_slice(&(whole as u64).to_le_bytes()),
    }
    #[cfg(target_endian = "big")]
    compile_error!("constants are written in little-endian order");
    (bytes, lane(dtype).bytes())
}

/// The location of an operand.
#[derive(Clone, Debug)]
pub enum Feed {
    /// Strided elements in memory, from the first on.
    Memory(*const u8, Walk),
    /// Contiguous elements in memory.
    Row(*const u8),
    /// A block that the caller passes to each run.
    Given,
}

#[derive(Debug)]
enum Bound {
    /// Blocks are read in place, with this many bytes per element.
    Direct(*const u8, usize),
    Gathered(*const u8, Walk, usize),
    Counted(Walk),
    /// A constant: the block is filled once.
    Constant,
    Given,
}

/// Space for one block of the widest type, and one more cache line so that blocks do not all map to the same cache sets.
const LINES: usize = BLOCK * 16 / 64 + 1;

/// The registers of a plan, bound to operands; one for each task.
pub struct Frame<'a> {
    plan: &'a Plan,
    bound: SmallVec<[Bound; 3]>,
    /// Registers, then source blocks.
    blocks: Vec<Line>,
    /// The address of each source for the current block.
    at: SmallVec<[*const u8; 6]>,
}

thread_local! {
    /// Blocks of this thread's last frame: clearing new ones would cost more than many steps.
    static BLOCKS: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

impl Drop for Frame<'_> {
    fn drop(&mut self) {
        BLOCKS.set(std::mem::take(&mut self.blocks));
    }
}

impl<'a> Frame<'a> {
    /// `feeds` has one for each operand of the plan; `indices` returns the walk of the index along an axis.
    ///
    /// # Safety
    /// Every offset of a feed's walk, for every position that is run later, is readable and aligned for its type.
    pub unsafe fn new(plan: &'a Plan, feeds: &[Feed], indices: &dyn Fn(usize) -> Walk) -> Frame<'a> {
        let count = plan.registers + plan.sources.len();
        // Taken, not borrowed: this thread may start a task while it waits inside another one.
        let mut blocks = BLOCKS.take();
        if blocks.len() < count * LINES {
            blocks.resize(count * LINES, Line::default());
        }
        let mut frame = Frame {
            plan,
            bound: SmallVec::new(),
            blocks,
            at: SmallVec::from_elem(std::ptr::null(), plan.sources.len()),
        };
        for (register, bytes, size) in &plan.constants {
            let block = frame.block(*register);
            // SAFETY: a block has space for BLOCK elements of any size.
            unsafe { fill(block, &bytes[..*size]) };
        }
        for (number, source) in plan.sources.iter().enumerate() {
            let block = frame.block(plan.registers + number);
            let bound = match *source {
                Source::Index(axis) => Bound::Counted(indices(axis)),
                Source::Operand(operand, bytes) => match &feeds[operand] {
                    Feed::Given => Bound::Given,
                    Feed::Row(base) => Bound::Direct(*base, bytes),
                    Feed::Memory(base, walk) if walk.is_constant() => {
                        // SAFETY: the caller guarantees that the one element is readable; the block has space.
                        unsafe { fill(block, std::slice::from_raw_parts(*base, bytes)) };
                        Bound::Constant
                    }
                    Feed::Memory(base, walk) if walk.is_contiguous() => Bound::Direct(*base, bytes),
                    Feed::Memory(base, walk) => Bound::Gathered(*base, walk.clone(), bytes),
                },
            };
            frame.at[number] = block;
            frame.bound.push(bound);
        }
        frame
    }

    fn block(&mut self, number: usize) -> *mut u8 {
        self.blocks[number * LINES..].as_mut_ptr().cast()
    }

    /// Returns the address of the result at the first position, if the result is an unmodified contiguous operand: nothing is
    /// computed, and runs may be of any length.
    pub fn direct(&self) -> Option<*const u8> {
        let [(Place::Source(number), ..)] = self.plan.results[..] else { return None };
        match self.bound[number] {
            Bound::Direct(base, _) if self.plan.actions.is_empty() => Some(base),
            _ => None,
        }
    }

    /// Computes at most a block of positions from `start` on.
    ///
    /// # Safety
    /// The positions are among those promised to `new`; `outputs` has an address for each output of the plan, aligned, with space
    /// for `n` elements, not overlapping any operand; `given` holds `n` elements if an operand is [`Feed::Given`].
    pub unsafe fn run(&mut self, start: usize, n: usize, given: *const u8, outputs: &[*mut u8]) {
        debug_assert!(n <= BLOCK || self.direct().is_some());
        let registers = self.plan.registers;
        for number in 0..self.bound.len() {
            let block = self.block(registers + number);
            match &self.bound[number] {
                // SAFETY: the position is readable, as promised to `new`.
                Bound::Direct(base, bytes) => self.at[number] = unsafe { base.add(start * bytes) },
                Bound::Gathered(base, walk, bytes) => {
                    // SAFETY: as above, and the block has space for a block of any type.
                    unsafe { gather_bytes(*bytes, *base, walk, start, n, block) };
                }
                Bound::Counted(walk) => {
                    let mut to = block.cast::<i64>();
                    walk.runs(start, n, |offset, stride, length| {
                        for i in 0..length {
                            // SAFETY: the runs add up to `n` elements, which the block has space for.
                            unsafe { *to.add(i) = (offset + i as isize * stride) as i64 };
                        }
                        // SAFETY: as above.
                        to = unsafe { to.add(length) };
                    });
                }
                Bound::Constant => {}
                Bound::Given => self.at[number] = given,
            }
        }
        let base = self.blocks.as_mut_ptr();
        let read = |place: Place| match place {
            // SAFETY: register numbers are below their count.
            Place::Register(register) => unsafe { base.add(register * LINES).cast_const().cast::<u8>() },
            Place::Source(number) => self.at[number],
            Place::Output(number) => outputs[number].cast_const(),
        };
        for action in &self.plan.actions {
            let to = match action.to {
                Place::Output(number) => outputs[number],
                place => read(place).cast_mut(),
            };
            let [a, b, c] = action.from.map(read);
            // SAFETY: every location holds `n` elements of the type that the plan chose the kernel for. A register is reused only
            // after its last read, so a kernel's output does not overlap its inputs.
            unsafe { (action.kernel)(to, a, b, c, n) };
        }
    }

    /// Returns the address of a result of the last run, if the plan has no outputs.
    pub fn result(&mut self, number: usize) -> *const u8 {
        match self.plan.results[number].0 {
            Place::Register(register) => self.block(register).cast_const(),
            Place::Source(number) => self.at[number],
            Place::Output(_) => unreachable!("the plan has no outputs"),
        }
    }
}

/// # Safety
/// There is space for BLOCK elements of the value's size, which is that of an element.
unsafe fn fill(block: *mut u8, value: &[u8]) {
    macro_rules! spread {
        ($T:ty) => {{
            // SAFETY: the length was matched, and any bytes are a value of this type.
            let value = unsafe { value.as_ptr().cast::<$T>().read_unaligned() };
            // SAFETY: guaranteed by the caller; blocks are aligned for every type.
            unsafe { std::slice::from_raw_parts_mut(block.cast::<$T>(), BLOCK) }.fill(value);
        }};
    }
    match value.len() {
        1 => spread!(u8),
        2 => spread!(u16),
        4 => spread!(u32),
        8 => spread!(u64),
        _ => spread!([u64; 2]),
    }
}
