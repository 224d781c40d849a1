//! Windows.

pub mod child;
pub mod folders;
pub mod library;
pub mod screen;
pub mod standard_output;
