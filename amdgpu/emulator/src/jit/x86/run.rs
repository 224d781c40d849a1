//! A run: micro-ops that are compiled together.

/// Unit of lowering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// One vector operation, by micro-op index.
    Lanes(usize),
    /// LDS reads at offsets from one address register, by micro-op index.
    Reads(Vec<usize>),
}

/// A run of micro-ops `start..end`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    pub start: usize,
    pub end: usize,
    pub items: Vec<Item>,
    /// Scalar operations that run before and after the native code.
    pub before: Vec<usize>,
    pub after: Vec<usize>,
    pub writes_masks: bool,
    pub reads_local: bool,
    /// The run contains float operations, which depend on MODE.
    pub float: bool,
}
