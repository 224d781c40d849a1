//! Linux.

pub(crate) mod pages;
pub(crate) mod written;
