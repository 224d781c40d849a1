//! Runs a command that is not trusted: apart from the network, from other processes and from the files of the machine, within limits.
//!
//! Knows nothing of what the command is. Nothing goes through a shell. How far it is apart depends on what the machine
//! grants ([`Level`]), is told, and where nothing is granted the command is refused unless the caller asks for that.

mod command;
mod descriptor;
mod filter;
mod jail;
mod level;
pub mod own;
mod plan;
mod report;
mod rules;
mod watch;

pub use command::{Command, Limits, Stream, Visible};
pub use level::{Apartness, Level};
pub use report::{SandboxError, Stage};
pub use watch::{Ended, Running, Stop};

/// The user that commands run as, and its group, wherever that can be chosen.
pub const NOBODY: u32 = 65534;
/// Where the users begin that commands are given, one each, where root may choose: no system hands these out.
pub const USERS: u32 = 0x6000_0000;
/// Where the users of sessions' processes begin: each has this plus its process number, which has at most 22 bits.
pub const SESSION_USERS: u32 = 0x7000_0000;
/// Where the groups begin that sessions of one tenant share, for the files they keep; 27 bits follow.
pub const TENANT_GROUPS: u32 = 0x7800_0000;

/// The folder that a command may write to, where it has a file system of its own.
pub const WORK: &str = "/box";
