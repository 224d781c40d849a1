//! Cases of a user's choice: sizes, scalars and the contents of inputs, within bounds that the reference can compute quickly.

use crate::argument::{Prepared, Value};
use crate::case::{Case, Set};
use crate::definition;
use crate::dtype::Dtype;
use crate::expression::known;
use crate::maker::{Maker, Random};
use crate::parameter::{Direction, Fill, Parameter};
use crate::problem::Problem;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// Most elements of all arguments of a custom case together.
pub const MOST_CUSTOM_ELEMENTS: usize = 1 << 16;
/// Most operations of a custom case, which the reference computes on one CPU.
const MOST_FLOPS: f64 = 2e8;
/// Largest size, unless a case of the problem has a larger one.
const MOST_SIZE: i64 = 4096;

/// A number that a user gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An integer, exactly.
    Integer(i128),
    /// Any other number.
    Real(f64),
}

/// How a user fills an input.
#[derive(Clone, Debug, PartialEq)]
pub enum CustomFill {
    /// With the problem's own random numbers.
    Problem,
    /// With one number.
    Constant(f64),
    /// With 0, 1, 2 and so on, within the bounds of the input.
    Ramp,
    /// With random numbers from `low` to `high`.
    Uniform {
        /// Least number.
        low: f64,
        /// Largest number.
        high: f64,
    },
    /// With these numbers.
    Values(Vec<Number>),
}

/// A user's choice. Sizes and values that are left out are those of the sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Custom {
    /// Sizes by name.
    pub sizes: BTreeMap<String, i64>,
    /// Scalars that are not integers, by name.
    pub values: BTreeMap<String, f64>,
    /// Fills by name of the input.
    pub inputs: BTreeMap<String, CustomFill>,
}

/// Why a choice cannot be run.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum CustomError {
    /// The problem has no sample, whose sizes are the default.
    #[error("{0} has no sample to start from")]
    NoSample(String),
    /// There is no size, value or input of this name.
    #[error("there is no {what} `{name}`; {slug} has {known}")]
    Unknown {
        /// What was expected.
        what: &'static str,
        /// The name.
        name: String,
        /// The problem.
        slug: String,
        /// The names that exist.
        known: String,
    },
    /// A size is too small or too large.
    #[error("the size {name} is {size}; it must be from {least} to {most}")]
    Size {
        /// Name of the size.
        name: String,
        /// The size.
        size: i64,
        /// Least allowed size.
        least: i64,
        /// Largest allowed size.
        most: i64,
    },
    /// A formula of the problem has no value for these sizes.
    #[error("these sizes do not fit the problem: {0}")]
    Sizes(String),
    /// There are too many elements.
    #[error("the arguments have {elements} elements together; at most {MOST_CUSTOM_ELEMENTS} are allowed")]
    Elements {
        /// Number of elements.
        elements: u128,
    },
    /// The reference would take too long.
    #[error("the case needs about {flops:.0} operations; at most {MOST_FLOPS:.0} are allowed")]
    Operations {
        /// Number of operations.
        flops: f64,
    },
    /// An input can only be made by the problem.
    #[error(
        "`{0}` is made by the problem, because its numbers depend on each other; leave it to the problem"
    )]
    Made(String),
    /// The number of values is wrong.
    #[error("`{name}` has {found} values; its shape {shape} needs {needed}")]
    Count {
        /// Name of the input.
        name: String,
        /// Number of values given.
        found: usize,
        /// Extents of the input.
        shape: String,
        /// Number of elements.
        needed: usize,
    },
    /// A value is not possible.
    #[error("`{name}`: {value} is not possible; {allowed}")]
    Value {
        /// Name of the input.
        name: String,
        /// The value.
        value: String,
        /// What is possible.
        allowed: String,
    },
}

/// A case of a user's choice, validated.
#[derive(Clone, Debug)]
pub struct CustomCase {
    /// The case.
    pub case: Case,
    dtype: Dtype,
    inputs: BTreeMap<String, CustomFill>,
}

/// Least and largest number of an input.
#[derive(Clone, Copy)]
struct Bounds {
    low: i128,
    high: i128,
}

impl Problem {
    /// Returns the sizes that a case chooses, without derived ones.
    pub fn free_sizes(&self, case: &Case) -> BTreeMap<String, i64> {
        let is_free = |name: &str| self.derived.iter().all(|(derived, _)| derived != name);
        case.sizes
            .iter()
            .filter(|(name, _)| is_free(name))
            .map(|(name, size)| (name.clone(), *size))
            .collect()
    }

    /// Returns the inputs that only the problem can fill, because their numbers depend on each other.
    pub fn made_inputs(&self) -> BTreeSet<String> {
        let fixed = self.parameters.iter().filter(|parameter| matches!(parameter.fill, Fill::Made));
        let mut names: BTreeSet<String> = fixed.map(|parameter| parameter.name.clone()).collect();
        if let (Some(make), Some(case)) = (self.row.inputs, self.cases.first()) {
            let dtype = self.dtypes.first().copied().unwrap_or(Dtype::Float32);
            let mut maker = Maker::new(&self.slug, &self.parameters, case, dtype, 0);
            make(&mut maker);
            names.extend(maker.finish().into_keys());
        }
        names
    }

    /// Validates a user's choice. Nothing of it is computed yet.
    pub fn custom(&self, dtype: Dtype, custom: &Custom) -> Result<CustomCase, CustomError> {
        let sample = self.cases.iter().find(|case| case.set == Set::Sample);
        let sample = sample.ok_or_else(|| CustomError::NoSample(self.slug.clone()))?;
        let mut sizes = self.free_sizes(sample);
        let mut values = sample.values.clone();
        for (name, size) in &custom.sizes {
            let place = match sizes.get_mut(name) {
                Some(place) => place,
                None => return Err(self.unknown("size", name, sizes.keys())),
            };
            let all = self.cases.iter().filter_map(|case| case.sizes.get(name).copied());
            let (least, most) = all.fold((1, MOST_SIZE), |(low, high), own| (own.min(low), own.max(high)));
            if !(least..=most).contains(size) {
                return Err(CustomError::Size { name: name.clone(), size: *size, least, most });
            }
            *place = *size;
        }
        for (name, value) in &custom.values {
            let place = match values.get_mut(name) {
                Some(place) => place,
                None => return Err(self.unknown("value", name, values.keys())),
            };
            if !value.is_finite() {
                return Err(wrong_value(name, value, "it must be a finite number"));
            }
            *place = *value;
        }
        let case = definition::custom_case(self, sizes, values)
            .map_err(|mistake| CustomError::Sizes(mistake.to_string()))?;
        let elements: u128 = self
            .parameters
            .iter()
            .filter(|parameter| parameter.direction != Direction::Scalar)
            .map(|parameter| parameter.extents(&case).iter().map(|extent| *extent as u128).product::<u128>())
            .sum();
        if elements > MOST_CUSTOM_ELEMENTS as u128 {
            return Err(CustomError::Elements { elements });
        }
        if let Some(flops) = self.flops(&case).filter(|flops| *flops > MOST_FLOPS) {
            return Err(CustomError::Operations { flops });
        }
        self.check_inputs(dtype, &case, &custom.inputs)?;
        Ok(CustomCase { case, dtype, inputs: custom.inputs.clone() })
    }

    fn unknown<'n>(
        &self,
        what: &'static str,
        name: &str,
        known: impl Iterator<Item = &'n String>,
    ) -> CustomError {
        let known: Vec<&str> = known.map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        CustomError::Unknown { what, name: shortened(name), slug: self.slug.clone(), known }
    }

    fn check_inputs(
        &self,
        dtype: Dtype,
        case: &Case,
        inputs: &BTreeMap<String, CustomFill>,
    ) -> Result<(), CustomError> {
        let is_input =
            |parameter: &&Parameter| matches!(parameter.direction, Direction::In | Direction::InOut);
        let made = self.made_inputs();
        for (name, fill) in inputs {
            let parameter = self.parameters.iter().filter(is_input).find(|parameter| parameter.name == *name);
            let Some(parameter) = parameter else {
                let known = self.parameters.iter().filter(is_input).map(|parameter| &parameter.name);
                return Err(self.unknown("input", name, known));
            };
            if *fill == CustomFill::Problem {
                continue;
            }
            if made.contains(name) {
                return Err(CustomError::Made(name.clone()));
            }
            let shape = parameter.extents(case);
            let needed: usize = shape.iter().product();
            let limits = limits(parameter, case, dtype);
            match fill {
                CustomFill::Problem | CustomFill::Ramp => {}
                CustomFill::Constant(value) => limits.check(name, Number::Real(*value))?,
                CustomFill::Uniform { low, high } => {
                    limits.check(name, Number::Real(*low))?;
                    limits.check(name, Number::Real(*high))?;
                    if low > high {
                        let text = format!("{low} to {high}");
                        return Err(wrong_value(name, &text, "the first number must not be the larger one"));
                    }
                }
                CustomFill::Values(values) => {
                    if values.len() != needed {
                        let extents: Vec<String> = shape.iter().map(usize::to_string).collect();
                        let (name, shape) = (name.clone(), extents.join(" x "));
                        return Err(CustomError::Count { name, found: values.len(), shape, needed });
                    }
                    values.iter().try_for_each(|value| limits.check(name, *value))?;
                }
            }
        }
        Ok(())
    }

    /// Creates the arguments of a custom case. Sizes that the statement excludes may make it panic.
    pub fn prepare_custom(&self, custom: &CustomCase, seed: u64) -> Prepared {
        let CustomCase { case, dtype, inputs } = custom;
        let mut prepared = self.prepare(case, *dtype, seed);
        for (parameter, argument) in self.parameters.iter().zip(&mut prepared.arguments) {
            let Some(fill) = inputs.get(&parameter.name) else { continue };
            let (Value::Input { element, bytes, .. } | Value::InOut { element, bytes, .. }) =
                &mut argument.value
            else {
                continue;
            };
            let count = bytes.len() / element.size();
            let bounds = limits(parameter, case, *dtype).bounds;
            let mut random = Random::named(seed, &[&self.slug, &parameter.name, "custom"]);
            if let Some(numbers) = numbers(fill, bounds, count, &mut random) {
                bytes.clear();
                numbers.into_iter().for_each(|number| match number {
                    Number::Integer(value) => element.encode_integer(value, bytes),
                    Number::Real(value) => element.encode(value, bytes),
                });
            }
        }
        prepared
    }
}

/// Returns the numbers of a fill; `None` for the problem's own.
fn numbers(
    fill: &CustomFill,
    bounds: Option<Bounds>,
    count: usize,
    random: &mut Random,
) -> Option<Vec<Number>> {
    let each = |number: &mut dyn FnMut(usize) -> Number| Some((0..count).map(number).collect());
    match (fill, bounds) {
        (CustomFill::Problem, _) => None,
        (CustomFill::Values(values), _) => Some(values.clone()),
        (CustomFill::Constant(value), _) => each(&mut |_| Number::Real(*value)),
        (CustomFill::Ramp, None) => each(&mut |index| Number::Real(index as f64)),
        (CustomFill::Ramp, Some(Bounds { low, high })) => {
            let start = 0_i128.clamp(low, high);
            each(&mut |index| Number::Integer(start + index as i128 % (high - start + 1)))
        }
        (CustomFill::Uniform { low, high }, None) => each(&mut |_| Number::Real(random.uniform(*low, *high))),
        (CustomFill::Uniform { low, high }, Some(_)) => {
            // Both are integers, because they were checked.
            each(&mut |_| Number::Integer(random.integer(*low as i64, *high as i64).into()))
        }
    }
}

/// What the elements of an input may be.
struct Limits {
    element: Dtype,
    /// For integers.
    bounds: Option<Bounds>,
}

fn limits(parameter: &Parameter, case: &Case, dtype: Dtype) -> Limits {
    let element = parameter.element.dtype(dtype);
    if element.is_float() {
        return Limits { element, bounds: None };
    }
    let bounds = match &parameter.fill {
        Fill::Integers { low, high } => {
            let bound = |bound: &crate::expression::Expression| known(bound.integer(&case.sizes)).into();
            Bounds { low: bound(low), high: bound(high) }
        }
        _ => whole(element),
    };
    Limits { element, bounds: Some(bounds) }
}

/// Returns the range of an integer type.
fn whole(element: Dtype) -> Bounds {
    let (low, high) = match element {
        Dtype::Int8 => (i8::MIN.into(), i8::MAX.into()),
        Dtype::Uint8 => (0, u8::MAX.into()),
        Dtype::Int32 => (i32::MIN.into(), i32::MAX.into()),
        Dtype::Uint32 => (0, u32::MAX.into()),
        Dtype::Uint64 => (0, u64::MAX.into()),
        _ => (i64::MIN.into(), i64::MAX.into()),
    };
    Bounds { low, high }
}

impl Limits {
    fn check(&self, name: &str, number: Number) -> Result<(), CustomError> {
        let text = match number {
            Number::Integer(value) => value.to_string(),
            Number::Real(value) => value.to_string(),
        };
        let Some(Bounds { low, high }) = self.bounds else {
            let value = match number {
                Number::Integer(value) => value as f64,
                Number::Real(value) => value,
            };
            let mut bytes = Vec::new();
            self.element.encode(value, &mut bytes);
            // A number beyond the range of the type becomes infinite.
            let fits = self.element.decode(&bytes).first().is_some_and(|value| value.is_finite());
            let allowed = format!("it must be a finite {}", self.element);
            return if fits { Ok(()) } else { Err(wrong_value(name, &text, &allowed)) };
        };
        let value = match number {
            Number::Integer(value) => Some(value),
            Number::Real(value) => {
                (value.fract() == 0.0 && value.abs() < 2f64.powi(64)).then_some(value as i128)
            }
        };
        if value.is_some_and(|value| (low..=high).contains(&value)) {
            return Ok(());
        }
        Err(wrong_value(name, &text, &format!("it must be an integer from {low} to {high}")))
    }
}

fn wrong_value(name: &str, value: &impl ToString, allowed: &str) -> CustomError {
    CustomError::Value {
        name: shortened(name),
        value: shortened(&value.to_string()),
        allowed: allowed.to_owned(),
    }
}

/// Cuts a text that came from outside.
fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::{all, find};

    fn chosen(sizes: &[(&str, i64)], inputs: &[(&str, CustomFill)]) -> Custom {
        Custom {
            sizes: sizes.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect(),
            values: BTreeMap::new(),
            inputs: inputs.iter().map(|(name, fill)| ((*name).to_owned(), fill.clone())).collect(),
        }
    }

    fn refused(slug: &str, dtype: Dtype, custom: &Custom) -> String {
        find(slug).unwrap().custom(dtype, custom).unwrap_err().to_string()
    }

    #[test]
    fn the_sample_of_every_problem_can_be_chosen_and_computed() {
        for problem in all() {
            let dtype = problem.dtypes[0];
            let custom = problem.custom(dtype, &Custom::default()).unwrap();
            let prepared = problem.prepare_custom(&custom, 7);
            let expected = problem.expected(&custom.case, dtype, &prepared);
            assert_eq!(expected.len(), problem.outputs().count(), "{}", problem.slug);
        }
    }

    #[test]
    fn given_values_are_the_input() {
        let problem = find("vector-addition").unwrap();
        let values = [1.5, -2.0, 3.0].map(Number::Real).to_vec();
        let fills = [("input1", CustomFill::Values(values)), ("input2", CustomFill::Ramp)];
        let custom = problem.custom(Dtype::Float32, &chosen(&[("n", 3)], &fills)).unwrap();
        let prepared = problem.prepare_custom(&custom, 0);
        let expected = problem.expected(&custom.case, Dtype::Float32, &prepared);
        assert_eq!(expected[0].values, crate::Values::Floats(vec![1.5, -1.0, 5.0]));
    }

    #[test]
    fn generators_stay_within_the_bounds_of_an_input() {
        let problem = find("embedding-lookup").unwrap();
        let indices =
            problem.parameters.iter().find(|parameter| matches!(parameter.fill, Fill::Integers { .. }));
        let name = indices.unwrap().name.clone();
        for fill in [CustomFill::Ramp, CustomFill::Constant(0.0), CustomFill::Uniform { low: 0.0, high: 1.0 }]
        {
            let custom = problem.custom(problem.dtypes[0], &chosen(&[], &[(&name, fill)])).unwrap();
            let prepared = problem.prepare_custom(&custom, 3);
            // An index out of range would panic.
            problem.expected(&custom.case, problem.dtypes[0], &prepared);
        }
        let text = refused(
            "embedding-lookup",
            problem.dtypes[0],
            &chosen(&[], &[(&name, CustomFill::Constant(1e6))]),
        );
        assert!(text.contains("must be an integer from 0 to"), "{text}");
    }

    #[test]
    fn wrong_choices_are_refused_with_the_reason() {
        let f32 = Dtype::Float32;
        let few = CustomFill::Values(vec![Number::Real(1.0)]);
        let large = CustomFill::Constant(1e300);
        for (custom, part) in [
            (chosen(&[("x", 1)], &[]), "there is no size `x`; vector-addition has n"),
            (chosen(&[("n", 0)], &[]), "the size n is 0; it must be from 1"),
            (chosen(&[("n", i64::MAX)], &[]), "it must be from 1"),
            (chosen(&[("n", 65536)], &[]), "at most 65536 are allowed"),
            (chosen(&[("n", 3)], &[("input1", few)]), "`input1` has 1 values; its shape 3 needs 3"),
            (chosen(&[("n", 3)], &[("input1", large)]), "it must be a finite float32"),
            (chosen(&[], &[("output", CustomFill::Ramp)]), "there is no input `output`"),
            (
                chosen(&[], &[("input1", CustomFill::Uniform { low: 2.0, high: 1.0 })]),
                "must not be the larger",
            ),
        ] {
            let text = refused("vector-addition", f32, &custom);
            assert!(text.contains(part), "{text}");
        }
        let values = Custom { values: [("alpha".to_owned(), f64::NAN)].into(), ..Custom::default() };
        assert!(refused("leaky-relu", f32, &values).contains("finite"));
        let half = chosen(&[], &[("a", CustomFill::Constant(0.5))]);
        let text = refused("int8-matmul", find("int8-matmul").unwrap().dtypes[0], &half);
        assert!(text.contains("it must be an integer from -128 to 127"), "{text}");
        let made = refused("merge-sorted", Dtype::Float32, &chosen(&[], &[("a", CustomFill::Ramp)]));
        assert!(made.contains("made by the problem"), "{made}");
        let large = refused("matrix-multiplication", f32, &chosen(&[("m", 4096), ("n", 4), ("k", 64)], &[]));
        assert!(large.contains("elements together"), "{large}");
        let slow = refused("matrix-power", f32, &chosen(&[("size", 64), ("n", 4096)], &[]));
        assert!(slow.contains("operations"), "{slow}");
    }
}
