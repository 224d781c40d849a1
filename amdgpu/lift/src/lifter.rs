//! From machine code to a function of the form.

use isa::{Arch, Inst, Mode};

use crate::form::{Block, Compare, MemoryScope, Operation, Register, Terminator, UNEXPECTED_JUMP, Value};
use crate::graph::{self, Exit, Failure, Graph};
use crate::register::{Registers, Start};
use crate::translator::Translator;
use crate::{Assumptions, Code, Function, Refusal, entry, scalar};

/// Lifts a kernel. `code` is the loaded text that contains it and the functions that it calls.
pub fn lift(
    arch: Arch,
    code: &Code<'_>,
    kernel: &code_object::Kernel,
    assumptions: &Assumptions,
) -> Result<Function, Refusal> {
    let descriptor = &kernel.descriptor;
    // Before preloaded arguments there are 256 bytes of code for devices without them.
    let preloads = descriptor.kernarg_preload_length > 0;
    let start = kernel.entry_address + if preloads { 256 } else { 0 };
    let name = kernel.name.as_str();
    let refuse =
        |reason| Refusal { kernel: name.to_owned(), address: start, instruction: String::new(), reason };
    let known = entry::constants(arch, kernel, assumptions).map_err(refuse)?;
    let from = graph::Start { entry: start, base: assumptions.base, fragment: false, known };
    let graph = graph::explore(arch, code, &from).map_err(|failure| refusal(arch, name, *failure))?;
    let mut lifter = Lifter::new(arch, name, &graph, assumptions.base, Start::Zero);
    lifter.t.function.lds_bytes = kernel.group_size;
    lifter.t.function.private_bytes = entry::private_bytes(kernel, assumptions);
    lifter.t.function.dynamic_stack = kernel.uses_dynamic_stack;
    lifter.t.function.kernarg_bytes = kernel.kernarg_size;
    let (mut b, registers) = lifter.t.parts();
    entry::define(&mut b, registers, arch, kernel, assumptions).map_err(refuse)?;
    lifter.run(&graph, Mode::from_rsrc1(descriptor.rsrc1), false)
}

/// Lifts a fragment of code that is not a kernel, for tests: registers start as [`crate::form::Input::Register`], and those that
/// the fragment writes end in [`crate::Operation::Observe`], before every end. The fragment starts at the first byte; reaching
/// the end of the bytes ends it, like `s_endpgm`.
pub fn lift_fragment(arch: Arch, code: &Code<'_>, mode: Mode, base: u64) -> Result<Function, Refusal> {
    let name = "fragment";
    let from = graph::Start { entry: code.address, base, fragment: true, known: Default::default() };
    let graph = graph::explore(arch, code, &from).map_err(|failure| refusal(arch, name, *failure))?;
    Lifter::new(arch, name, &graph, base, Start::Unknown).run(&graph, mode, true)
}

fn refusal(arch: Arch, kernel: &str, failure: Failure) -> Refusal {
    let text = |inst: &Inst| isa::disassemble(arch, inst, failure.address);
    Refusal {
        kernel: kernel.to_owned(),
        address: failure.address,
        instruction: failure.inst.as_ref().map(text).unwrap_or_default(),
        reason: failure.reason,
    }
}

struct Lifter {
    t: Translator,
    /// MODE at the start of each block, as far as a predecessor is built.
    modes: Vec<Option<Mode>>,
}

impl Lifter {
    /// Creates the blocks. Block 0 of the form is empty but for the entry state, so that the entry has no predecessors.
    fn new(arch: Arch, name: &str, graph: &Graph, base: u64, start: Start) -> Lifter {
        let mut function = Function { name: name.to_owned(), ..Function::default() };
        let address = graph.blocks.first().map_or(0, |block| block.address);
        function.add_block(address);
        for block in &graph.blocks {
            function.add_block(block.address);
        }
        let mut registers = Registers::new(function.blocks.len(), start);
        registers.seal(&mut function, Block(0));
        let t = Translator {
            arch,
            function,
            registers,
            mode: Mode::default(),
            block: Block(0),
            address,
            base,
            known: Default::default(),
            written: Default::default(),
        };
        Lifter { t, modes: vec![None; graph.blocks.len() + 1] }
    }

    fn run(mut self, graph: &Graph, mode: Mode, fragment: bool) -> Result<Function, Refusal> {
        let arch = self.t.arch;
        let name = self.t.function.name.clone();
        self.predecessors(graph);
        self.t.function.blocks[0].terminator = Terminator::Jump(Block(1));
        self.modes[1] = Some(mode);
        let mut built = vec![false; self.t.function.blocks.len()];
        built[0] = true;
        let mut ends = Vec::new();
        let stores = graph.stores();
        for (number, block) in graph.blocks.iter().enumerate() {
            let number = number + 1;
            self.seal(&built);
            self.t.block = Block(number as u32);
            self.t.mode = self.modes[number].unwrap_or(mode);
            self.t.known = block.known.clone();
            let mut last = None;
            for (at, &(address, inst)) in block.instructions.iter().enumerate() {
                self.t.address = address;
                if stores && graph.is_release(number - 1, at) {
                    self.t.b().append(Operation::Fence(MemoryScope::Device), &[], &[]);
                }
                last = Some(inst);
                self.step(&inst)
                    .map_err(|reason| refusal(arch, &name, Failure { address, inst: Some(inst), reason }))?;
                self.t.known.step(&inst, self.t.base.wrapping_add(address));
            }
            let address = self.t.address;
            self.leave(number, &block.exit, last.as_ref())
                .map_err(|reason| refusal(arch, &name, Failure { address, inst: last, reason }))?;
            if fragment && block.exit == Exit::End {
                ends.push(number);
            }
            built[number] = true;
        }
        self.seal(&built);
        for number in ends {
            self.observe(number);
        }
        let Translator { mut function, registers, .. } = self.t;
        registers.finish(&mut function);
        Ok(function)
    }

    fn predecessors(&mut self, graph: &Graph) {
        let blocks = &mut self.t.function.blocks;
        blocks[1].predecessors.push(Block(0));
        for (number, block) in graph.blocks.iter().enumerate() {
            let from = Block(number as u32 + 1);
            for to in block.exit.targets() {
                blocks[to + 1].predecessors.push(from);
            }
        }
    }

    /// Seals the blocks whose predecessors are all built.
    fn seal(&mut self, built: &[bool]) {
        for number in 1..built.len() {
            let ready = |block: &Block| built[block.0 as usize];
            if !self.t.registers.is_sealed(Block(number as u32))
                && self.t.function.blocks[number].predecessors.iter().all(ready)
            {
                self.t.registers.seal(&mut self.t.function, Block(number as u32));
            }
        }
    }

    /// Translates one instruction, unless it is a jump.
    fn step(&mut self, inst: &Inst) -> Result<(), String> {
        match inst.op {
            isa::Op::s_call_b64 => {
                let next = self.t.base.wrapping_add(self.t.address + u64::from(inst.size));
                let next = self.t.b().double(next);
                self.t.set_number(&inst.dst, next)
            }
            _ if graph::is_exit(inst) => Ok(()),
            _ => self.t.step(inst),
        }
    }

    /// Ends a block.
    fn leave(&mut self, number: usize, exit: &Exit<usize>, last: Option<&Inst>) -> Result<(), String> {
        let form = |to: usize| Block(to as u32 + 1);
        let mode = self.t.mode;
        let terminator = match exit.clone() {
            Exit::End => Terminator::End,
            Exit::Trap(code) => Terminator::Trap(code),
            Exit::Jump(to) => Terminator::Jump(form(to)),
            Exit::Branch(taken, next) if taken == next => Terminator::Jump(form(taken)),
            Exit::Branch(taken, next) => {
                let inst = last.ok_or("a branch without an instruction")?;
                let condition = scalar::condition(&mut self.t, inst)?;
                Terminator::Branch { condition, then: form(taken), otherwise: form(next) }
            }
            Exit::Switch(targets) => {
                let address = self.jump_target(last)?;
                let base = self.t.base;
                let target = |(address, to): (u64, usize)| (base.wrapping_add(address), form(to));
                Terminator::Switch { address, targets: targets.into_iter().map(target).collect() }
            }
            Exit::Register(address, to) => {
                let target = self.jump_target(last)?;
                let base = self.t.base;
                let mut b = self.t.b();
                let expected = b.double(base.wrapping_add(address));
                let right = b.compare(Compare::Equal, target, expected);
                if b.function.constant(right) == Some(1) {
                    Terminator::Jump(form(to))
                } else {
                    let trap = self.t.function.add_block(self.t.address);
                    let blocks = &mut self.t.function.blocks;
                    blocks[trap.0 as usize].terminator = Terminator::Trap(UNEXPECTED_JUMP);
                    blocks[trap.0 as usize].predecessors.push(Block(number as u32));
                    self.t.registers.add_block();
                    Terminator::Branch { condition: right, then: form(to), otherwise: trap }
                }
            }
        };
        for to in terminator.successors() {
            let Some(known) = self.modes.get_mut(to.0 as usize) else { continue };
            match known {
                Some(known) if *known != mode => {
                    return Err("MODE differs between the paths that meet after this".to_owned());
                }
                _ => *known = Some(mode),
            }
        }
        self.t.function.blocks[number].terminator = terminator;
        Ok(())
    }

    /// The address that a jump through a register goes to. A call's return address is written.
    fn jump_target(&mut self, last: Option<&Inst>) -> Result<Value, String> {
        let inst = last.ok_or("a jump without an instruction")?;
        let target = self.t.source(&inst.src[0], isa::DataType::B64)?;
        if inst.op == isa::Op::s_swappc_b64 {
            let next = self.t.base.wrapping_add(self.t.address + u64::from(inst.size));
            let next = self.t.b().double(next);
            self.t.set_number(&inst.dst, next)?;
        }
        Ok(target)
    }

    /// Observes the registers that the code writes at the end of a block.
    fn observe(&mut self, number: usize) {
        self.t.block = Block(number as u32);
        for register in self.t.written.clone() {
            let value = match register {
                Register::Scalar(number) => self.t.scalar_register(number),
                Register::Vector(number) => self.t.vector_register(number),
                Register::Scc => self.t.scc(),
            };
            self.t.b().append(Operation::Observe(register), &[value], &[]);
        }
    }
}
