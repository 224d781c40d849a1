//! How far a command is kept apart, and what the machine grants.

/// How far a command is kept apart. More is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Limits alone. It reads what its user reads and reaches the network.
    Limited,
    /// Where namespaces are denied, as in plain containers: the machine's files through Landlock, which grants only what is visible;
    /// no sockets; no signals to others where Landlock knows them. It sees the machine's processes if it is shown `/proc`, which it is not.
    Restricted,
    /// A file system, process numbers, network, users and everything else that can be had of its own; and Landlock where there is some.
    Namespaces,
}

impl Level {
    /// In a word, for people.
    pub fn name(self) -> &'static str {
        match self {
            Level::Limited => "limits alone",
            Level::Restricted => "Landlock and a system call filter, without namespaces",
            Level::Namespaces => "namespaces",
        }
    }
}

/// Which levels will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apartness {
    /// A command that would be less apart is refused.
    pub least: Level,
    /// More is not tried.
    pub most: Level,
}

impl Default for Apartness {
    fn default() -> Apartness {
        Apartness { least: Level::Restricted, most: Level::Namespaces }
    }
}
