//! Parameters of a solution: direction, type of element, shape, and where the contents of inputs come from.

use crate::dtype::Dtype;
use crate::expression::Expression;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    In,
    Out,
    InOut,
    /// Passed by value.
    Scalar,
}

/// The type of a parameter's elements, which may follow the type that was chosen for the problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// The chosen type.
    Chosen,
    /// The type of scalars that go with the chosen type.
    Scalar,
    /// `size_t`.
    Size,
    Fixed(Dtype),
}

impl Element {
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "T" => Some(Self::Chosen),
            "S" => Some(Self::Scalar),
            "size" => Some(Self::Size),
            _ => Dtype::from_name(name).map(Self::Fixed),
        }
    }

    pub fn dtype(self, chosen: Dtype) -> Dtype {
        match self {
            Self::Chosen => chosen,
            Self::Scalar => chosen.scalar(),
            Self::Size => Dtype::Uint64,
            Self::Fixed(dtype) => dtype,
        }
    }

    pub fn c_name(self, chosen: Dtype) -> &'static str {
        match self {
            Self::Size => "size_t",
            _ => self.dtype(chosen).c_name(),
        }
    }
}

/// Where the contents of an input come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Fill {
    /// Real numbers from `[low, high)`; for types that have none, whole numbers from a thousand times that.
    Uniform { low: f64, high: f64 },
    /// Whole numbers from `low` to `high`, both included.
    Integers { low: Expression, high: Expression },
    /// Any bits.
    Bits,
    /// The problem has its own maker, because the numbers have to fit together.
    Made,
}

impl Fill {
    /// Reads `uniform -1 1`, `integers 0 n-1`, `bits` or `made`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["uniform", low, high] => {
                let (low, high) = (low.parse::<f64>().ok()?, high.parse::<f64>().ok()?);
                (low < high && low.is_finite() && high.is_finite()).then_some(Self::Uniform { low, high })
            }
            ["integers", low, high] => Some(Self::Integers {
                low: Expression::parse(low).ok()?,
                high: Expression::parse(high).ok()?,
            }),
            ["bits"] => Some(Self::Bits),
            ["made"] => Some(Self::Made),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    pub name: String,
    pub direction: Direction,
    pub element: Element,
    /// Row-major extents; empty for scalars.
    pub shape: Vec<Expression>,
    pub fill: Fill,
    /// The value of a scalar in terms of the sizes; without one the case names it.
    pub value: Option<Expression>,
}

impl Parameter {
    /// As it stands in the signature.
    pub fn declaration(&self, chosen: Dtype) -> String {
        let (constant, pointer) = match self.direction {
            Direction::In => ("const ", "*"),
            Direction::Out | Direction::InOut => ("", "*"),
            Direction::Scalar => ("", ""),
        };
        format!("{constant}{}{pointer} {}", self.element.c_name(chosen), self.name)
    }
}
