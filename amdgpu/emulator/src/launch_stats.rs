//! Statistics of a finished launch.

use std::time::Duration;

/// Statistics of a finished launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaunchStats {
    /// Number of workgroups that ran.
    pub workgroups: u64,
    /// Number of waves that ran.
    pub waves: u64,
    /// Instructions executed by waves. Instructions without effect in the emulator (waits, cache control) are not counted.
    pub instructions: u64,
    /// Wall-clock time of the launch.
    pub elapsed: Duration,
}
