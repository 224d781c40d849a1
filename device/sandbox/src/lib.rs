//! Sandbox: runs an untrusted command isolated from the network, other processes and the machine's files, within resource limits.
//!
//! It is independent of what the command is, and no shell is involved. The level of isolation ([`Level`]) depends on what the
//! machine supports, and is reported. If the machine supports none, the command is refused unless the caller accepts that.

#![warn(missing_docs)]

mod command;
mod descriptor;
mod filter;
mod jail;
mod level;
mod plan;
mod report;
mod rules;
pub mod self_confine;
mod usage;
mod watch;

pub use command::{Command, Limits, Stream, Visible};
pub use level::{IsolationRange, Level};
pub use report::{SandboxError, Stage};
pub use watch::{Ended, Running, Stop};

/// User and group id that commands run as, where that can be chosen.
pub const NOBODY: u32 = 65534;
/// First of the user ids assigned to commands, one each, if the caller is root. No system allocates ids in this range.
pub const USERS: u32 = 0x6000_0000;
/// First of the user ids of session processes: each is this plus its process id, which has at most 22 bits.
pub const SESSION_USERS: u32 = 0x7000_0000;
/// First of the group ids shared by sessions of one tenant, for their cached files; 27 bits follow.
pub const TENANT_GROUPS: u32 = 0x7800_0000;

/// The writable folder of a command that has a separate file system.
pub const WORK: &str = "/box";
