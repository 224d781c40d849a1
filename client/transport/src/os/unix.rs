//! Linux.

pub(crate) mod attached;
pub(crate) mod fifo_pair;
pub(crate) mod private_file;
pub(crate) mod socket;
pub(crate) mod threads;
pub(crate) mod timer;
