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
        self.arguments(case, dtype, |parameter, element, count| {
            let bytes = made.remove(&parameter.name).unwrap_or_else(|| {
                let mut random = Random::new(&self.slug, case, seed, &parameter.name);
                fill(&parameter.fill, case, element, count, &mut random)
            });
            assert_eq!(bytes.len(), count * element.size(), "{}: {}", self.slug, parameter.name);
            bytes
        })
    }

    /// Creates the arguments of a case, but leaves inputs without contents: a device generates them.
    pub fn outline(&self, case: &Case, dtype: Dtype) -> Prepared {
        self.arguments(case, dtype, |_, _, _| Vec::new())
    }

    /// Creates the arguments of a case. `contents` returns those of an input, from its element type and the number of elements.
    fn arguments(
        &self,
        case: &Case,
        dtype: Dtype,
        mut contents: impl FnMut(&Parameter, Dtype, usize) -> Vec<u8>,
    ) -> Prepared {
        let argument = |parameter: &Parameter| {
            let element = parameter.element.dtype(dtype);
            let shape = parameter.extents(case);
            let count = shape.iter().product();
            let value = match parameter.direction {
                Direction::Out => Value::Output { element, shape },
                Direction::In => Value::Input { element, bytes: contents(parameter, element, count), shape },
                Direction::InOut => {
                    Value::InOut { element, bytes: contents(parameter, element, count), shape }
                }
                Direction::Scalar => Value::Scalar { element, bytes: scalar(parameter, case, element) },
            };
            Argument { name: parameter.name.clone(), device: parameter.device, value }
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
    match fill {
        // For an integer type, integers with about as many digits.
        Fill::Uniform { low, high } if !element.is_float() => {
            let (low, high) = ((low * 1000.0) as i64, (high * 1000.0) as i64);
            random.elements(element, count, 1, |_, random, bytes| {
                element.encode_integer(random.integer(low, high).into(), bytes);
            })
        }
        Fill::Uniform { low, high } => random.elements(element, count, 1, |_, random, bytes| {
            element.encode(random.uniform(*low, *high), bytes);
        }),
        Fill::Integers { low, high } => {
            let (low, high) = (known(low.integer(&case.sizes)), known(high.integer(&case.sizes)));
            random.elements(element, count, 1, |_, random, bytes| {
                element.encode_integer(random.integer(low, high).into(), bytes);
            })
        }
        Fill::Bits => {
            let mut bytes = vec![0; count * element.size()];
            random.fill(&mut bytes);
            bytes
        }
        Fill::Made => panic!("the maker did not fill this input"),
    }
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
