//! Random functions in the style of compilers: what the function of one lane does is what the lane does in the wave.

use isa_reference::random::Random;

use crate::evaluate::{Bytes, Fragment, run_fragment};
use crate::form::*;
use crate::{Builder, Function, optimize, separate, verify};

const MEMORY: u64 = 0x1000_0000_0000;
const WORDS: usize = 4;

/// Variables at a point of the program.
#[derive(Clone)]
struct Scope {
    lanes: Vec<Value>,
    uniform: Vec<Value>,
    exec: Value,
}

impl Scope {
    fn all(&self) -> Vec<Value> {
        self.lanes.iter().chain(&self.uniform).copied().chain([self.exec]).collect()
    }

    fn from(values: &[Value], like: &Scope) -> Scope {
        let (lanes, uniform) = (like.lanes.len(), like.uniform.len());
        Scope {
            lanes: values[..lanes].to_vec(),
            uniform: values[lanes..lanes + uniform].to_vec(),
            exec: values[lanes + uniform],
        }
    }
}

struct Writer<'a> {
    b: Builder<'a>,
    random: &'a mut Random,
    /// Statements that compilers do not write: values that other lanes' paths change.
    wild: bool,
    address: Value,
}

impl Writer<'_> {
    fn lane(&mut self, scope: &Scope) -> usize {
        self.random.below(scope.lanes.len() as u64) as usize
    }

    fn any(&mut self, mask: Value) -> Value {
        self.b.append(Operation::AnyLane, &[mask], &[(Kind::Bit, Shape::Uniform)])[0]
    }

    fn condition(&mut self, scope: &Scope) -> Value {
        let (x, y) = (self.lane(scope), self.lane(scope));
        let limit = self.b.word(1 << 31);
        let sum = self.b.binary(Binary::Add, scope.lanes[x], scope.lanes[y]);
        let less = self.b.compare(Compare::LessUnsigned, sum, limit);
        self.b.binary(Binary::And, scope.exec, less)
    }

    fn phis(&mut self, scope: &Scope, block: Block, edges: usize) -> Scope {
        self.b.block = block;
        let data: Vec<(Value, Kind, Shape)> = scope
            .all()
            .into_iter()
            .map(|value| {
                let lane = scope.lanes.contains(&value) || value == scope.exec;
                (value, self.b.function.kind(value), if lane { Shape::Lane } else { Shape::Uniform })
            })
            .collect();
        let values: Vec<Value> = data
            .into_iter()
            .map(|(value, kind, shape)| {
                self.b.append(Operation::Phi, &vec![value; edges], &[(kind, shape)])[0]
            })
            .collect();
        Scope::from(&values, scope)
    }

    fn set_operands(&mut self, phis: &Scope, edge: usize, values: &Scope) {
        for (phi, value) in phis.all().into_iter().zip(values.all()) {
            let index = self.b.function.values[phi.0 as usize].instruction;
            self.b.function.instructions[index as usize].operands[edge] = value;
        }
    }

    fn jump(&mut self, from: Block, to: Block) {
        self.b.function.blocks[from.0 as usize].terminator = Terminator::Jump(to);
        self.b.function.blocks[to.0 as usize].predecessors.push(from);
    }

    fn branch(&mut self, from: Block, condition: Value, then: Block, otherwise: Block) {
        let terminator = Terminator::Branch { condition, then, otherwise };
        self.b.function.blocks[from.0 as usize].terminator = terminator;
        for to in [then, otherwise] {
            self.b.function.blocks[to.0 as usize].predecessors.push(from);
        }
    }

    fn statements(&mut self, mut scope: Scope, depth: u32) -> Scope {
        for _ in 0..1 + self.random.below(3) {
            scope = match self.random.below(if depth == 0 { 4 } else { 7 }) {
                0 | 1 => self.assign(scope),
                2 => self.count(scope),
                3 => self.store(scope),
                4 | 5 => self.when(scope, depth - 1),
                _ => self.repeat(scope, depth - 1),
            };
        }
        scope
    }

    fn assign(&mut self, mut scope: Scope) -> Scope {
        let (to, x, y) = (self.lane(&scope), self.lane(&scope), self.lane(&scope));
        let uniform = self.random.pick(&scope.uniform);
        let other = if self.random.chance(3) { uniform } else { scope.lanes[y] };
        let factor = self.b.word(0x9e37_79b1);
        let product = self.b.binary(Binary::Multiply, scope.lanes[x], factor);
        let new = self.b.binary(Binary::Xor, product, other);
        scope.lanes[to] = if self.wild && self.random.chance(8) {
            new
        } else {
            self.b.pure(Operation::Select, &[scope.exec, new, scope.lanes[to]], Kind::Word)
        };
        scope
    }

    fn count(&mut self, mut scope: Scope) -> Scope {
        let to = self.random.below(scope.uniform.len() as u64) as usize;
        let step = self.b.word(self.random.below(5) as u32 + 1);
        let next = self.b.binary(Binary::Add, scope.uniform[to], step);
        scope.uniform[to] = if self.random.chance(3) {
            let mask = self.condition(&scope);
            let any = self.any(mask);
            self.b.pure(Operation::Select, &[any, next, scope.uniform[to]], Kind::Word)
        } else {
            next
        };
        // A number is set before it is used, in most programs.
        if !self.wild || self.random.chance(2) {
            let place = self.lane(&scope);
            let number = scope.uniform[to];
            scope.lanes[place] =
                self.b.pure(Operation::Select, &[scope.exec, number, scope.lanes[place]], Kind::Word);
            if self.random.chance(2) {
                scope.uniform[to] = self.b.word(7);
            }
        }
        scope
    }

    fn store(&mut self, scope: Scope) -> Scope {
        let from = self.lane(&scope);
        let offset = 4 * self.random.below(WORDS as u64) as i32;
        let access = Access {
            space: Space::Global,
            bytes: 4,
            signed: false,
            offset,
            scope: MemoryScope::Wave,
            align: 2,
        };
        let operands = [scope.exec, self.address, scope.lanes[from]];
        self.b.append(Operation::Store(access), &operands, &[]);
        scope
    }

    fn when(&mut self, scope: Scope, depth: u32) -> Scope {
        let mask = self.condition(&scope);
        let any = self.any(mask);
        let from = self.b.block;
        let (body, join) = (self.b.function.add_block(0), self.b.function.add_block(0));
        self.branch(from, any, body, join);
        self.b.block = body;
        let inner = Scope { exec: mask, ..scope.clone() };
        let inner = self.statements(inner, depth);
        let end = self.b.block;
        self.jump(end, join);
        let mut after = self.phis(&scope, join, 2);
        self.set_operands(&after, 0, &Scope { exec: mask, ..scope.clone() });
        self.set_operands(&after, 1, &inner);
        after.exec = if self.random.chance(2) {
            scope.exec
        } else {
            self.b.binary(Binary::Or, after.exec, scope.exec)
        };
        after
    }

    /// A loop whose lanes leave when their counter is at an end; the mask of those that left grows.
    fn repeat(&mut self, scope: Scope, depth: u32) -> Scope {
        let mut start = scope.clone();
        let (zero, none) = (self.b.word(0), self.b.bit(false));
        let at = start.lanes.len();
        start.lanes.push(self.b.pure(Operation::Select, &[scope.exec, zero, scope.lanes[0]], Kind::Word));
        let from = self.b.block;
        let (head, exit) = (self.b.function.add_block(0), self.b.function.add_block(0));
        self.jump(from, head);
        let phis = self.phis(&start, head, 2);
        let left = self.b.append(Operation::Phi, &[none, none], &[(Kind::Bit, Shape::Lane)])[0];
        self.set_operands(&phis, 0, &start);
        let mut inner = self.statements(phis.clone(), depth);
        // Nothing else writes the counter: it is what it was at the start of the round.
        let (one, seven) = (self.b.word(1), self.b.word(7));
        let next = self.b.binary(Binary::Add, phis.lanes[at], one);
        inner.lanes[at] = self.b.pure(Operation::Select, &[inner.exec, next, phis.lanes[at]], Kind::Word);
        let most = self.b.binary(Binary::And, scope.lanes[1], seven);
        let done = self.b.compare(Compare::LessUnsigned, most, inner.lanes[at]);
        let leaves = self.b.binary(Binary::And, inner.exec, done);
        let now = self.b.binary(Binary::Or, leaves, left);
        let stays = self.b.not(now);
        let mask = self.b.binary(Binary::And, inner.exec, stays);
        let any = self.any(mask);
        let end = self.b.block;
        if self.random.chance(2) {
            self.branch(end, any, head, exit);
        } else {
            let none = self.b.not(any);
            self.branch(end, none, exit, head);
        }
        let back = Scope { exec: mask, ..inner.clone() };
        self.set_operands(&phis, 1, &back);
        let index = self.b.function.values[left.0 as usize].instruction;
        self.b.function.instructions[index as usize].operands[1] = now;
        self.b.block = exit;
        let exec = if self.random.chance(2) { scope.exec } else { self.b.binary(Binary::Or, mask, now) };
        inner.lanes.truncate(at);
        Scope { exec, ..inner }
    }
}

fn function(random: &mut Random, wild: bool) -> Function {
    let mut function = Function { name: "k".into(), ..Function::default() };
    let block = function.add_block(0);
    let mut b = Builder { function: &mut function, block, address: 0 };
    let lanes: Vec<Value> = (0..4).map(|at| b.input(Input::Register(Register::Vector(at)))).collect();
    let uniform: Vec<Value> = (2..4).map(|at| b.input(Input::Register(Register::Scalar(at)))).collect();
    let (bits, zero) = (b.input(Input::Register(Register::Vector(4))), b.word(0));
    let exec = b.compare(Compare::NotEqual, bits, zero);
    let (base, offset) = (b.double(MEMORY), b.input(Input::Register(Register::Vector(5))));
    let offset = b.pack(offset, zero);
    let address = b.binary(Binary::Add, base, offset);
    let mut writer = Writer { b, random, wild, address };
    let end = writer.statements(Scope { lanes, uniform, exec }, 3);
    let Writer { mut b, random, .. } = writer;
    let all = random.chance(4);
    for (at, value) in end.lanes.iter().enumerate() {
        let seen =
            if all { *value } else { b.pure(Operation::Select, &[end.exec, *value, zero], Kind::Word) };
        b.append(Operation::Observe(Register::Vector(at as u16)), &[seen], &[]);
    }
    function
}

/// Observed values and memory; every lane has the registers of lane `lane(n)`.
fn run(
    function: &Function,
    registers: &[Vec<u32>],
    lane: impl Fn(usize) -> usize,
) -> (Vec<Vec<u64>>, Vec<u8>) {
    let mut memory = Bytes::default();
    memory.add(MEMORY, vec![0; 64 * 4 * WORDS]);
    let read = |register: Register, number: usize| match register {
        Register::Vector(at) => registers[usize::from(at)][lane(number)].into(),
        Register::Scalar(at) => 1000 * u64::from(at),
        Register::Scc => 0,
    };
    let (mut local, mut private) = (Vec::new(), vec![Vec::new(); 64]);
    let fragment =
        Fragment { register: &read, local: &mut local, private: &mut private, memory: &mut memory };
    let (observed, _) =
        run_fragment(function, fragment, 1 << 20).unwrap_or_else(|fault| panic!("{fault}\n{function}"));
    let values = observed.into_iter().map(|(_, values)| values).collect();
    (values, memory.range(MEMORY).unwrap_or_default().to_vec())
}

/// Compares functions; returns how many were separated.
fn compare(seeds: std::ops::Range<u64>, wild: bool) -> usize {
    let mut separated = 0;
    for seed in seeds {
        let mut random = Random::new(seed);
        let mut wave = function(&mut random, wild);
        if random.chance(2) {
            optimize(&mut wave, &crate::Assumptions::default());
        }
        verify(&wave).unwrap_or_else(|reason| panic!("seed {seed}: {reason}\n{wave}"));
        let Ok(lane) = separate(&wave) else { continue };
        separated += 1;
        let mut registers: Vec<Vec<u32>> =
            (0..4).map(|_| (0..64).map(|_| random.bits() as u32).collect()).collect();
        registers.push((0..64).map(|_| u32::from(!random.chance(3))).collect());
        registers.push((0..64).map(|lane| lane * 4 * WORDS as u32).collect());
        let (want, want_memory) = run(&wave, &registers, |number| number);
        for number in 0..64 {
            let (got, memory) = run(&lane, &registers, |_| number);
            let own = 4 * WORDS * number..4 * WORDS * (number + 1);
            let same = got
                .iter()
                .zip(&want)
                .all(|(got, want)| got[number.min(got.len() - 1)] == want[number.min(want.len() - 1)]);
            assert!(
                same && memory[own.clone()] == want_memory[own],
                "seed {seed}, lane {number}\n{wave}\n{lane}"
            );
        }
    }
    separated
}

#[test]
fn a_separated_lane_does_what_it_does_in_the_wave() {
    let separated = compare(0..1500, false);
    assert!(separated > 300, "only {separated}");
}

#[test]
fn a_separated_lane_that_other_lanes_influence_is_refused() {
    let separated = compare(10_000..11_500, true);
    assert!((50..1400).contains(&separated), "{separated}");
}
