//! Arguments of a call: buffers with their contents, and scalars.

use crate::dtype::Dtype;

/// The contents of an argument.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A buffer that the solution reads.
    Input {
        /// Element type.
        element: Dtype,
        /// Extents.
        shape: Vec<usize>,
        /// Contents.
        bytes: Vec<u8>,
    },
    /// A buffer that the solution writes.
    Output {
        /// Element type.
        element: Dtype,
        /// Extents.
        shape: Vec<usize>,
    },
    /// A buffer that the solution reads and writes.
    InOut {
        /// Element type.
        element: Dtype,
        /// Extents.
        shape: Vec<usize>,
        /// Contents before the call.
        bytes: Vec<u8>,
    },
    /// A number, passed by value.
    Scalar {
        /// Element type.
        element: Dtype,
        /// Contents.
        bytes: Vec<u8>,
    },
}

impl Value {
    /// Returns the element type.
    pub fn element(&self) -> Dtype {
        match self {
            Self::Input { element, .. }
            | Self::Output { element, .. }
            | Self::InOut { element, .. }
            | Self::Scalar { element, .. } => *element,
        }
    }

    /// Returns the extents; none for a scalar.
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

    /// Sets the contents of an input, which must have the same size. Does nothing for outputs.
    pub fn set_bytes(&mut self, contents: Vec<u8>) {
        if let Self::Input { bytes, .. } | Self::InOut { bytes, .. } | Self::Scalar { bytes, .. } = self {
            *bytes = contents;
        }
    }

    /// Returns the contents before the call; `None` for outputs.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Input { bytes, .. } | Self::InOut { bytes, .. } | Self::Scalar { bytes, .. } => Some(bytes),
            Self::Output { .. } => None,
        }
    }
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// Name of the parameter.
    pub name: String,
    /// Ordinal of the GPU whose memory holds it; 0 for scalars.
    pub device: u32,
    /// Contents.
    pub value: Value,
}

/// The arguments of one call, in the order of the signature.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    /// The arguments.
    pub arguments: Vec<Argument>,
    /// Floating-point operations of the case.
    pub flops: Option<f64>,
    /// Least memory traffic of the case, in bytes.
    pub bytes: f64,
}

impl Prepared {
    /// Finds an argument by name.
    pub fn argument(&self, name: &str) -> Option<&Argument> {
        self.arguments.iter().find(|argument| argument.name == name)
    }
}
