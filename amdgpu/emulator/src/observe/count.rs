//! How often a micro-op was executed.

/// Counts of one micro-op.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    pub executions: u64,
    /// Active lanes, summed over executions.
    pub lanes: u64,
    /// Branches: times taken. Instructions that mask lanes off: times the wave diverged (some lanes off, some still on).
    pub taken: u64,
}
