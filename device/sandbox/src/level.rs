//! Levels of isolation, depending on what the machine supports.

/// Level of isolation of a command; higher is stronger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Resource limits only. The command can read what its user can read, and can use the network.
    Limited,
    /// For machines that deny namespaces, such as plain containers. Landlock grants access only to visible files; there are no
    /// sockets, and no signals to other processes if Landlock supports that. `/proc` is not visible, so other processes are
    /// hidden.
    Restricted,
    /// Separate file system, process ids, network, users and all other namespaces, plus Landlock if available.
    Namespaces,
}

impl Level {
    /// Short description for display.
    pub fn name(self) -> &'static str {
        match self {
            Level::Limited => "limits alone",
            Level::Restricted => "Landlock and a system call filter, without namespaces",
            Level::Namespaces => "namespaces",
        }
    }
}

/// Range of acceptable levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IsolationRange {
    /// Minimum: a command that would be isolated less is refused.
    pub least: Level,
    /// Maximum: higher levels are not tried.
    pub most: Level,
}

impl Default for IsolationRange {
    fn default() -> IsolationRange {
        IsolationRange { least: Level::Restricted, most: Level::Namespaces }
    }
}
