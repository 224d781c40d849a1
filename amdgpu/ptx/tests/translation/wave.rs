//! Cases of operations on memory, across lanes, of matrices, and of control flow.

use isa::{ENCODINGS, Element, Flags};
use isa_reference::exact::{F16, F32, NEAREST, Number};
use isa_reference::random::Random;
use lift::Builder;
use lift::form::*;
use ptx::Mode;

use super::cases::{Case, Registers, Tolerance, memory, observe, vector};

pub fn cases() -> Vec<Case> {
    let mut all = accesses();
    all.extend(atomics());
    all.extend(crossings());
    all.extend(matrices());
    all.extend(control());
    all
}

/// v0: random words; v1: random words; v2: random bits, sometimes all or none; v3: the lane's number.
fn registers(seed: u64) -> Vec<Registers> {
    let mut random = Random::new(seed);
    (0..4)
        .map(|wave| {
            let mut words = || (0..64).map(|_| random.bits() as u32).collect::<Vec<u32>>();
            let (first, second, third) = (words(), words(), words());
            let bits = match wave {
                2 => vec![0; 64],
                3 => vec![1; 64],
                _ => third.iter().map(|word| word >> 7 & 1).collect(),
            };
            vec![
                (Register::Vector(0), first),
                (Register::Vector(1), second),
                (Register::Vector(2), bits),
                (Register::Vector(3), (0..64).collect()),
                (Register::Scalar(4), vec![third[3]]),
            ]
        })
        .collect()
}

fn mask(b: &mut Builder<'_>) -> Value {
    let (word, zero) = (vector(b, 2), b.word(0));
    b.compare(Compare::NotEqual, word, zero)
}

fn access(space: Space, bytes: u8, align: u8) -> Access {
    Access { space, bytes, signed: false, offset: 0, scope: MemoryScope::Wave, align }
}

fn load(b: &mut Builder<'_>, access: Access, mask: Value, address: Value) -> Vec<Value> {
    let shape = b.function.shape(mask).max(b.function.shape(address));
    let words = usize::from(access.bytes).div_ceil(4);
    b.append(Operation::Load(access), &[mask, address], &vec![(Kind::Word, shape); words])
}

/// A lane's address: `base + lane * stride + (lane's random word & odd)`.
fn lane_address(b: &mut Builder<'_>, stride: u32, odd: u32) -> Value {
    let (lane, random, stride, odd) = (vector(b, 3), vector(b, 1), b.word(stride), b.word(odd));
    let row = b.binary(Binary::Multiply, lane, stride);
    let rest = b.binary(Binary::And, random, odd);
    b.binary(Binary::Add, row, rest)
}

fn in_memory(b: &mut Builder<'_>, offset: Value) -> Value {
    let (base, zero) = (memory(b), b.word(0));
    let wide = b.pack(offset, zero);
    b.binary(Binary::Add, base, wide)
}

fn accesses() -> Vec<Case> {
    let mut all = Vec::new();
    let bytes: Vec<u8> = (0..8192u32).map(|at| (at * 37 + 11) as u8).collect();
    for size in [1u8, 2, 4, 8, 12, 16] {
        for odd in [0u32, 4, 3] {
            let align = if odd == 0 { 4 } else { 0 };
            for space in [Space::Global, Space::Flat, Space::Constant] {
                for scope in
                    [MemoryScope::Wave, MemoryScope::Workgroup, MemoryScope::Device, MemoryScope::System]
                {
                    if space != Space::Global && scope != MemoryScope::Wave {
                        continue;
                    }
                    for signed in [false, true] {
                        if signed && size > 2 {
                            continue;
                        }
                        let name = format!("load {space:?} {size} odd {odd} {scope:?} {signed}");
                        let mut case = Case::new(name, registers(size.into()), |b| {
                            let access = Access { signed, scope, offset: 16, ..access(space, size, align) };
                            let (mask, offset) = (mask(b), lane_address(b, 32, odd));
                            let address = in_memory(b, offset);
                            for (at, word) in load(b, access, mask, address).into_iter().enumerate() {
                                observe(b, 16 + at as u16, word);
                            }
                        });
                        case.memory.clone_from(&bytes);
                        case.modes = vec![Mode::Pair, Mode::Lane];
                        all.push(case);
                    }
                    if space == Space::Constant {
                        continue;
                    }
                    let name = format!("store {space:?} {size} odd {odd} {scope:?}");
                    let mut case = Case::new(name, registers(size.into())[..1].to_vec(), |b| {
                        let access = Access { scope, offset: 16, ..access(space, size, align) };
                        let (mask, offset) = (mask(b), lane_address(b, 32, odd));
                        let address = in_memory(b, offset);
                        let mut operands = vec![mask, address];
                        operands.extend((0..u16::from(size).div_ceil(4)).map(|at| vector(b, at % 2)));
                        b.append(Operation::Store(access), &operands, &[]);
                    });
                    case.memory.clone_from(&bytes);
                    case.modes = vec![Mode::Pair, Mode::Lane];
                    all.push(case);
                }
            }
            for space in [Space::Lds, Space::Private] {
                let name = format!("{space:?} {size} odd {odd}");
                let mut case = Case::new(name, registers(u64::from(size) + 9), |b| {
                    // Write all, then read one's own again, shifted by what the odd part says.
                    let yes = b.bit(true);
                    let (stride, limit) = if space == Space::Lds { (32, 7) } else { (0, 7) };
                    let full = lane_address(b, stride, 0);
                    let words: Vec<Value> = (0..8)
                        .map(|at| {
                            let (data, by) = (vector(b, 0), b.word(at * 0x0101_0101));
                            b.binary(Binary::Add, data, by)
                        })
                        .collect();
                    for (at, word) in words.iter().enumerate() {
                        let part = Access { offset: 4 * at as i32, ..access(space, 4, 2) };
                        b.append(Operation::Store(part), &[yes, full, *word], &[]);
                    }
                    let (mask, address) = (mask(b), lane_address(b, stride, odd & limit));
                    let access = Access { offset: 8, ..access(space, size, if odd == 0 { 3 } else { 0 }) };
                    for (at, word) in load(b, access, mask, address).into_iter().enumerate() {
                        observe(b, 16 + at as u16, word);
                    }
                });
                case.lds_bytes = 2048;
                case.modes = vec![Mode::Pair];
                all.push(case);
            }
        }
    }
    all.push(many_slow_paths());
    // Beyond LDS: zeros.
    let mut case = Case::new("LDS out of range", registers(77), |b| {
        let yes = b.bit(true);
        let (address, data) = (lane_address(b, 16, 0), vector(b, 0));
        b.append(Operation::Store(access(Space::Lds, 4, 2)), &[yes, address, data], &[]);
        b.append(Operation::Barrier, &[], &[]);
        for word in load(b, access(Space::Lds, 4, 2), yes, address) {
            observe(b, 16, word);
        }
    });
    case.lds_bytes = 512;
    case.function.blocks[0]
        .instructions
        .retain(|index| case.function.instructions[*index as usize].operation != Operation::Barrier);
    all.push(case);
    // Flat addresses of LDS and scratch; a lane chooses by its random bit.
    let mut case = Case::new("flat apertures", registers(78), |b| {
        let yes = b.bit(true);
        let (shared, private) = (b.input(Input::SharedBase), b.input(Input::PrivateBase));
        let (offset, zero, chosen) = (lane_address(b, 16, 0), b.word(0), mask(b));
        let wide = b.pack(offset, zero);
        let small = b.double(12);
        let (in_lds, in_scratch) =
            (b.binary(Binary::Add, shared, wide), b.binary(Binary::Add, private, small));
        let address = b.select(chosen, in_lds, in_scratch);
        let data = vector(b, 0);
        let flat = Access { offset: 4, ..access(Space::Flat, 4, 2) };
        b.append(Operation::Store(flat), &[yes, address, data], &[]);
        for word in load(b, flat, yes, address) {
            observe(b, 16, word);
        }
    });
    case.lds_bytes = 4096;
    all.push(case);
    all
}

/// Many accesses of unknown alignment, of words that depend on each other.
fn many_slow_paths() -> Case {
    let mut case = Case::new("many slow paths", registers(79), |b| {
        let mask = mask(b);
        let zero = b.word(0);
        let mut sums = [zero; 4];
        for odd in [0, 1, 2, 3, 4, 7, 8, 15] {
            for size in [4u8, 8, 12, 16] {
                let offset = lane_address(b, 64, odd);
                let address = in_memory(b, offset);
                for at in 0..2 {
                    let part = Access { offset: 16 * at, ..access(Space::Global, size, 0) };
                    for (sum, word) in sums.iter_mut().zip(load(b, part, mask, address)) {
                        *sum = b.binary(Binary::Add, *sum, word);
                    }
                }
                let part = Access { offset: 4096, ..access(Space::Global, size, 0) };
                let mut operands = vec![mask, address];
                operands.extend(&sums[..usize::from(size) / 4]);
                b.append(Operation::Store(part), &operands, &[]);
            }
        }
        for (at, sum) in sums.into_iter().enumerate() {
            observe(b, 16 + at as u16, sum);
        }
    });
    // The waves would write the same places.
    case.waves.truncate(1);
    case.memory = (0..8192u32).map(|at| (at * 37 + 11) as u8).collect();
    case.modes = vec![Mode::Pair, Mode::Lane];
    case
}

const ATOMICS: [Atomic; 21] = [
    Atomic::Swap,
    Atomic::CompareSwap,
    Atomic::Add,
    Atomic::Subtract,
    Atomic::ReverseSubtract,
    Atomic::MinimumSigned,
    Atomic::MinimumUnsigned,
    Atomic::MaximumSigned,
    Atomic::MaximumUnsigned,
    Atomic::And,
    Atomic::Or,
    Atomic::Xor,
    Atomic::Increment,
    Atomic::Decrement,
    Atomic::MaskedOr,
    Atomic::FloatAdd,
    Atomic::FloatMinimum,
    Atomic::FloatMaximum,
    Atomic::FloatCompareSwap,
    Atomic::HalfAdd,
    Atomic::Bf16Add,
];

fn atomics() -> Vec<Case> {
    let mut all = Vec::new();
    for atomic in ATOMICS {
        for bytes in [4u8, 8] {
            if bytes == 8 && matches!(atomic, Atomic::HalfAdd | Atomic::Bf16Add) {
                continue;
            }
            for space in [Space::Global, Space::Flat, Space::Lds] {
                for returns in [Returns::Nothing, Returns::Old] {
                    all.push(atomic_case(atomic, bytes, space, returns));
                }
            }
        }
    }
    all
}

/// Every lane has its own place, so that the order does not matter. Numbers are small, so that floats stay ordinary.
fn atomic_case(atomic: Atomic, bytes: u8, space: Space, returns: Returns) -> Case {
    let two = matches!(atomic, Atomic::CompareSwap | Atomic::FloatCompareSwap | Atomic::MaskedOr);
    let float = matches!(
        atomic,
        Atomic::FloatAdd | Atomic::FloatMinimum | Atomic::FloatMaximum | Atomic::FloatCompareSwap
    );
    let halves = matches!(atomic, Atomic::HalfAdd | Atomic::Bf16Add);
    let mut random = Random::new(atomic as u64 * 8 + u64::from(bytes));
    // Sums of halves are exact for these.
    let mut datum = |at: u64| -> u64 {
        let small = if random.chance(3) { at % 3 } else { random.below(200) };
        match (float, bytes) {
            (true, 4) => u64::from((small as f32 / 8.0 - 3.0).to_bits()),
            (true, _) => (small as f64 / 8.0 - 3.0).to_bits(),
            _ if halves && atomic == Atomic::HalfAdd => {
                Number::of(F32, u64::from((small as f32).to_bits())).bits(F16, NEAREST) * 0x0001_0001
            }
            _ if halves => u64::from((small as f32).to_bits() >> 16) * 0x0001_0001,
            _ => small,
        }
    };
    let start: Vec<u64> = (0..64).map(&mut datum).collect();
    let data: Vec<u64> = (0..64).map(&mut datum).collect();
    let other: Vec<u64> =
        (0..64).map(|lane| if lane % 2 == 0 { start[lane as usize] } else { datum(lane) }).collect();
    let words = |values: &[u64], shift: u32| values.iter().map(|value| (value >> shift) as u32).collect();
    let mut wave = registers(3)[0].clone();
    for (at, values) in [&data, &other, &start].into_iter().enumerate() {
        wave.push((Register::Vector(4 + 2 * at as u16), words(values, 0)));
        wave.push((Register::Vector(5 + 2 * at as u16), words(values, 32)));
    }
    let name = format!("{atomic:?} {bytes} {space:?} {returns:?}");
    let mut case = Case::new(name, vec![wave], |b| {
        let count = u16::from(bytes / 4);
        let (mask, yes) = (mask(b), b.bit(true));
        let offset = lane_address(b, 16, 0);
        let address = if space == Space::Lds { offset } else { in_memory(b, offset) };
        let access = access(space, bytes, 3);
        if space == Space::Lds {
            let mut store = vec![yes, address];
            store.extend((0..count).map(|part| vector(b, 8 + part)));
            b.append(Operation::Store(access), &store, &[]);
        }
        let mut operands = vec![mask, address];
        for first in [4, 6].into_iter().take(if two { 2 } else { 1 }) {
            operands.extend((0..count).map(|part| vector(b, first + part)));
        }
        let results = vec![(Kind::Word, Shape::Lane); if returns == Returns::Old { count.into() } else { 0 }];
        let old = b.append(Operation::Atomic(atomic, access, returns), &operands, &results);
        for (at, word) in old.into_iter().enumerate() {
            observe(b, 16 + at as u16, word);
        }
        if space == Space::Lds {
            for (at, word) in load(b, access, yes, address).into_iter().enumerate() {
                observe(b, 20 + at as u16, word);
            }
        }
    });
    case.lds_bytes = 1024;
    case.memory = start.iter().flat_map(|value| [*value, 0x55].map(u64::to_le_bytes)).flatten().collect();
    case
}

fn crossings() -> Vec<Case> {
    let mut all = Vec::new();
    let mut add = |name: String, build: &dyn Fn(&mut Builder<'_>)| {
        all.push(Case::new(name, registers(5), |b| build(b)));
    };
    add("Ballot and MaskOf".into(), &|b| {
        let mask = mask(b);
        let number = b.append(Operation::Ballot, &[mask], &[(Kind::Double, Shape::Uniform)])[0];
        observe(b, 16, number);
        let one = b.word(1);
        let (low, high) = (b.low(number), b.high(number));
        let low = b.binary(Binary::ShiftLeft, low, one);
        let moved = b.pack(low, high);
        let back = b.append(Operation::MaskOf, &[moved], &[(Kind::Bit, Shape::Lane)])[0];
        observe(b, 18, back);
        let any = b.append(Operation::AnyLane, &[mask], &[(Kind::Bit, Shape::Uniform)])[0];
        observe(b, 19, any);
    });
    add("ReadLane".into(), &|b| {
        let (word, index) = (vector(b, 0), b.input(Input::Register(Register::Scalar(4))));
        let fixed = b.word(45);
        for (at, index) in [index, fixed].into_iter().enumerate() {
            let read = b.append(Operation::ReadLane, &[word, index], &[(Kind::Word, Shape::Uniform)])[0];
            observe(b, 16 + at as u16, read);
        }
    });
    add("ReadFirstLane".into(), &|b| {
        let (word, mask, yes) = (vector(b, 0), mask(b), b.bit(true));
        for (at, mask) in [mask, yes].into_iter().enumerate() {
            let read = b.append(Operation::ReadFirstLane, &[word, mask], &[(Kind::Word, Shape::Uniform)])[0];
            observe(b, 16 + at as u16, read);
        }
    });
    add("Shuffle and Push".into(), &|b| {
        let (word, index, mask) = (vector(b, 0), vector(b, 1), mask(b));
        let read = b.append(Operation::Shuffle, &[word, index], &[(Kind::Word, Shape::Lane)])[0];
        observe(b, 16, read);
        let pushed = b.append(Operation::Push, &[word, index, mask], &[(Kind::Word, Shape::Lane)])[0];
        observe(b, 17, pushed);
    });
    add("values that both lanes of a thread share".into(), &|b| {
        let (lane, low, factor) = (b.input(Input::LaneNumber), b.word(15), b.word(0x0101_0107));
        let low = b.binary(Binary::And, lane, low);
        let word = b.binary(Binary::Multiply, low, factor);
        let (index, mask, yes) = (vector(b, 1), mask(b), b.bit(true));
        let scalar = b.input(Input::Register(Register::Scalar(4)));
        let crossings = [
            (Operation::Shuffle, vec![word, index], Shape::Lane),
            (Operation::Shuffle, vec![index, low], Shape::Lane),
            (Operation::Shuffle, vec![word, low], Shape::Lane),
            (Operation::Shuffle, vec![scalar, index], Shape::Lane),
            (Operation::Push, vec![word, index, mask], Shape::Lane),
            (Operation::Push, vec![index, low, mask], Shape::Lane),
            (Operation::ReadLane, vec![word, scalar], Shape::Uniform),
            (Operation::ReadFirstLane, vec![word, mask], Shape::Uniform),
            (Operation::ReadFirstLane, vec![word, yes], Shape::Uniform),
            (Operation::Move(Pattern::Dpp(0x111)), vec![word], Shape::Lane),
            (Operation::Move(Pattern::Dpp(0x142)), vec![word], Shape::Lane),
        ];
        for (at, (operation, operands, shape)) in crossings.into_iter().enumerate() {
            let value = b.append(operation, &operands, &[(Kind::Word, shape)])[0];
            observe(b, 16 + at as u16, value);
        }
        let equal = b.compare(Compare::LessUnsigned, low, factor);
        let seven = b.word(7);
        let some = b.compare(Compare::LessUnsigned, low, seven);
        for (at, mask) in [equal, some].into_iter().enumerate() {
            let number = b.append(Operation::Ballot, &[mask], &[(Kind::Double, Shape::Uniform)])[0];
            observe(b, 40 + 2 * at as u16, number);
        }
    });
    add("inputs".into(), &|b| {
        for (at, input) in [Input::LaneNumber, Input::LanesBelow].into_iter().enumerate() {
            let value = b.input(input);
            observe(b, 16 + 2 * at as u16, value);
        }
    });
    let controls: Vec<u16> = (0..0x100)
        .step_by(9)
        .chain(0x101..0x110)
        .chain(0x111..0x120)
        .chain(0x121..0x130)
        .chain([0x130, 0x134, 0x138, 0x13c, 0x140, 0x141, 0x142, 0x143])
        .chain(0x150..0x160)
        .collect();
    let swizzles: Vec<u16> = (0..0x8000).step_by(0x3a7).chain(0x8000..0x8100).step_by(17).collect();
    let rotations = (0xc000..0xc800u16).step_by(0x47);
    let patterns = controls
        .into_iter()
        .map(Pattern::Dpp)
        .chain(swizzles.into_iter().chain(rotations).map(Pattern::Swizzle));
    for patterns in patterns.collect::<Vec<_>>().chunks(16) {
        add(format!("{patterns:x?}"), &|b| {
            let word = vector(b, 0);
            for (at, pattern) in patterns.iter().enumerate() {
                let moved = b.append(Operation::Move(*pattern), &[word], &[(Kind::Word, Shape::Lane)])[0];
                observe(b, 16 + at as u16, moved);
            }
        });
    }
    let mut case = Case::new("append and consume", registers(5), |b| {
        let (mask, yes, address, start) = (mask(b), b.bit(true), b.word(8), b.word(100));
        let lds = access(Space::Lds, 4, 2);
        b.append(Operation::Store(Access { offset: 4, ..lds }), &[yes, address, start], &[]);
        for (at, consume) in [false, true, true].into_iter().enumerate() {
            let operation = Operation::AppendConsume { consume, offset: 4 };
            let old = b.append(operation, &[mask, address], &[(Kind::Word, Shape::Uniform)])[0];
            observe(b, 16 + at as u16, old);
        }
    });
    case.lds_bytes = 64;
    all.push(case);
    all
}

fn matrices() -> Vec<Case> {
    let mut all = Vec::new();
    let rows = ENCODINGS.iter().filter(|row| row.flags.has(Flags::MFMA));
    for row in rows {
        let (a, b, c) = (row.src[0], row.src[1], row.dst);
        let double = a.element_bits() == 64;
        for (cbsz, abid, blgp) in [(0, 0, 0), (1, 1, 0), (0, 0, 3), (0, 0, 5)] {
            let blocks = row.op.name().contains("32x32x1") || row.op.name().contains("4x4");
            if cbsz > 0 && (!blocks || double) {
                continue;
            }
            let mut random = Random::new(row.op as u64);
            let mut wave = Registers::new();
            let mut number = 0;
            for of in [a, b, c] {
                for at in 0..of.dwords() {
                    let word = |random: &mut Random| -> u32 {
                        let value = (random.below(65) as f32 - 32.0) / 8.0;
                        let narrow = |value: f32| {
                            Number::of(F32, u64::from(value.to_bits())).bits(F16, NEAREST) as u32
                        };
                        match (of.element(), of.element_bits()) {
                            (Element::Float, 64) if at % 2 == 0 => 0,
                            (Element::Float, 64) => (f64::from(value).to_bits() >> 32) as u32,
                            (Element::Float, 16) => narrow(value) | narrow(value / 3.0) << 16,
                            (Element::Brain, _) => {
                                value.to_bits() >> 16 | (value / 4.0).to_bits() & 0xffff_0000
                            }
                            (Element::Float | Element::Xf32, _) => value.to_bits(),
                            // The NaN would spread.
                            (Element::Fp8 | Element::Bf8, _) => {
                                (random.bits() as u32) & 0xbfbf_bfbf | 0x0404_0404
                            }
                            _ => random.bits() as u32,
                        }
                    };
                    wave.push((Register::Vector(number), (0..64).map(|_| word(&mut random)).collect()));
                    number += 1;
                }
            }
            let tensor = row.op.name().contains("16x16x16") && a.element_bits() == 16;
            for exact_matrix in [true, false] {
                if !exact_matrix && !tensor {
                    continue;
                }
                let name = format!("{} {cbsz} {abid} {blgp} exact {exact_matrix}", row.op.name());
                let mut case = Case::new(name, vec![wave.clone()], |builder| {
                    let operands: Vec<Value> = (0..number).map(|at| vector(builder, at)).collect();
                    let matrix = Matrix { op: row.op, cbsz, abid, blgp };
                    let results = vec![(Kind::Word, Shape::Lane); c.dwords() as usize];
                    let out = builder.append(Operation::Matrix(matrix), &operands, &results);
                    for (at, word) in out.into_iter().enumerate() {
                        observe(builder, 256 + at as u16, word);
                    }
                });
                case.exact_matrix = exact_matrix;
                if !exact_matrix {
                    case.tolerance = Tolerance::Relative(1e-4);
                }
                all.push(case);
            }
        }
    }
    all
}

fn control() -> Vec<Case> {
    let mut all = Vec::new();
    // Extension and scaling of an index.
    for signed in [false, true] {
        for amount in [2, 30] {
            all.push(Case::new(format!("index {signed} {amount}"), registers(8), |b| {
                let (index, last, amount) = (vector(b, 0), b.word(31), b.word(amount));
                let high = if signed { b.binary(Binary::ShiftRightSigned, index, last) } else { b.word(0) };
                let wide = b.pack(index, high);
                let scaled = b.binary(Binary::ShiftLeft, wide, amount);
                observe(b, 16, scaled);
            }));
        }
    }
    // Ten rounds of (x, y) = (y, x + y), with a branch on a mask inside.
    let mut case = Case::new("a loop with exchanged phis", registers(6), |_| {});
    let f = &mut case.function;
    let (head, body, skip, end) = (f.add_block(4), f.add_block(8), f.add_block(12), f.add_block(16));
    let entry = Block(0);
    let mut b = Builder { function: f, block: entry, address: 0 };
    let (x0, y0, zero, mask) = (vector(&mut b, 0), vector(&mut b, 1), b.word(0), mask(&mut b));
    b.function.blocks[0].terminator = Terminator::Jump(head);
    b.block = head;
    let lane = [(Kind::Word, Shape::Lane)];
    let x = b.append(Operation::Phi, &[x0, x0], &lane)[0];
    let y = b.append(Operation::Phi, &[y0, y0], &lane)[0];
    let round = b.append(Operation::Phi, &[zero, zero], &[(Kind::Word, Shape::Uniform)])[0];
    let any = b.append(Operation::AnyLane, &[mask], &[(Kind::Bit, Shape::Uniform)])[0];
    b.function.blocks[1].terminator = Terminator::Branch { condition: any, then: body, otherwise: skip };
    b.block = body;
    let sum = b.binary(Binary::Add, x, y);
    let chosen = b.select(mask, sum, x);
    b.function.blocks[2].terminator = Terminator::Jump(skip);
    b.block = skip;
    let next = b.append(Operation::Phi, &[x, chosen], &lane)[0];
    let (one, ten) = (b.word(1), b.word(10));
    let after = b.binary(Binary::Add, round, one);
    let more = b.compare(Compare::LessUnsigned, after, ten);
    b.function.blocks[3].terminator = Terminator::Branch { condition: more, then: head, otherwise: end };
    b.block = end;
    observe(&mut b, 16, x);
    observe(&mut b, 17, next);
    let f = &mut case.function;
    for (value, operand) in [(x, y), (y, next), (round, after)] {
        let index = f.values[value.0 as usize].instruction;
        f.instructions[index as usize].operands[1] = operand;
    }
    f.blocks[1].predecessors = vec![entry, skip];
    f.blocks[2].predecessors = vec![head];
    f.blocks[3].predecessors = vec![head, body];
    f.blocks[4].predecessors = vec![skip];
    case.modes = vec![Mode::Pair, Mode::Lane];
    all.push(case);
    all.push(leaving());
    for count in [1, 3, 4, 11] {
        all.push(switch(count));
    }
    all
}

/// A loop that each lane leaves after a number of rounds of its own, with the masks that compilers write.
fn leaving() -> Case {
    let mut case = Case::new("lanes that leave a loop one by one", registers(9), |_| {});
    let f = &mut case.function;
    let (head, end) = (f.add_block(4), f.add_block(8));
    let mut b = Builder { function: f, block: Block(0), address: 0 };
    let (x0, zero, exec, no) = (vector(&mut b, 0), b.word(0), mask(&mut b), b.bit(false));
    let (limit, bits) = (vector(&mut b, 1), b.word(63));
    let limit = b.binary(Binary::And, limit, bits);
    b.function.blocks[0].terminator = Terminator::Jump(head);
    b.block = head;
    let (word, bit) = ([(Kind::Word, Shape::Lane)], [(Kind::Bit, Shape::Lane)]);
    let active = b.append(Operation::Phi, &[exec, exec], &bit)[0];
    let left = b.append(Operation::Phi, &[no, no], &bit)[0];
    let x = b.append(Operation::Phi, &[x0, x0], &word)[0];
    let round = b.append(Operation::Phi, &[zero, zero], &[(Kind::Word, Shape::Uniform)])[0];
    let (factor, one) = (b.word(0x9e37_79b1), b.word(1));
    let product = b.binary(Binary::Multiply, x, factor);
    let sum = b.binary(Binary::Add, product, round);
    let next = b.select(active, sum, x);
    let after = b.binary(Binary::Add, round, one);
    let over = b.compare(Compare::LessUnsigned, limit, after);
    let leaves = b.and(active, over);
    let gone = b.or(leaves, left);
    let stays = b.not(gone);
    let rest = b.and(active, stays);
    let any = b.append(Operation::AnyLane, &[rest], &[(Kind::Bit, Shape::Uniform)])[0];
    b.function.blocks[1].terminator = Terminator::Branch { condition: any, then: head, otherwise: end };
    b.block = end;
    observe(&mut b, 16, next);
    observe(&mut b, 17, gone);
    let f = &mut case.function;
    for (value, operand) in [(active, rest), (left, gone), (x, next), (round, after)] {
        let index = f.values[value.0 as usize].instruction;
        f.instructions[index as usize].operands[1] = operand;
    }
    f.blocks[1].predecessors = vec![Block(0), head];
    f.blocks[2].predecessors = vec![head];
    case.modes = vec![Mode::Pair, Mode::Lane];
    case
}

/// A loop that goes to each of `count` blocks by address, as shared functions return, with phis at both ends.
fn switch(count: u32) -> Case {
    const ADDRESS: u64 = 0x2000_0000_1000;
    let mut case = Case::new(format!("a switch with {count} targets"), registers(6), |_| {});
    let f = &mut case.function;
    let (entry, head, join) = (Block(0), f.add_block(4), f.add_block(8));
    let targets: Vec<Block> = (0..count).map(|n| f.add_block(16 + 4 * u64::from(n))).collect();
    let end = f.add_block(12);
    let mut b = Builder { function: f, block: entry, address: 0 };
    let (x0, zero, first) = (vector(&mut b, 0), b.word(0), b.double(ADDRESS));
    b.function.blocks[entry.0 as usize].terminator = Terminator::Jump(head);
    b.block = head;
    let x = b.append(Operation::Phi, &[x0, x0], &[(Kind::Word, Shape::Lane)])[0];
    let round = b.append(Operation::Phi, &[zero, zero], &[(Kind::Word, Shape::Uniform)])[0];
    // Targets are visited in an order that is not theirs.
    let (five, count_word, stride) = (b.word(5), b.word(count), b.word(20));
    let mut which = b.binary(Binary::Multiply, round, five);
    for _ in 0..5 {
        let less = b.binary(Binary::Subtract, which, count_word);
        let fits = b.compare(Compare::LessUnsigned, which, count_word);
        which = b.select(fits, which, less);
    }
    let offset = b.binary(Binary::Multiply, which, stride);
    let offset = b.pack(offset, zero);
    let address = b.binary(Binary::Add, first, offset);
    let places = (0..).map(|n| ADDRESS + 20 * n).zip(targets.iter().copied());
    b.function.blocks[head.0 as usize].terminator = Terminator::Switch { address, targets: places.collect() };
    let mut values = Vec::new();
    for (n, target) in targets.iter().enumerate() {
        b.block = *target;
        let (factor, more) = (b.word(2 * n as u32 + 3), b.word(n as u32));
        let scaled = b.binary(Binary::Multiply, x, factor);
        values.push(b.binary(Binary::Add, scaled, more));
        b.function.blocks[target.0 as usize].terminator = Terminator::Jump(join);
        b.function.blocks[target.0 as usize].predecessors = vec![head];
    }
    b.block = join;
    let next = b.append(Operation::Phi, &values, &[(Kind::Word, Shape::Lane)])[0];
    let one = b.word(1);
    let after = b.binary(Binary::Add, round, one);
    let more = b.compare(Compare::LessUnsigned, after, count_word);
    b.function.blocks[join.0 as usize].terminator =
        Terminator::Branch { condition: more, then: head, otherwise: end };
    b.block = end;
    observe(&mut b, 16, next);
    for (value, operand) in [(x, next), (round, after)] {
        let index = f.values[value.0 as usize].instruction;
        f.instructions[index as usize].operands[1] = operand;
    }
    f.blocks[head.0 as usize].predecessors = vec![entry, join];
    f.blocks[join.0 as usize].predecessors = targets;
    f.blocks[end.0 as usize].predecessors = vec![join];
    case
}
