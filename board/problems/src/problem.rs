//! A problem: statement, parameters, cases, tolerances and reference.

use crate::argument::Prepared;
use crate::case::{Case, Place, Set};
use crate::compare::{self, Comparison, Expected, Tolerance};
use crate::dtype::Dtype;
use crate::expression::{Expression, known};
use crate::launch::{Formula, Launch, LaunchError};
use crate::parameter::{Direction, Parameter};
use crate::reference::row::{Call, Row};
use crate::values::Values;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Difficulty of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Difficulty {
    /// A first exercise.
    Easy,
    /// Needs some thought.
    Medium,
    /// Needs more than one idea.
    Hard,
}

impl Difficulty {
    /// Returns the name in definitions and requests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Easy => "easy",
            Self::Medium => "medium",
            Self::Hard => "hard",
        }
    }
}

impl fmt::Display for Difficulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A problem of the set.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Name in addresses, unique.
    pub slug: String,
    /// Title.
    pub title: String,
    /// Difficulty.
    pub difficulty: Difficulty,
    /// Tags.
    pub tags: Vec<String>,
    /// Alternative slugs.
    pub aliases: Vec<String>,
    /// Markdown, with formulas between dollar signs.
    pub statement: String,
    /// Parameters of a solution, in order.
    pub parameters: Vec<Parameter>,
    /// Supported element types; the first is the default.
    pub dtypes: Vec<Dtype>,
    /// All cases, small ones first.
    pub cases: Vec<Case>,
    /// Whether every element must be exactly equal.
    pub exact: bool,
    /// Number of GPUs. With more than one, the solution is a host function: a kernel runs on one GPU.
    pub devices: u32,
    /// The default launch of the kernel shape.
    pub launch: Formula,
    /// Floating-point operations of a case; `None` where the count would be meaningless.
    pub flops: Option<Expression>,
    /// Least memory traffic in bytes, over the sizes and `T`, the size of an element. By default every buffer counts once.
    pub bytes: Option<Expression>,
    /// Factor of the absolute tolerance, because errors of long sums grow with their length.
    pub scale: Option<Expression>,
    /// Sizes derived from the others of a case.
    pub derived: Vec<(String, Expression)>,
    pub(crate) tolerances: BTreeMap<Dtype, Tolerance>,
    pub(crate) row: &'static Row,
}

impl Problem {
    /// Returns the cases of a set in the order they run, small ones first.
    pub fn cases(&self, set: Set, place: Place) -> impl Iterator<Item = &Case> {
        self.cases.iter().filter(move |case| case.is_for(set, place))
    }

    /// Finds a parameter by name.
    pub fn parameter(&self, name: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|parameter| parameter.name == name)
    }

    /// Returns the parameters that a solution writes.
    pub fn outputs(&self) -> impl Iterator<Item = &Parameter> {
        self.parameters
            .iter()
            .filter(|parameter| matches!(parameter.direction, Direction::Out | Direction::InOut))
    }

    /// Returns the tolerance of an element, before [`Self::scale`], which depends on the case.
    pub fn tolerance(&self, dtype: Dtype) -> Tolerance {
        match self.tolerances.get(&dtype) {
            _ if self.exact => Tolerance { rtol: 0.0, atol: 0.0 },
            Some(tolerance) => *tolerance,
            None => Tolerance::usual(dtype),
        }
    }

    /// Returns the tolerance for one case: like [`Self::tolerance`], but with [`Self::scale`] applied.
    pub fn tolerance_of(&self, case: &Case, dtype: Dtype) -> Tolerance {
        let Tolerance { rtol, atol } = self.tolerance(dtype);
        let scale = self.scale.as_ref().map_or(1.0, |scale| known(scale.real(&case.sizes)));
        Tolerance { rtol, atol: atol * scale }
    }

    /// Returns the default launch of the kernel shape.
    pub fn launch(&self, case: &Case) -> Launch {
        known(self.launch.launch(&case.sizes))
    }

    /// Returns the launch with the source's directives applied.
    pub fn launch_of(&self, case: &Case, source: &str) -> Result<Launch, LaunchError> {
        self.launch.overridden(source)?.launch(&case.sizes)
    }

    /// Returns the floating-point operations of a case.
    pub fn flops(&self, case: &Case) -> Option<f64> {
        self.flops.as_ref().map(|flops| known(flops.real(&case.sizes)))
    }

    /// Returns the least memory traffic of a case in bytes.
    pub fn bytes(&self, case: &Case, dtype: Dtype) -> f64 {
        match &self.bytes {
            Some(bytes) => {
                let mut sizes = case.sizes.clone();
                sizes.insert("T".to_owned(), dtype.size() as i64);
                known(bytes.real(&sizes))
            }
            None => self
                .parameters
                .iter()
                .map(|parameter| {
                    let elements: f64 = parameter.extents(case).iter().map(|extent| *extent as f64).product();
                    let passes = match parameter.direction {
                        Direction::In | Direction::Out => 1.0,
                        Direction::InOut => 2.0,
                        Direction::Scalar => 0.0,
                    };
                    passes * elements * parameter.element.dtype(dtype).size() as f64
                })
                .sum(),
        }
    }

    /// Returns the total size of a case's buffers in bytes.
    pub fn bytes_of_arguments(&self, case: &Case, dtype: Dtype) -> usize {
        let bytes = |parameter: &Parameter| match parameter.direction {
            Direction::Scalar => 0,
            _ => parameter.extents(case).iter().product::<usize>() * parameter.element.dtype(dtype).size(),
        };
        self.parameters.iter().map(bytes).sum()
    }

    /// Computes the expected outputs, in the order of the signature.
    pub fn expected(&self, case: &Case, dtype: Dtype, prepared: &Prepared) -> Vec<Expected> {
        let values = (self.row.exact)(&Call::new(case, prepared));
        self.expecting(case, dtype, values)
    }

    /// Compares an output of a case with its expected contents.
    pub fn compare(&self, case: &Case, dtype: Dtype, expected: &Expected, actual: &[u8]) -> Comparison {
        compare::compare(self.tolerance_of(case, dtype), expected, actual)
    }

    pub(crate) fn expecting(&self, case: &Case, dtype: Dtype, values: Vec<Values>) -> Vec<Expected> {
        assert_eq!(values.len(), self.outputs().count(), "{}: one result per output", self.slug);
        let expect = |(parameter, values): (&Parameter, Values)| {
            let shape = parameter.extents(case);
            assert_eq!(shape.iter().product::<usize>(), values.len(), "{}: {}", self.slug, parameter.name);
            Expected { name: parameter.name.clone(), element: parameter.element.dtype(dtype), shape, values }
        };
        self.outputs().zip(values).map(expect).collect()
    }
}
