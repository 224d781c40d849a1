//! Arguments of a call: buffers with their contents, and scalars.

use crate::dtype::Dtype;

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
