//! Runs a command that is not trusted: apart from the network, from other processes and from the files of the machine, within limits.
//!
//! Knows nothing of what the command is.
