//! Windows.

pub mod barrier;
pub mod direct_copy;
pub mod double_mapping;
pub mod fork;
pub mod reserve;
