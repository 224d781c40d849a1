//! Creates the arguments of a case: inputs from a seed, outputs and scalars.

use crate::argument::{Argument, Prepared, Value};
use crate::case::Case;
use crate::dtype::Dtype;
use crate::expression::known;
use crate::maker::{Maker, Random};
use crate::parameter::{Direction, Fill, Parameter};
use crate::problem::Problem;
use std::collections::BTreeMap;

impl Problem {
    /// Creates the arguments of a case. The same seed gives the same bytes on every machine and in every version.
    pub fn prepare(&self, case: &Case, dtype: Dtype, seed: u64) -> Prepared {
        let mut made = BTreeMap::new();
        if let Some(make) = self.row.inputs {
            let mut maker = Maker::new(&self.slug, &self.parameters, case, dtype, seed);
            make(&mut maker);
            made = maker.finish();
        }
        let argument = |parameter: &Parameter| {
            let element = parameter.element.dtype(dtype);
            let shape = parameter.extents(case);
            let contents = |made: &mut BTreeMap<String, Vec<u8>>| {
                let count = shape.iter().product();
                let bytes = made.remove(&parameter.name).unwrap_or_else(|| {
                    fill(
                        &parameter.fill,
                        case,
                        element,
                        count,
                        &mut Random::new(&self.slug, case, seed, &parameter.name),
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

impl Problem {
    /// Returns the same case with other inputs, faster than [`Problem::prepare`]: rotates every input whose elements are independent of
    /// each other and of other inputs. Others stay as they are.
    pub fn vary(&self, prepared: &Prepared, seed: u64) -> Prepared {
        let mut varied = prepared.clone();
        for (parameter, argument) in self.parameters.iter().zip(&mut varied.arguments) {
            let (Value::Input { element, bytes, .. } | Value::InOut { element, bytes, .. }) =
                &mut argument.value
            else {
                continue;
            };
            let count = bytes.len() / element.size();
            if count < 2 || matches!(parameter.fill, Fill::Made) || self.row.inputs.is_some() {
                continue;
            }
            let mut random = Random::named(seed, &[&self.slug, &parameter.name]);
            let shift = random.integer(1, count as i64 - 1) as usize;
            bytes.rotate_left(shift * element.size());
        }
        varied
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
            random.fill(&mut bytes);
        }
        Fill::Made => panic!("the maker did not fill this input"),
    }
    bytes
}

#[cfg(test)]
mod tests {
    use crate::argument::Value;
    use crate::case::{Place, Set};
    use crate::dtype::Dtype;
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
    fn varied_inputs_have_the_same_elements_in_another_order() {
        let problem = find("vector-addition").unwrap();
        let case = problem.cases(Set::Check, Place::Emulated).last().unwrap();
        let prepared = problem.prepare(case, Dtype::Float32, 1);
        let varied = problem.vary(&prepared, 2);
        assert_eq!(varied, problem.vary(&prepared, 2));
        for (before, after) in prepared.arguments.iter().zip(&varied.arguments).take(2) {
            let words = |value: &Value| {
                let mut words: Vec<[u8; 4]> = value.bytes().unwrap().as_chunks().0.to_vec();
                words.sort_unstable();
                words
            };
            assert_ne!(before.value, after.value);
            assert_eq!(words(&before.value), words(&after.value));
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
