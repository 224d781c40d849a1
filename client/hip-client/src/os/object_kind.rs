//! What a descriptor can represent.

/// The kind of object a descriptor represents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Memory = 1,
    Pool = 2,
}
