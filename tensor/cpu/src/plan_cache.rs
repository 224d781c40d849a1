//! The plan cache: programs repeat with every step of a training loop, and building a plan takes longer than running it once over
//! few elements.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use tensor_core::dtype::{DType, Scalar};
use tensor_core::program::{Code, Program};

use crate::level::Level;
use crate::plan::{Plan, Unsupported};

/// The most cached plans. When full, the whole cache is cleared.
const MOST: usize = 1024;

/// Everything that a plan depends on.
type Key = SmallVec<[u64; 24]>;

type Plans = FxHashMap<Key, Arc<Plan>>;

static CACHE: Mutex<Option<Plans>> = Mutex::new(None);

type Last = Option<(Key, Arc<Plan>)>;

thread_local! {
    /// The last lookup of this thread: loops repeat it.
    static LAST: RefCell<Last> = const { RefCell::new(None) };
}

/// Like [`Plan::new`], but cached.
pub fn plan(
    program: &Program,
    operands: &[DType],
    outputs: Option<&[DType]>,
    level: Level,
) -> Result<Arc<Plan>, Unsupported> {
    let key = key(program, operands, outputs, level);
    let same = |last: &Last| last.as_ref().filter(|(of, _)| *of == key).map(|(_, plan)| plan.clone());
    if let Some(plan) = LAST.with_borrow(same) {
        return Ok(plan);
    }
    let plan = shared(&key, program, operands, outputs, level)?;
    LAST.set(Some((key, plan.clone())));
    Ok(plan)
}

fn shared(
    key: &Key,
    program: &Program,
    operands: &[DType],
    outputs: Option<&[DType]>,
    level: Level,
) -> Result<Arc<Plan>, Unsupported> {
    let cache = || CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(plan) = cache().as_ref().and_then(|plans| plans.get(key)) {
        return Ok(plan.clone());
    }
    let plan = Arc::new(Plan::new(program, operands, outputs, level)?);
    let mut plans = cache();
    let plans = plans.get_or_insert_default();
    if plans.len() >= MOST {
        plans.clear();
    }
    plans.insert(key.clone(), plan.clone());
    Ok(plan)
}

fn key(program: &Program, operands: &[DType], outputs: Option<&[DType]>, level: Level) -> Key {
    let mut key = Key::new();
    let lengths = [program.instructions.len(), program.results.len(), operands.len()].map(|it| it as u64);
    let more = outputs.map_or(u64::MAX, |outputs| outputs.len() as u64);
    key.extend_from_slice(&[lengths[0], lengths[1], lengths[2], more, level as u64]);
    let word = |tag: u64, dtype: DType, of: [u16; 3]| {
        let [a, b, c] = of.map(u64::from);
        tag | (dtype as u64) << 8 | a << 16 | b << 32 | c << 48
    };
    for instruction in &program.instructions {
        let dtype = instruction.dtype;
        let next = match instruction.code {
            Code::Input(number) => word(0, dtype, [number, 0, 0]),
            Code::Index(axis) => word(1, dtype, [u16::from(axis), 0, 0]),
            Code::Cast(value) => word(2, dtype, [value, 0, 0]),
            Code::Unary(function, value) => word(3, dtype, [function as u16, value, 0]),
            Code::Binary(function, left, right) => word(4, dtype, [function as u16, left, right]),
            Code::Select(condition, yes, no) => word(5, dtype, [condition, yes, no]),
            Code::Constant(value) => {
                let (sort, bits) = match value {
                    Scalar::Bool(value) => (0, u64::from(value)),
                    Scalar::Int(value) => (1, value as u64),
                    Scalar::UInt(value) => (2, value),
                    Scalar::Float(value) => (3, value.to_bits()),
                    Scalar::Complex(real, imaginary) => {
                        key.push(real.to_bits());
                        (4, imaginary.to_bits())
                    }
                };
                key.push(bits);
                word(6, dtype, [sort, 0, 0])
            }
        };
        key.push(next);
    }
    // One by one: extending from an iterator of unknown length is slower for so few.
    for &value in &program.results {
        key.push(u64::from(value));
    }
    for &dtype in operands.iter().chain(outputs.unwrap_or_default()) {
        key.push(dtype as u64);
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensor_core::program::{Binary, Instruction};

    fn with(value: f64) -> Program {
        let dtype = DType::F32;
        let instructions =
            [Code::Input(0), Code::Constant(Scalar::Float(value)), Code::Binary(Binary::Mul, 0, 1)];
        Program {
            instructions: instructions.map(|code| Instruction { code, dtype }).to_vec(),
            results: vec![2],
        }
    }

    #[test]
    fn a_program_comes_back_with_its_plan_and_its_neighbour_does_not() {
        let plan =
            |program: &Program, of: DType| plan(program, &[of], Some(&[DType::F32]), Level::Plain).unwrap();
        let first = plan(&with(0.25), DType::F32);
        assert!(Arc::ptr_eq(&first, &plan(&with(0.25), DType::F32)));
        assert!(!Arc::ptr_eq(&first, &plan(&with(0.5), DType::F32)));
        assert!(!Arc::ptr_eq(&first, &plan(&with(0.25), DType::F64)));
        // Equal numbers with different bits.
        assert!(!Arc::ptr_eq(&plan(&with(0.0), DType::F32), &plan(&with(-0.0), DType::F32)));
    }
}
