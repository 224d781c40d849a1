//! Report pipe from the processes of the sandbox to the caller: fixed-size records, then collected files.

use std::io;

use crate::level::Level;

/// Size of a record: kind, value and error number, as three 32-bit words.
pub(crate) const RECORD: usize = 12;

/// Stage of setting up the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Stage {
    /// Closing and moving file descriptors.
    Descriptors = 1,
    /// Mapping of users and groups.
    Users,
    /// Creating namespaces.
    Namespaces,
    /// Mounting the command's file system.
    Mounts,
    /// Writing the command's files.
    Files,
    /// Starting the first process of the process namespace.
    Processes,
    /// Changing the user, and dropping capabilities.
    Credentials,
    /// Setting resource limits.
    Limits,
    /// Applying Landlock rules.
    Landlock,
    /// Installing the system call filter.
    Filter,
    /// Executing the program.
    Execute,
}

impl Stage {
    const ALL: [Stage; 11] = [
        Stage::Descriptors,
        Stage::Users,
        Stage::Namespaces,
        Stage::Mounts,
        Stage::Files,
        Stage::Processes,
        Stage::Credentials,
        Stage::Limits,
        Stage::Landlock,
        Stage::Filter,
        Stage::Execute,
    ];

    fn of(value: i32) -> Option<Stage> {
        Stage::ALL.into_iter().find(|stage| *stage as i32 == value)
    }

    fn what(self) -> &'static str {
        match self {
            Stage::Descriptors => "cannot set up the sandbox's file descriptors",
            Stage::Users => "cannot create a user namespace",
            Stage::Namespaces => "cannot create namespaces",
            Stage::Mounts => "cannot build the sandbox's file system",
            Stage::Files => "cannot write the command's files",
            Stage::Processes => "cannot fork the sandbox's processes",
            Stage::Credentials => "cannot drop the command's privileges",
            Stage::Limits => "cannot set the command's resource limits",
            Stage::Landlock => "cannot apply Landlock",
            Stage::Filter => "cannot install the system call filter",
            Stage::Execute => "cannot execute the program",
        }
    }
}

/// Error that kept a command from running.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum SandboxError {
    #[error("{0:?} is not a valid name or value for a sandbox")]
    Name(String),
    #[error("{what}")]
    Io { what: &'static str, source: io::Error },
    #[error("{}", stage.what())]
    Setup { stage: Stage, source: io::Error },
    #[error("commands cannot be isolated: this machine has only {found}, not {least} ({why})", found = found.name(), least = least.name())]
    TooWeak { found: Level, least: Level, why: String },
    #[error("the sandbox's processes exited without a report")]
    Silent,
}

/// A record of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    Failed(Stage, i32),
    /// The setup is done; the command is about to be executed.
    Started,
    /// The command ended with this wait status.
    Ended(i32),
    /// CPU time of all the command's processes: seconds and microseconds.
    Used(i32, i32),
    /// A collected file of this many bytes follows; -1 if it is missing or too large.
    File(i32),
}

const FAILED: i32 = 1;
const ENDED: i32 = 2;
const FILE: i32 = 3;
const STARTED: i32 = 4;
const USED: i32 = 5;

impl Record {
    pub fn bytes(self) -> [u8; RECORD] {
        let words = match self {
            Record::Failed(stage, error) => [FAILED, stage as i32, error],
            Record::Started => [STARTED, 0, 0],
            Record::Ended(status) => [ENDED, status, 0],
            Record::Used(seconds, micros) => [USED, seconds, micros],
            Record::File(length) => [FILE, length, 0],
        };
        let mut bytes = [0; RECORD];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    pub fn of(bytes: &[u8]) -> Option<Record> {
        let word =
            |index: usize| Some(i32::from_ne_bytes(bytes.get(index * 4..index * 4 + 4)?.try_into().ok()?));
        match word(0)? {
            FAILED => Some(Record::Failed(Stage::of(word(1)?)?, word(2)?)),
            ENDED => Some(Record::Ended(word(1)?)),
            STARTED => Some(Record::Started),
            USED => Some(Record::Used(word(1)?, word(2)?)),
            FILE => Some(Record::File(word(1)?)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_were_written() {
        for record in [
            Record::Failed(Stage::Execute, 2),
            Record::Started,
            Record::Ended(9),
            Record::Used(3, 999_999),
            Record::File(-1),
            Record::File(1 << 20),
        ] {
            assert_eq!(Record::of(&record.bytes()), Some(record));
        }
        assert_eq!(Record::of(&[0; RECORD]), None);
        assert_eq!(Record::of(&[1]), None);
    }
}
