//! Contents of an output, as a reference computes them.

use crate::dtype::Dtype;

/// Expected contents of an output. For floating-point types they are more precise than the type.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Real numbers.
    Floats(Vec<f64>),
    /// Signed integers.
    Integers(Vec<i64>),
    /// For values that need all 64 bits.
    Naturals(Vec<u64>),
}

impl Values {
    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::Floats(values) => values.len(),
            Self::Integers(values) => values.len(),
            Self::Naturals(values) => values.len(),
        }
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Encodes the values as bytes of a type.
    pub fn encode(&self, element: Dtype) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len() * element.size());
        match self {
            Self::Floats(values) => values.iter().for_each(|value| element.encode(*value, &mut bytes)),
            Self::Integers(values) => {
                values.iter().for_each(|value| element.encode_integer((*value).into(), &mut bytes));
            }
            Self::Naturals(values) => {
                values.iter().for_each(|value| element.encode_integer((*value).into(), &mut bytes));
            }
        }
        bytes
    }
}
