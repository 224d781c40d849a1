//! One wave: the values of its lanes, and how each operation changes them and memory.

use super::launch::{Launch, Stats};
use super::memory::Memory;
use super::{Fault, atomic, cross, evaluate_pure, matrix};
use crate::form::*;

/// Lanes of a wave.
const LANES: usize = 64;

/// A function, prepared for evaluation.
#[derive(Debug)]
pub struct Program<'a> {
    pub function: &'a Function,
    /// Index of each value's first copy.
    places: Vec<u32>,
    /// Copies of all values.
    copies: usize,
}

impl<'a> Program<'a> {
    pub fn new(function: &'a Function) -> Result<Program<'a>, Fault> {
        let mut copies = 0;
        let places = function.values.iter().map(|value| {
            let at = copies;
            copies += if value.shape == Shape::Lane { LANES } else { 1 };
            at as u32
        });
        let places = places.collect();
        if function.blocks.is_empty() {
            return Err(Fault::Malformed("no blocks".to_owned()));
        }
        Ok(Program { function, places, copies })
    }
}

/// Why a wave stopped running for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Its turn is over.
    Turn,
    /// It waits for the other waves of its workgroup.
    Barrier,
    /// It waits for the other workgroups.
    GridBarrier,
    /// It has ended.
    End,
}

/// What a wave shares with others.
pub struct Surroundings<'a> {
    pub launch: &'a Launch,
    pub local: &'a mut Vec<u8>,
    pub memory: &'a mut dyn Memory,
    pub stats: &'a mut Stats,
}

/// A wave that runs.
pub struct Wave<'a> {
    program: &'a Program<'a>,
    values: Vec<u64>,
    block: usize,
    /// Instruction of the block that is next.
    next: usize,
    workgroup: [u32; 3],
    number: u32,
    /// Scratch of each lane.
    pub private: Vec<Vec<u8>>,
    /// Registers at the start of a fragment.
    pub registers: Option<&'a dyn Fn(Register, usize) -> u64>,
    /// Registers at the end of a fragment.
    pub observed: Vec<(Register, Vec<u64>)>,
}

/// Memory that a lane accesses.
enum Place {
    Global(u64),
    Local(u32),
    Private(u32),
}

impl<'a> Wave<'a> {
    pub fn new(program: &'a Program<'a>, workgroup: [u32; 3], number: u32) -> Wave<'a> {
        Wave {
            program,
            values: vec![0; program.copies],
            block: 0,
            next: 0,
            workgroup,
            number,
            private: Vec::new(),
            registers: None,
            observed: Vec::new(),
        }
    }

    /// Runs until the wave waits or ends, or `turn` instructions have run.
    pub fn run(&mut self, around: &mut Surroundings<'_>, turn: u64) -> Result<Stop, Fault> {
        let function = self.program.function;
        let mut left = turn;
        loop {
            let block = &function.blocks[self.block];
            while let Some(index) = block.instructions.get(self.next) {
                if left == 0 {
                    return Ok(Stop::Turn);
                }
                left -= 1;
                around.stats.steps += 1;
                if around.stats.steps > around.launch.steps {
                    return Err(Fault::Steps(around.launch.steps));
                }
                self.next += 1;
                let instruction = &function.instructions[*index as usize];
                match instruction.operation {
                    Operation::Barrier => return Ok(Stop::Barrier),
                    Operation::GridBarrier => return Ok(Stop::GridBarrier),
                    Operation::Sleep => return Ok(Stop::Turn),
                    // Written where the block is entered.
                    Operation::Phi => {}
                    _ => self.step(around, instruction)?,
                }
            }
            if left == 0 {
                return Ok(Stop::Turn);
            }
            // An empty loop ends too.
            left -= 1;
            around.stats.steps += 1;
            if around.stats.steps > around.launch.steps {
                return Err(Fault::Steps(around.launch.steps));
            }
            let to = match &block.terminator {
                Terminator::End => return Ok(Stop::End),
                Terminator::Trap(code) => return Err(Fault::Trap(*code)),
                Terminator::Jump(to) => *to,
                Terminator::Branch { condition, then, otherwise } => {
                    if self.get(*condition, 0) & 1 == 1 {
                        *then
                    } else {
                        *otherwise
                    }
                }
                Terminator::Switch { address, targets } => {
                    let address = self.get(*address, 0);
                    let found = targets.iter().find(|(target, _)| *target == address);
                    found.ok_or(Fault::Trap(UNEXPECTED_JUMP))?.1
                }
            };
            self.enter(to)?;
        }
    }

    /// Goes to a block: all its phis read their operands before any is written.
    fn enter(&mut self, to: Block) -> Result<(), Fault> {
        let function = self.program.function;
        let from = Block(self.block as u32);
        let block = &function.blocks[to.0 as usize];
        let edge = block.predecessors.iter().position(|block| *block == from);
        let edge = edge.ok_or_else(|| Fault::Malformed(format!("{from} does not precede {to}")))?;
        let mut incoming = Vec::new();
        for index in &block.instructions {
            let instruction = &function.instructions[*index as usize];
            if instruction.operation != Operation::Phi {
                break;
            }
            let operand = instruction.operands.get(edge).copied();
            let operand =
                operand.ok_or_else(|| Fault::Malformed(format!("a phi of {to} has too few operands")))?;
            let copies = self.copies(instruction.results[0]);
            incoming
                .push((instruction.results[0], (0..copies).map(|lane| self.get(operand, lane)).collect()));
        }
        for (result, values) in incoming {
            let values: Vec<u64> = values;
            values.into_iter().enumerate().for_each(|(lane, value)| self.set(result, lane, value));
        }
        self.block = to.0 as usize;
        self.next = 0;
        Ok(())
    }

    fn copies(&self, value: Value) -> usize {
        if self.program.function.shape(value) == Shape::Lane { LANES } else { 1 }
    }

    fn get(&self, value: Value, lane: usize) -> u64 {
        let at = self.program.places[value.0 as usize] as usize;
        match self.program.function.values[value.0 as usize].shape {
            Shape::Lane => self.values[at + lane],
            Shape::Uniform => self.values[at],
        }
    }

    fn set(&mut self, value: Value, lane: usize, bits: u64) {
        let at = self.program.places[value.0 as usize] as usize;
        self.values[at + lane] = bits;
    }

    /// The lanes of a mask, as bits.
    fn lanes(&self, mask: Value) -> u64 {
        (0..LANES).fold(0, |all, lane| all | (self.get(mask, lane) & 1) << lane)
    }

    /// Sets a value in all its copies.
    fn fill(&mut self, value: Value, bits: impl Fn(&Self, usize) -> u64) {
        for lane in 0..self.copies(value) {
            let bits = bits(self, lane);
            self.set(value, lane, bits);
        }
    }

    fn step(&mut self, around: &mut Surroundings<'_>, instruction: &Instruction) -> Result<(), Fault> {
        let (operands, results) = (&instruction.operands, &instruction.results);
        match &instruction.operation {
            Operation::Input(input) => {
                for lane in 0..self.copies(results[0]) {
                    let bits = self.input(*input, around.launch, lane)?;
                    self.set(results[0], lane, bits);
                }
            }
            Operation::Ballot => {
                let lanes = self.lanes(operands[0]);
                self.fill(results[0], |_, _| lanes);
            }
            Operation::MaskOf => {
                let bits = self.get(operands[0], 0);
                self.fill(results[0], |_, lane| bits >> lane & 1);
            }
            Operation::AnyLane => {
                let any = self.lanes(operands[0]) != 0;
                self.fill(results[0], |_, _| any.into());
            }
            Operation::ReadLane => {
                let lane = self.get(operands[1], 0) as usize & 63;
                let word = self.get(operands[0], lane);
                self.fill(results[0], |_, _| word);
            }
            Operation::ReadFirstLane => {
                let lane = self.lanes(operands[1]).trailing_zeros() as usize & 63;
                let word = self.get(operands[0], lane);
                self.fill(results[0], |_, _| word);
            }
            Operation::Shuffle => self.fill(results[0], |wave, lane| {
                wave.get(operands[0], wave.get(operands[1], lane) as usize & 63)
            }),
            Operation::Push => {
                let mut pushed = [0; LANES];
                let lanes = self.lanes(operands[2]);
                for lane in (0..LANES).filter(|lane| lanes >> lane & 1 == 1) {
                    pushed[self.get(operands[1], lane) as usize & 63] = self.get(operands[0], lane);
                }
                self.fill(results[0], |_, lane| pushed[lane]);
            }
            Operation::Move(pattern) => self.fill(results[0], |wave, lane| {
                cross::source_lane(*pattern, lane).map_or(0, |from| wave.get(operands[0], from))
            }),
            Operation::Load(access) => self.load(around, instruction, access)?,
            Operation::Store(access) => self.store(around, instruction, access)?,
            Operation::Atomic(operation, access, returns) => {
                self.atomic(around, instruction, *operation, access, *returns)?;
            }
            Operation::AppendConsume { consume, offset } => {
                let lanes = self.lanes(operands[0]).count_ones();
                let at = self.get(operands[1], 0) + u64::from(*offset);
                let mut old = 0;
                if at + 4 <= around.local.len() as u64 {
                    let bytes = &mut around.local[at as usize..at as usize + 4];
                    old = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                    let new = if *consume { old.wrapping_sub(lanes) } else { old.wrapping_add(lanes) };
                    bytes.copy_from_slice(&new.to_le_bytes());
                }
                self.fill(results[0], |_, _| old.into());
            }
            Operation::Fence(_) => {}
            Operation::Clock(clock) => {
                // Time passes with every instruction, at a plausible ratio of the two clocks.
                let steps = around.stats.steps;
                let time = if *clock == Clock::Cycles { steps } else { steps / 10 };
                self.fill(results[0], |_, _| 1_000_000_000 + time);
            }
            Operation::Require => {
                if self.get(operands[0], 0) & 1 == 0 {
                    return Err(Fault::Required { address: instruction.address });
                }
            }
            Operation::Matrix(matrix) => {
                let words: Vec<[u32; LANES]> = operands
                    .iter()
                    .map(|value| std::array::from_fn(|lane| self.get(*value, lane) as u32))
                    .collect();
                let product = matrix::multiply(matrix, &words).map_err(Fault::Malformed)?;
                for (result, words) in results.iter().zip(product) {
                    self.fill(*result, |_, lane| words[lane].into());
                }
            }
            Operation::Observe(register) => {
                let values = (0..self.copies(operands[0])).map(|lane| self.get(operands[0], lane)).collect();
                self.observed.push((*register, values));
            }
            operation => {
                let function = self.program.function;
                let kind = function.kind(*operands.first().unwrap_or(&results[0]));
                let kind = if *operation == Operation::Select { function.kind(results[0]) } else { kind };
                let mut bits = [0; 4];
                if operands.len() > 4 {
                    return Err(Fault::Malformed(function.line(instruction)));
                }
                for lane in 0..self.copies(results[0]) {
                    for (bits, operand) in bits.iter_mut().zip(operands) {
                        *bits = self.get(*operand, lane);
                    }
                    let result = evaluate_pure(operation, kind, &bits[..operands.len()]);
                    let result = result.ok_or_else(|| Fault::Malformed(function.line(instruction)))?;
                    self.set(results[0], lane, result);
                }
            }
        }
        Ok(())
    }

    fn input(&self, input: Input, launch: &Launch, lane: usize) -> Result<u64, Fault> {
        let item = 64 * self.number + lane as u32;
        let [x, y, z] = launch.size(self.workgroup);
        Ok(match input {
            Input::KernargPointer => launch.kernarg,
            Input::DispatchPointer => launch.dispatch,
            Input::QueuePointer => launch.queue,
            Input::DispatchId => launch.dispatch_id,
            Input::WorkgroupId(dimension) => self.workgroup[usize::from(dimension) % 3].into(),
            Input::WaveId => self.number.into(),
            Input::WorkitemId(0) => (item % x.max(1)).into(),
            Input::WorkitemId(1) => (item / x.max(1) % y.max(1)).into(),
            Input::WorkitemId(_) => (item / x.max(1) / y.max(1)).into(),
            Input::LaneNumber => lane as u64,
            Input::LanesBelow => (1 << lane) - 1,
            Input::HasWorkitem => u64::from(item < x * y * z),
            Input::SharedBase => launch.shared_base,
            Input::PrivateBase => launch.private_base,
            Input::LdsBytes => launch.lds_bytes.into(),
            Input::Register(register) => {
                let registers = self.registers;
                let registers = registers
                    .ok_or_else(|| Fault::Malformed("a kernel with an initial register".to_owned()))?;
                registers(register, lane)
            }
        })
    }

    fn place(&self, launch: &Launch, access: &Access, address: u64) -> Place {
        let wide = address.wrapping_add_signed(access.offset.into());
        match access.space {
            Space::Global | Space::Constant => Place::Global(wide),
            Space::Kernarg => Place::Global(launch.kernarg.wrapping_add(wide)),
            Space::Lds => Place::Local(wide as u32),
            Space::Private => Place::Private(wide as u32),
            Space::Flat if wide >> 32 == launch.shared_base >> 32 => Place::Local(wide as u32),
            Space::Flat if wide >> 32 == launch.private_base >> 32 => Place::Private(wide as u32),
            Space::Flat => Place::Global(wide),
        }
    }

    /// Reads a lane's bytes; those beyond LDS are zero.
    fn read(
        &mut self,
        around: &mut Surroundings<'_>,
        place: &Place,
        lane: usize,
        to: &mut [u8],
    ) -> Result<(), Fault> {
        match *place {
            Place::Global(address) => {
                if !around.memory.read(address, to) {
                    return Err(Fault::Address { address, bytes: to.len() as u32 });
                }
            }
            Place::Local(at) => match around.local.get(at as usize..at as usize + to.len()) {
                Some(from) => to.copy_from_slice(from),
                None => to.fill(0),
            },
            Place::Private(offset) => to.copy_from_slice(self.private(offset, lane, to.len())?),
        }
        Ok(())
    }

    /// Writes a lane's bytes; those beyond LDS are dropped.
    fn write(
        &mut self,
        around: &mut Surroundings<'_>,
        place: &Place,
        lane: usize,
        from: &[u8],
    ) -> Result<(), Fault> {
        match *place {
            Place::Global(address) => {
                if !around.memory.write(address, from) {
                    return Err(Fault::Address { address, bytes: from.len() as u32 });
                }
            }
            Place::Local(at) => {
                if let Some(to) = around.local.get_mut(at as usize..at as usize + from.len()) {
                    to.copy_from_slice(from);
                }
            }
            Place::Private(offset) => self.private(offset, lane, from.len())?.copy_from_slice(from),
        }
        Ok(())
    }

    fn private(&mut self, offset: u32, lane: usize, count: usize) -> Result<&mut [u8], Fault> {
        let own = self.private.get_mut(lane).map(Vec::as_mut_slice).unwrap_or_default();
        let size = own.len();
        own.get_mut(offset as usize..offset as usize + count).ok_or(Fault::Private { offset, size })
    }

    fn load(
        &mut self,
        around: &mut Surroundings<'_>,
        instruction: &Instruction,
        access: &Access,
    ) -> Result<(), Fault> {
        let [mask, address] = instruction.operands[..] else {
            return Err(Fault::Malformed(self.program.function.line(instruction)));
        };
        let count = usize::from(access.bytes);
        for lane in 0..self.copies(instruction.results[0]) {
            let mut bytes = [0; 256];
            if self.get(mask, lane) & 1 == 1 {
                let place = self.place(around.launch, access, self.get(address, lane));
                self.read(around, &place, lane, &mut bytes[..count])?;
            }
            for (k, result) in instruction.results.iter().enumerate() {
                let at = &bytes[4 * k..4 * k + 4];
                let mut word = u32::from_le_bytes([at[0], at[1], at[2], at[3]]);
                if access.signed && count < 4 {
                    let unused = 32 - 8 * u32::from(access.bytes);
                    word = ((word << unused) as i32 >> unused) as u32;
                }
                self.set(*result, lane, word.into());
            }
        }
        Ok(())
    }

    fn store(
        &mut self,
        around: &mut Surroundings<'_>,
        instruction: &Instruction,
        access: &Access,
    ) -> Result<(), Fault> {
        let [mask, address, ref words @ ..] = instruction.operands[..] else {
            return Err(Fault::Malformed(self.program.function.line(instruction)));
        };
        let count = usize::from(access.bytes);
        let lanes = self.lanes(mask);
        for lane in (0..LANES).filter(|lane| lanes >> lane & 1 == 1) {
            let bytes: Vec<u8> =
                words.iter().flat_map(|word| (self.get(*word, lane) as u32).to_le_bytes()).collect();
            let bytes = bytes
                .get(..count)
                .ok_or_else(|| Fault::Malformed(self.program.function.line(instruction)))?;
            let place = self.place(around.launch, access, self.get(address, lane));
            self.write(around, &place, lane, bytes)?;
        }
        Ok(())
    }

    fn atomic(
        &mut self,
        around: &mut Surroundings<'_>,
        instruction: &Instruction,
        operation: Atomic,
        access: &Access,
        returns: Returns,
    ) -> Result<(), Fault> {
        let (bytes, wide) = (usize::from(access.bytes), access.bytes == 8);
        let [mask, address, ref data @ ..] = instruction.operands[..] else {
            return Err(Fault::Malformed(self.program.function.line(instruction)));
        };
        let size = bytes / 4;
        if !matches!(bytes, 4 | 8) || data.len() < size {
            return Err(Fault::Malformed(self.program.function.line(instruction)));
        }
        let datum = |wave: &Self, n: usize, lane: usize| match data.get(n * size..(n + 1) * size) {
            Some([low, high]) => wave.get(*low, lane) | wave.get(*high, lane) << 32,
            Some([word]) => wave.get(*word, lane),
            _ => 0,
        };
        let lanes = self.lanes(mask);
        for lane in 0..LANES {
            let mut old = 0;
            if lanes >> lane & 1 == 1 {
                let place = self.place(around.launch, access, self.get(address, lane));
                if let Place::Global(address) = place
                    && address % bytes as u64 != 0
                {
                    return Err(Fault::Misaligned { address, bytes: bytes as u32 });
                }
                let mut cell = [0; 8];
                self.read(around, &place, lane, &mut cell[..bytes])?;
                old = u64::from_le_bytes(cell);
                let new = atomic::apply(operation, wide, old, datum(self, 0, lane), datum(self, 1, lane));
                self.write(around, &place, lane, &new.to_le_bytes()[..bytes])?;
            }
            if returns == Returns::Old {
                for (k, result) in instruction.results.iter().enumerate() {
                    self.set(*result, lane, old >> (32 * k) & 0xffff_ffff);
                }
            }
        }
        Ok(())
    }
}
