//! State of a translation: registers, the text so far, and the order of the blocks.

use std::fmt::Write;

use lift::form::*;
use rustc_hash::FxHashMap;

use crate::emit;
use crate::halves::Halves;
use crate::lane_map::LaneMap;
use crate::launch;
use crate::liveness::Liveness;
use crate::polling::Polling;
use crate::range::Ranges;
use crate::{Mode, Options, Target, Translation};

/// Classes of PTX registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Predicate,
    Half,
    Word,
    Double,
}

impl Class {
    const ALL: [Class; 4] = [Class::Predicate, Class::Half, Class::Word, Class::Double];

    fn name(self) -> (&'static str, &'static str) {
        match self {
            Class::Predicate => ("p", "pred"),
            Class::Half => ("h", "b16"),
            Class::Word => ("r", "b32"),
            Class::Double => ("d", "b64"),
        }
    }

    pub(crate) fn of(kind: Kind) -> Class {
        match kind {
            Kind::Bit => Class::Predicate,
            Kind::Word => Class::Word,
            Kind::Double => Class::Double,
        }
    }
}

/// When an instruction of a lane runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// In every thread.
    Always,
    /// In none.
    Never,
    /// Where the predicate holds.
    When(String),
}

impl Guard {
    /// What to write before the instruction.
    pub(crate) fn prefix(&self) -> String {
        match self {
            Guard::When(predicate) => format!("@{predicate} "),
            Guard::Always | Guard::Never => String::new(),
        }
    }
}

/// Why an instruction cannot be translated.
pub(crate) type Reason = String;

/// A translation in progress.
pub(crate) struct Generator<'a> {
    pub(crate) function: &'a Function,
    pub(crate) target: Target,
    pub(crate) options: &'a Options,
    pub(crate) mode: Mode,
    pub(crate) map: LaneMap,
    pub(crate) live: Liveness,
    halves: Halves,
    pub(crate) ranges: Ranges,
    pub(crate) polling: Polling,
    /// The kernel argument block or the dispatch packet is used by its generic address.
    pub(crate) parameters_escape: bool,
    /// LDS or scratch is used by a flat address.
    pub(crate) apertures: bool,
    /// Threads of a warp may be at different places.
    pub(crate) parted: bool,
    max_threads: u32,
    registers: Vec<Option<[u32; 2]>>,
    counts: [u32; 4],
    labels: u32,
    /// Text of the prologue, of the blocks, and of slow paths behind them.
    prologue: String,
    body: String,
    slow: String,
    section: Section,
    /// Registers of the prologue, by what they hold.
    pub(crate) shared: FxHashMap<String, String>,
    /// Words that were copied to consecutive registers in this block, and the copies.
    pub(crate) groups: FxHashMap<String, String>,
    cooperative: bool,
}

/// Where text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Prologue,
    Body,
    Slow,
}

impl<'a> Generator<'a> {
    pub(crate) fn new(
        function: &'a Function,
        target: Target,
        options: &'a Options,
        mode: Mode,
        max_threads: u32,
    ) -> Generator<'a> {
        let live = Liveness::of(function);
        let matrix = live.operations(function).any(|operation| {
            matches!(operation, Operation::Matrix(matrix) if emit::matrix::wants_permuted_lanes(matrix, options))
        });
        let apertures = live
            .operations(function)
            .any(|operation| matches!(operation, Operation::Input(Input::SharedBase | Input::PrivateBase)));
        let parameters_escape = emit::memory::parameters_escape(function, &live);
        let map = if matrix { LaneMap::MATRIX } else { LaneMap::PLAIN };
        Generator {
            function,
            target,
            options,
            mode,
            map,
            halves: match mode {
                Mode::Pair => Halves::of(function, options, map),
                Mode::Lane => Halves::unknown(function),
            },
            ranges: Ranges::new(function, options.block),
            polling: Polling::of(function, &live),
            live,
            parameters_escape,
            apertures,
            parted: false,
            max_threads,
            registers: vec![None; function.values.len()],
            counts: [0; 4],
            labels: 0,
            prologue: String::new(),
            body: String::new(),
            slow: String::new(),
            section: Section::Body,
            shared: FxHashMap::default(),
            groups: FxHashMap::default(),
            cooperative: false,
        }
    }

    /// Sets whether threads of a warp may be at different places.
    pub(crate) fn parted(mut self, parted: bool) -> Generator<'a> {
        self.parted = parted;
        self
    }

    /// Translates the function.
    pub(crate) fn generate(mut self) -> Result<Translation, Refusal> {
        self.allocate();
        emit::prologue::emit(&mut self)?;
        emit::control::emit(&mut self)?;
        Ok(self.finish())
    }

    /// Gives every live value its registers. Constants have none; inputs get theirs in the prologue.
    fn allocate(&mut self) {
        for block in &self.function.blocks {
            for index in &block.instructions {
                let instruction = &self.function.instructions[*index as usize];
                if !self.live.is_live(*index) || matches!(instruction.operation, Operation::Constant(_)) {
                    continue;
                }
                for value in &instruction.results {
                    let data = self.function.values[value.0 as usize];
                    let class = Class::of(data.kind);
                    let first = self.number(class);
                    let second = if self.halves_of(*value) == 2 { self.number(class) } else { first };
                    self.registers[value.0 as usize] = Some([first, second]);
                }
            }
        }
    }

    fn number(&mut self, class: Class) -> u32 {
        let count = &mut self.counts[class as usize];
        *count += 1;
        *count - 1
    }

    /// How many copies of a value of a shape a thread holds.
    pub(crate) fn halves(&self, shape: Shape) -> usize {
        if shape == Shape::Lane && self.mode == Mode::Pair { 2 } else { 1 }
    }

    /// How many copies of a value a thread holds: one also of a lane value that is equal in both lanes.
    pub(crate) fn halves_of(&self, value: Value) -> usize {
        if self.halves.are_equal(value) { 1 } else { self.halves(self.function.shape(value)) }
    }

    /// A fresh register.
    pub(crate) fn fresh(&mut self, class: Class) -> String {
        let number = self.number(class);
        format!("%{}{number}", class.name().0)
    }

    /// A fresh word register.
    pub(crate) fn word(&mut self) -> String {
        self.fresh(Class::Word)
    }

    /// A fresh double register.
    pub(crate) fn double(&mut self) -> String {
        self.fresh(Class::Double)
    }

    /// A fresh predicate.
    pub(crate) fn predicate(&mut self) -> String {
        self.fresh(Class::Predicate)
    }

    /// A fresh 16-bit register.
    pub(crate) fn half(&mut self) -> String {
        self.fresh(Class::Half)
    }

    /// A fresh label.
    pub(crate) fn label(&mut self, name: &str) -> String {
        self.labels += 1;
        format!("{name}{}", self.labels)
    }

    /// The register of a result.
    pub(crate) fn result(&self, value: Value, half: usize) -> String {
        let class = Class::of(self.function.kind(value));
        let number = self.registers[value.0 as usize].map_or(0, |numbers| numbers[half]);
        format!("%{}{number}", class.name().0)
    }

    /// An operand: a register or an immediate.
    pub(crate) fn operand(&self, value: Value, half: usize) -> String {
        match (self.function.constant(value), self.function.kind(value)) {
            (None, _) => self.result(value, half.min(self.halves_of(value) - 1)),
            (Some(bits), Kind::Bit) => if bits & 1 == 1 { "%true" } else { "%false" }.to_owned(),
            (Some(bits), Kind::Word) => format!("{}", bits as u32 as i32),
            (Some(bits), Kind::Double) => format!("{bits:#x}"),
        }
    }

    /// An operand in a register, also if it is a constant.
    pub(crate) fn in_register(&mut self, value: Value, half: usize) -> String {
        let operand = self.operand(value, half);
        if operand.starts_with('%') {
            return operand;
        }
        let class = Class::of(self.function.kind(value));
        let register = self.fresh(class);
        let size = class.name().1;
        self.line(format!("mov.{size} {register}, {operand}"));
        register
    }

    /// When a lane of a mask takes part.
    pub(crate) fn guard(&self, mask: Value, half: usize) -> Guard {
        match self.function.constant(mask) {
            Some(bits) if bits & 1 == 1 => Guard::Always,
            Some(_) => Guard::Never,
            None => Guard::When(self.operand(mask, half)),
        }
    }

    /// Appends an instruction.
    pub(crate) fn line(&mut self, text: impl AsRef<str>) {
        let to = self.text();
        to.push_str("    ");
        to.push_str(text.as_ref());
        to.push_str(";\n");
    }

    /// Appends a label.
    pub(crate) fn place(&mut self, label: &str) {
        let to = self.text();
        to.push_str(label);
        to.push_str(":\n");
    }

    /// Text goes to a section from here on. Returns the one before.
    pub(crate) fn enter(&mut self, section: Section) -> Section {
        std::mem::replace(&mut self.section, section)
    }

    fn text(&mut self) -> &mut String {
        match self.section {
            Section::Prologue => &mut self.prologue,
            Section::Body => &mut self.body,
            Section::Slow => &mut self.slow,
        }
    }

    /// A register that the prologue computes once: `make` writes the code and returns the register.
    pub(crate) fn once(&mut self, name: &str, make: impl FnOnce(&mut Generator<'a>) -> String) -> String {
        if let Some(register) = self.shared.get(name) {
            return register.clone();
        }
        let before = self.enter(Section::Prologue);
        let register = make(self);
        self.enter(before);
        self.shared.insert(name.to_owned(), register.clone());
        register
    }

    /// The suffix of branches that a whole warp takes.
    pub(crate) fn uniform(&self) -> &'static str {
        if self.mode == Mode::Pair { ".uni" } else { "" }
    }

    /// The launch must be cooperative.
    pub(crate) fn needs_cooperation(&mut self) {
        self.cooperative = true;
    }

    /// The refusal of an instruction.
    pub(crate) fn refusal(&self, instruction: &Instruction, reason: Reason) -> Refusal {
        Refusal {
            kernel: self.function.name.clone(),
            address: instruction.address,
            instruction: self.function.line(instruction),
            reason,
        }
    }

    /// Bytes of the first parameter: at least 16, for an entry needs no special case then.
    pub(crate) fn kernarg_bytes(&self) -> u32 {
        self.function.kernarg_bytes.max(1).next_multiple_of(16)
    }

    /// Bytes of scratch of one lane.
    pub(crate) fn lane_scratch(&self) -> u32 {
        self.function.private_bytes.next_multiple_of(16)
    }

    fn finish(self) -> Translation {
        let entry = entry_name(&self.function.name);
        let (major, minor) = self.target.ptx;
        let mut text = String::new();
        let sm = self.target.sm;
        let _ = writeln!(text, ".version {major}.{minor}\n.target sm_{sm}\n.address_size 64");
        let _ = writeln!(text, ".extern .shared .align 16 .b8 lds[];");
        let _ = writeln!(
            text,
            ".visible .entry {entry}(.param .align 16 .b8 kernarg[{}], .param .align 16 .b8 launch[{}])",
            self.kernarg_bytes(),
            launch::LAUNCH_BYTES
        );
        // Without a least number of blocks ptxas may keep registers free for more blocks, and spill.
        let _ = writeln!(text, ".maxntid {}\n.minnctapersm 1\n{{", self.max_threads);
        for class in Class::ALL {
            let (name, size) = class.name();
            let count = self.counts[class as usize];
            if count > 0 {
                let _ = writeln!(text, "    .reg .{size} %{name}<{count}>;");
            }
        }
        let halves = self.halves(Shape::Lane) as u32;
        let local_bytes = self.lane_scratch() * halves;
        if local_bytes > 0 {
            let _ = writeln!(text, "    .local .align 16 .b8 scratch[{local_bytes}];");
        }
        text.push_str("    .reg .pred %true, %false;\n");
        text.push_str("    setp.eq.u32 %true, 0, 0;\n    setp.ne.u32 %false, 0, 0;\n");
        text.push_str(&self.prologue);
        text.push_str(&self.body);
        text.push_str(&self.slow);
        text.push_str("}\n");
        Translation {
            text,
            entry,
            mode: self.mode,
            threads_per_wave: 64 / halves,
            lds_bytes: self.function.lds_bytes,
            kernarg_bytes: self.kernarg_bytes(),
            local_bytes,
            max_threads: self.max_threads,
            cooperative: self.cooperative,
        }
    }
}

/// The kernel's name as a PTX identifier. C++ names of kernels are already; others get their odd characters replaced.
fn entry_name(name: &str) -> String {
    let odd = |c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '$');
    let clean: String = name.chars().map(|c| if odd(c) { '_' } else { c }).collect();
    if clean.starts_with(|c: char| c.is_ascii_alphabetic()) || clean.len() > 1 && clean.starts_with('_') {
        clean
    } else {
        format!("_k{clean}")
    }
}
