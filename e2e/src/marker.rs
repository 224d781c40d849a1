//! Finds all descendants of a process by a marker variable that they inherit in their environment.

use std::fs;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicU32, Ordering};

/// A unique environment variable. Processes that still have it are killed when this is dropped.
#[derive(Debug)]
pub struct Marker {
    value: String,
}

impl Default for Marker {
    fn default() -> Marker {
        Marker::new()
    }
}

impl Marker {
    pub const NAME: &str = "REMORA_TEST_MARKER";

    pub fn new() -> Marker {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Marker { value: format!("{}-{number}", std::process::id()) }
    }

    pub fn value(&self) -> &str {
        &self.value
    }

    /// The running processes with the marker, and their command lines.
    pub fn processes(&self) -> Vec<(u32, String)> {
        let wanted = format!("{}={}", Marker::NAME, self.value).into_bytes();
        let mut found: Vec<(u32, String)> = Vec::new();
        let mut hidden = Vec::new();
        for entry in fs::read_dir("/proc").expect("/proc lists processes").flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            // A process that has exited has no environment, even while it is a zombie.
            match fs::read(entry.path().join("environ")) {
                Ok(environment) if environment.split(|byte| *byte == 0).any(|it| it == wanted) => {
                    found.push((pid, command_line(pid)));
                }
                Err(error) if error.kind() == ErrorKind::PermissionDenied => hidden.push(pid),
                _ => {}
            }
        }
        // Session processes are not dumpable, so only root can read their environment. Their parent has the marker.
        for pid in hidden {
            if parent(pid).is_some_and(|parent| found.iter().any(|(pid, _)| *pid == parent)) {
                found.push((pid, command_line(pid)));
            }
        }
        found
    }
}

impl Drop for Marker {
    fn drop(&mut self) {
        for (pid, _) in self.processes() {
            if let Ok(pid) = libc::pid_t::try_from(pid) {
                // SAFETY: kill takes no pointers; the process has a marker that only this value creates.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
        }
    }
}

fn command_line(pid: u32) -> String {
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&command).replace('\0', " ").trim_end().to_owned()
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The process name is in parentheses and may contain any character.
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_marked_process_is_found_until_it_ends() {
        let marker = Marker::new();
        let mut child = Command::new("cat")
            .env(Marker::NAME, marker.value())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        crate::eventually("the mark shows", || {
            marker.processes().iter().any(|(pid, command)| *pid == child.id() && command == "cat")
        });
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(marker.processes().is_empty());
    }

    #[test]
    fn nothing_marked_outlives_the_mark() {
        let marker = Marker::new();
        let mut child =
            Command::new("cat").env(Marker::NAME, marker.value()).stdin(Stdio::piped()).spawn().unwrap();
        crate::eventually("the mark shows", || !marker.processes().is_empty());
        drop(marker);
        assert!(!child.wait().unwrap().success());
    }
}
