//! Values of a run.

/// Name of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Name {
    /// A vector register of the wave.
    Vector(u16),
    /// A scalar register, the same for all lanes.
    Scalar(u16),
    /// A constant, the same for all lanes.
    Constant(u32),
    /// A lane mask in scalar registers, expanded to lanes of all-ones or all-zeros.
    Mask(u16),
}
