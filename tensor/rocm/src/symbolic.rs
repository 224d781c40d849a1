//! Symbolic addresses: what stands for operands, workspaces and seeds while a kernel is generated. Binding a template replaces
//! them by actual values.

use crate::source::Address;

/// Bits of the offset in a symbolic address.
pub(crate) const WITHIN: u32 = 44;
/// Operands are numbered first, then workspaces.
pub(crate) const WORKSPACES: u64 = 1 << 19;
/// The largest number of a symbolic address.
pub(crate) const LAST: u64 = (1 << 20) - 1;

/// The seed of a random step.
pub(crate) const SEED: Address = Address(LAST << WITHIN);
/// The offset of a random step in its sequence.
pub(crate) const OFFSET: Address = Address((LAST - 1) << WITHIN);
/// The buffer where kernels record indices out of bounds.
pub(crate) const FAULTS: Address = Address((LAST - 2) << WITHIN);

/// Symbolic address of a workspace.
pub(crate) fn workspace(number: usize) -> Address {
    Address((WORKSPACES + number as u64) << WITHIN)
}
