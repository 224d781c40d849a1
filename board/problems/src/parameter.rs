//! Parameters of a solution: direction, element type, shape, and fill of inputs.

use crate::case::Case;
use crate::dtype::Dtype;
use crate::expression::{Expression, known};
use serde::{Deserialize, Serialize};

/// Direction of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// A buffer that the solution reads.
    In,
    /// A buffer that the solution writes.
    Out,
    /// A buffer that the solution reads and writes.
    InOut,
    /// Passed by value.
    Scalar,
}

/// Element type of a parameter, which may depend on the type chosen for the problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// The chosen type.
    Chosen,
    /// The scalar type for the chosen type.
    Scalar,
    /// `size_t`.
    Size,
    /// Always this type.
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

    /// Returns the type of elements for the chosen type.
    pub fn dtype(self, chosen: Dtype) -> Dtype {
        match self {
            Self::Chosen => chosen,
            Self::Scalar => chosen.scalar(),
            Self::Size => Dtype::Uint64,
            Self::Fixed(dtype) => dtype,
        }
    }

    /// Returns the C type of elements for the chosen type.
    pub fn c_name(self, chosen: Dtype) -> &'static str {
        match self {
            Self::Size => "size_t",
            _ => self.dtype(chosen).c_name(),
        }
    }
}

/// How an input is filled.
#[derive(Clone, Debug, PartialEq)]
pub enum Fill {
    /// Random real numbers from `[low, high)`. For integer types, integers from that range times 1000.
    Uniform {
        /// Lower bound, inclusive.
        low: f64,
        /// Upper bound, exclusive.
        high: f64,
    },
    /// Random integers from `low` to `high`, inclusive.
    Integers {
        /// Lower bound, inclusive.
        low: Expression,
        /// Upper bound, inclusive.
        high: Expression,
    },
    /// Random bits.
    Bits,
    /// Filled by the problem's own maker, because the numbers depend on each other.
    Made,
}

impl Fill {
    /// Parses `uniform -1 1`, `integers 0 n-1`, `bits` or `made`.
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

/// A parameter of a solution.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Name.
    pub name: String,
    /// Direction.
    pub direction: Direction,
    /// Element type.
    pub element: Element,
    /// Row-major extents; empty for scalars.
    pub shape: Vec<Expression>,
    /// How an input is filled.
    pub fill: Fill,
    /// Value of a scalar as a formula over the sizes. Without it the case gives the value.
    pub value: Option<Expression>,
    /// Ordinal of the GPU whose memory holds the buffer.
    pub device: u32,
}

impl Parameter {
    /// Returns the extents of the shape in a case.
    pub(crate) fn extents(&self, case: &Case) -> Vec<usize> {
        let extent = |formula: &Expression| usize::try_from(known(formula.integer(&case.sizes))).unwrap_or(0);
        self.shape.iter().map(extent).collect()
    }
}

impl Parameter {
    /// Returns the declaration in the signature.
    pub fn declaration(&self, chosen: Dtype) -> String {
        let (constant, pointer) = match self.direction {
            Direction::In => ("const ", "*"),
            Direction::Out | Direction::InOut => ("", "*"),
            Direction::Scalar => ("", ""),
        };
        format!("{constant}{}{pointer} {}", self.element.c_name(chosen), self.name)
    }
}
