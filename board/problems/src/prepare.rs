//! Arguments of a case: inputs generated from a seed, outputs and scalars.

use crate::case::Case;
use crate::dtype::Dtype;
use crate::parameter::{Direction, Fill, Parameter};
use crate::problem::{Problem, extents, known};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use std::collections::BTreeMap;

/// The contents of an argument.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Input { element: Dtype, shape: Vec<usize>, bytes: Vec<u8> },
    Output { element: Dtype, shape: Vec<usize> },
    InOut { element: Dtype, shape: Vec<usize>, bytes: Vec<u8> },
    Scalar { element: Dtype, bytes: Vec<u8> },
}

impl Value {
    pub fn element(&self) -> Dtype {
        match self {
            Self::Input { element, .. }
            | Self::Output { element, .. }
            | Self::InOut { element, .. }
            | Self::Scalar { element, .. } => *element,
        }
    }

    pub fn shape(&self) -> &[usize] {
        match self {
            Self::Input { shape, .. } | Self::Output { shape, .. } | Self::InOut { shape, .. } => shape,
            Self::Scalar { .. } => &[],
        }
    }

    /// Returns the size of the buffer or the scalar in bytes.
    pub fn size(&self) -> usize {
        self.shape().iter().product::<usize>() * self.element().size()
    }

    /// Returns the contents before the call; `None` for outputs.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Input { bytes, .. } | Self::InOut { bytes, .. } | Self::Scalar { bytes, .. } => Some(bytes),
            Self::Output { .. } => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    pub name: String,
    pub value: Value,
}

/// The arguments of one call, in the order of the signature.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    pub arguments: Vec<Argument>,
    /// Floating-point operations of the case.
    pub flops: Option<f64>,
    /// Least memory traffic of the case, in bytes.
    pub bytes: f64,
}

impl Prepared {
    pub fn argument(&self, name: &str) -> Option<&Argument> {
        self.arguments.iter().find(|argument| argument.name == name)
    }
}

impl Problem {
    /// Creates the arguments of a case. The same seed gives the same bytes on every machine and in every version.
    pub fn prepare(&self, case: &Case, dtype: Dtype, seed: u64) -> Prepared {
        let mut made = BTreeMap::new();
        if let Some(make) = self.row.inputs {
            let mut maker = Maker { problem: self, case, dtype, seed, made: BTreeMap::new() };
            make(&mut maker);
            made = maker.made;
        }
        let argument = |parameter: &Parameter| {
            let element = parameter.element.dtype(dtype);
            let shape = extents(parameter, case);
            let contents = |made: &mut BTreeMap<String, Vec<u8>>| {
                let count = shape.iter().product();
                let bytes = made.remove(&parameter.name).unwrap_or_else(|| {
                    fill(
                        &parameter.fill,
                        case,
                        element,
                        count,
                        &mut Random::new(self, case, seed, &parameter.name),
                    )
                });
                assert_eq!(bytes.len(), count * element.size(), "{}: {}", self.slug, parameter.name);
                bytes
            };
            let value = match parameter.direction {
                Direction::Out => Value::Output { element, shape },
                Direction::In => Value::Input { element, bytes: contents(&mut made), shape },
                Direction::InOut => Value::InOut { element, bytes: contents(&mut made), shape },
                Direction::Scalar => Value::Scalar { element, bytes: scalar(parameter, case, element) },
            };
            Argument { name: parameter.name.clone(), value }
        };
        Prepared {
            arguments: self.parameters.iter().map(argument).collect(),
            flops: self.flops(case),
            bytes: self.bytes(case, dtype),
        }
    }
}

fn scalar(parameter: &Parameter, case: &Case, element: Dtype) -> Vec<u8> {
    let mut bytes = Vec::new();
    match (case.values.get(&parameter.name), &parameter.value) {
        (Some(value), _) => element.encode(*value, &mut bytes),
        (None, Some(value)) if element.is_float() => {
            element.encode(known(value.real(&case.sizes)), &mut bytes)
        }
        (None, Some(value)) => element.encode_integer(known(value.integer(&case.sizes)).into(), &mut bytes),
        (None, None) => element.encode_integer(case.size(&parameter.name).into(), &mut bytes),
    }
    bytes
}

fn fill(fill: &Fill, case: &Case, element: Dtype, count: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(count * element.size());
    match fill {
        // For an integer type, integers with about as many digits.
        Fill::Uniform { low, high } if !element.is_float() => {
            let (low, high) = ((low * 1000.0) as i64, (high * 1000.0) as i64);
            (0..count).for_each(|_| element.encode_integer(random.integer(low, high).into(), &mut bytes));
        }
        Fill::Uniform { low, high } => {
            (0..count).for_each(|_| element.encode(random.uniform(*low, *high), &mut bytes));
        }
        Fill::Integers { low, high } => {
            let (low, high) = (known(low.integer(&case.sizes)), known(high.integer(&case.sizes)));
            (0..count).for_each(|_| element.encode_integer(random.integer(low, high).into(), &mut bytes));
        }
        Fill::Bits => {
            bytes.resize(count * element.size(), 0);
            random.0.fill_bytes(&mut bytes);
        }
        Fill::Made => panic!("the maker did not fill this input"),
    }
    bytes
}

/// Random numbers of one input: a separate stream for every seed, problem, case and name.
pub(crate) struct Random(ChaCha8Rng);

impl Random {
    fn new(problem: &Problem, case: &Case, seed: u64, name: &str) -> Self {
        let mut key = [0; 32];
        let parts = [seed, hash(&problem.slug), hash(&case.name), hash(name)];
        for (place, part) in key.chunks_exact_mut(8).zip(parts) {
            place.copy_from_slice(&part.to_le_bytes());
        }
        Self(ChaCha8Rng::from_seed(key))
    }

    /// Returns a number from `[low, high)`, with all 53 bits random.
    pub(crate) fn uniform(&mut self, low: f64, high: f64) -> f64 {
        let unit = (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        low + (high - low) * unit
    }

    /// Returns an integer from `low` to `high`, inclusive.
    pub(crate) fn integer(&mut self, low: i64, high: i64) -> i64 {
        let span = u128::from(high.abs_diff(low)) + 1;
        let offset = (u128::from(self.0.next_u64()) * span) >> 64;
        (i128::from(low) + offset as i128) as i64
    }

    /// Returns a random permutation of `0..count`.
    pub(crate) fn permutation(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            order.swap(last, self.integer(0, last as i64) as usize);
        }
        order
    }
}

/// FNV-1a hash, used only to separate the streams.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Generates inputs whose numbers depend on each other.
pub(crate) struct Maker<'a> {
    problem: &'a Problem,
    case: &'a Case,
    dtype: Dtype,
    seed: u64,
    made: BTreeMap<String, Vec<u8>>,
}

impl Maker<'_> {
    pub(crate) fn size(&self, name: &str) -> usize {
        usize::try_from(self.case.size(name)).unwrap_or(0)
    }

    pub(crate) fn random(&self, name: &str) -> Random {
        Random::new(self.problem, self.case, self.seed, name)
    }

    pub(crate) fn floats(&mut self, name: &str, values: impl IntoIterator<Item = f64>) {
        let element = self.element(name);
        let mut bytes = Vec::new();
        values.into_iter().for_each(|value| element.encode(value, &mut bytes));
        self.made.insert(name.to_owned(), bytes);
    }

    pub(crate) fn integers(&mut self, name: &str, values: impl IntoIterator<Item = i64>) {
        let element = self.element(name);
        let mut bytes = Vec::new();
        values.into_iter().for_each(|value| element.encode_integer(value.into(), &mut bytes));
        self.made.insert(name.to_owned(), bytes);
    }

    fn element(&self, name: &str) -> Dtype {
        let parameter = self.problem.parameter(name);
        parameter.unwrap_or_else(|| panic!("no parameter {name}")).element.dtype(self.dtype)
    }
}

#[cfg(test)]
mod tests {
    use crate::case::{Place, Set};
    use crate::dtype::Dtype;
    use crate::prepare::Value;
    use crate::set::{all, find};

    #[test]
    fn the_same_seed_gives_the_same_bytes_and_another_gives_others() {
        for problem in all() {
            for case in problem.cases(Set::Check, Place::Emulated) {
                let prepare = |seed| problem.prepare(case, problem.dtypes[0], seed);
                assert_eq!(prepare(1), prepare(1), "{}", problem.slug);
                let large = prepare(1).arguments.iter().any(|argument| match &argument.value {
                    Value::Input { bytes, .. } | Value::InOut { bytes, .. } => bytes.len() >= 64,
                    _ => false,
                });
                assert!(!large || prepare(1) != prepare(2), "{}: {}", problem.slug, case.name);
            }
        }
    }

    #[test]
    fn arguments_follow_the_signature() {
        for problem in all() {
            for case in problem.cases(Set::Check, Place::Emulated) {
                for dtype in &problem.dtypes {
                    let prepared = problem.prepare(case, *dtype, 3);
                    let names = prepared.arguments.iter().map(|argument| &argument.name);
                    assert!(names.eq(problem.parameters.iter().map(|parameter| &parameter.name)));
                    for argument in &prepared.arguments {
                        let bytes = argument.value.bytes();
                        assert!(bytes.is_none_or(|bytes| bytes.len() == argument.value.size()));
                    }
                    assert!(prepared.bytes > 0.0);
                }
            }
        }
    }

    #[test]
    fn the_first_random_numbers_are_pinned() {
        let problem = find("vector-addition").unwrap();
        let case = problem.cases(Set::Sample, Place::Real).next().unwrap();
        let prepared = problem.prepare(case, Dtype::Float32, 42);
        let first: Vec<f64> = Dtype::Float32.decode(prepared.arguments[0].value.bytes().unwrap());
        assert_eq!(first[..2], [0.15231004357337952, -0.6371524333953857]);
    }
}
