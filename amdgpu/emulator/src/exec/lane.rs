//! Vector instructions, independent of their encoding: the lane loop of an operation, its operands and modifiers, and moves
//! between lanes.

pub(crate) mod body;
pub(crate) mod byte_sum;
pub(crate) mod cross_lane;
mod dpp;
pub(crate) mod hot;
pub(crate) mod mask;
mod modifier;
pub(crate) mod op;
pub(crate) mod permute;
pub(crate) mod row_vector;
mod sdwa;
pub(crate) mod source;
pub(crate) mod wave_init;
