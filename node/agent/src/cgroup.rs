//! Control groups of workers: memory that the kernel holds them to.
//!
//! Niceness divides processor time, see `LimitConfig::niceness`; `cargo xtask bench agent` measures how well. The cpu controller is not used.
//!
//! One group for each allocation, beside the agent, in both generations of the interface; compilers and all else that a worker starts
//! are in it too. Where the agent may not make groups workers go on without: their own accounts and their niceness stay.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

/// Where the agent of a unified hierarchy moves to: a group with groups in it has no processes.
const LEAF: &str = "remora-agent";
const PREFIX: &str = "remora-";
/// An empty group that is older was left behind.
const STALE: Duration = Duration::from_secs(60);
const REMOVAL: (u32, Duration) = (50, Duration::from_millis(10));

/// A hierarchy with the memory controller.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hierarchy {
    parent: PathBuf,
    unified: bool,
    memory: bool,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    hierarchies: Vec<Hierarchy>,
}

/// The groups of this machine; looked for once.
pub(crate) fn groups() -> &'static Groups {
    static FOUND: OnceLock<Groups> = OnceLock::new();
    FOUND.get_or_init(|| {
        let groups = Groups::find(Path::new("/"));
        match groups.hierarchies.iter().any(|it| it.memory) {
            true => tracing::info!("every worker has a control group for memory"),
            false => tracing::warn!(
                "no control groups for memory can be made here: host memory is limited by the workers' own accounts alone"
            ),
        }
        groups
    })
}

impl Groups {
    /// Looks where groups can be made, and removes empty ones that were left behind.
    fn find(root: &Path) -> Groups {
        let read = |name: &str| fs::read_to_string(root.join("proc/self").join(name)).unwrap_or_default();
        let (own, mounts) = (read("cgroup"), read("mountinfo"));
        let mut hierarchies = Vec::new();
        for line in own.lines() {
            let mut parts = line.splitn(3, ':');
            let (Some(number), Some(names), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
                continue;
            };
            let unified = number == "0" && names.is_empty();
            let has = |name: &str| names.split(',').any(|it| it == name);
            if !unified && !has("memory") {
                continue;
            }
            let Some(folder) = mounts.lines().find_map(|line| own_group(root, line, names, path)) else {
                continue;
            };
            let parent = match folder.file_name() {
                Some(name) if name == LEAF => folder.parent().unwrap_or(&folder).to_owned(),
                _ => folder,
            };
            let hierarchy = match unified {
                false => Ok(Hierarchy { parent, unified, memory: has("memory") }),
                true => delegate(parent),
            };
            match hierarchy.and_then(|it| it.try_out().map(|()| it)) {
                Ok(hierarchy) if hierarchy.memory => hierarchies.push(hierarchy),
                Ok(_) => {}
                Err(error) => tracing::debug!("no control groups below {path} ({names}): {error}"),
            }
        }
        hierarchies.iter().for_each(Hierarchy::sweep);
        Groups { hierarchies }
    }

    /// Has the process that a command starts, and all it starts itself, be in a group of its own.
    pub(crate) fn enter(&self, command: &mut Command, id: &str, memory: u64) {
        for hierarchy in &self.hierarchies {
            match hierarchy.make(id, memory) {
                Ok(door) => {
                    // SAFETY: one async-signal-safe call on an open descriptor and a constant between fork and exec.
                    unsafe {
                        command.pre_exec(move || {
                            // A worker without a group is better than none; `check` says so.
                            let _ = libc::write(door.as_raw_fd(), c"0".as_ptr().cast(), 1);
                            Ok(())
                        });
                    }
                }
                Err(error) => {
                    tracing::warn!(
                        "worker {id} has no control group in {}: {error}",
                        hierarchy.parent.display()
                    );
                }
            }
        }
    }

    /// Says so if a worker is not in the groups that were made for it.
    pub(crate) fn check(&self, id: &str, pid: u32) {
        let own = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let found = own.matches(&format!("/{PREFIX}{id}")).count();
        if found < self.hierarchies.len() && !own.is_empty() {
            let all = self.hierarchies.len();
            tracing::warn!(
                "worker {id} is in {found} of {all} control groups: the kernel does not hold it to all limits"
            );
        }
    }

    /// Removes the groups of a worker that has ended, and ends what it left in them.
    pub(crate) fn remove(&self, id: &str) {
        for hierarchy in &self.hierarchies {
            let folder = hierarchy.of(id);
            for _ in 0..REMOVAL.0 {
                let is_gone = |error: io::Error| error.kind() == io::ErrorKind::NotFound;
                if fs::remove_dir(&folder).map_or_else(is_gone, |()| true) {
                    break;
                }
                for pid in fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default().lines() {
                    if let Ok(pid) = pid.parse::<libc::pid_t>()
                        && pid > 1
                    {
                        // SAFETY: takes numbers. The process is in the worker's group, where only its own are.
                        unsafe { libc::kill(pid, libc::SIGKILL) };
                    }
                }
                std::thread::sleep(REMOVAL.1);
            }
        }
    }
}

impl Hierarchy {
    fn of(&self, id: &str) -> PathBuf {
        self.parent.join(format!("{PREFIX}{id}"))
    }

    /// Makes a group, or takes one that is there, and returns where processes enter it.
    fn make(&self, id: &str, memory: u64) -> io::Result<OwnedFd> {
        let folder = self.of(id);
        match fs::create_dir(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        for (name, value, needed) in self.settings(memory) {
            let written = write(&folder.join(name), &value);
            if needed {
                written?;
            }
        }
        Ok(OpenOptions::new().write(true).open(folder.join("cgroup.procs"))?.into())
    }

    /// Files, what is written to them, and whether a group is worth nothing without.
    fn settings(&self, memory: u64) -> Vec<(&'static str, String, bool)> {
        let mut settings = Vec::new();
        match (self.memory, self.unified) {
            // Processes of sessions go first and one at a time, so that the supervisor can say why: no memory.oom.group.
            (true, true) => settings.extend([
                ("memory.max", memory.to_string(), true),
                ("memory.swap.max", "0".to_owned(), false),
            ]),
            (true, false) => settings.extend([
                // One may not be above the other, whichever way they change.
                ("memory.limit_in_bytes", memory.to_string(), false),
                ("memory.memsw.limit_in_bytes", memory.to_string(), false),
                ("memory.limit_in_bytes", memory.to_string(), true),
            ]),
            (false, _) => {}
        }
        settings
    }

    fn try_out(&self) -> io::Result<()> {
        let id = format!("try-{}", std::process::id());
        let made = self.make(&id, 1 << 30).map(drop);
        let _ = fs::remove_dir(self.of(&id));
        made
    }

    fn sweep(&self) {
        for entry in fs::read_dir(&self.parent).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let age = entry.metadata().and_then(|it| it.modified()).ok().and_then(|at| at.elapsed().ok());
            if name.starts_with(PREFIX) && name != LEAF && age.is_some_and(|age| age > STALE) {
                // Fails for a group with processes, as it should.
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

fn write(path: &Path, value: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(value.as_bytes())
}

/// The folder of this process's group, if a line of mountinfo is of that hierarchy.
fn own_group(root: &Path, line: &str, names: &str, path: &str) -> Option<PathBuf> {
    let (head, tail) = line.split_once(" - ")?;
    let mut tail = tail.split(' ');
    let (kind, options) = (tail.next()?, tail.nth(1)?);
    let fits = match names.is_empty() {
        true => kind == "cgroup2",
        false => kind == "cgroup" && names.split(',').all(|name| options.split(',').any(|it| it == name)),
    };
    let mut head = head.split(' ').skip(3);
    let (inside, mount) = (head.next()?, head.next()?);
    let below = Path::new(path).strip_prefix(inside).ok()?;
    fits.then(|| root.join(mount.trim_start_matches('/')).join(below))
}

/// Lets groups below this one be bounded, which takes moving this process out of it.
fn delegate(parent: PathBuf) -> io::Result<Hierarchy> {
    let has = |file: &str, name: &str| {
        let text = fs::read_to_string(parent.join(file)).unwrap_or_default();
        text.split_ascii_whitespace().any(|it| it == name)
    };
    let mut memory = has("cgroup.controllers", "memory");
    if !memory {
        return Err(io::Error::other("the controller memory is not delegated"));
    }
    let leaf = parent.join(LEAF);
    match fs::create_dir(&leaf) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    write(&leaf.join("cgroup.procs"), "0")?;
    let enabled = write(&parent.join("cgroup.subtree_control"), "+memory");
    memory = enabled.is_ok() || has("cgroup.subtree_control", "memory");
    Ok(Hierarchy { parent, unified: true, memory })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn put(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_delegated_group_is_divided_and_bounds_memory() {
        let root = tempfile::tempdir().unwrap();
        put(&root.path().join("proc/self/cgroup"), "0::/system.slice/remora.service\n");
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        put(&root.path().join("proc/self/mountinfo"), mounts);
        let own = root.path().join("sys/fs/cgroup/system.slice/remora.service");
        put(&own.join("cgroup.controllers"), "cpu io memory pids\n");
        put(&own.join("cgroup.subtree_control"), "");
        put(&own.join(LEAF).join("cgroup.procs"), "");
        let hierarchy = delegate(own.clone()).unwrap();
        assert_eq!(hierarchy, Hierarchy { parent: own.clone(), unified: true, memory: true });
        assert_eq!(fs::read_to_string(own.join(LEAF).join("cgroup.procs")).unwrap(), "0");
        // A plain folder has no such files by itself.
        for name in ["memory.max", "memory.swap.max", "cgroup.procs"] {
            put(&own.join("remora-a1").join(name), "");
        }
        hierarchy.make("a1", 12_345).unwrap();
        let read = |name: &str| fs::read_to_string(own.join("remora-a1").join(name)).unwrap();
        assert_eq!(read("memory.max"), "12345");
        assert!(
            own_group(root.path(), mounts, "", "/system.slice/remora.service").is_some_and(|it| it == own)
        );
    }

    #[test]
    fn a_process_is_in_its_groups_and_what_it_left_there_ends_with_them() {
        let groups = Groups::find(Path::new("/"));
        if groups.hierarchies.is_empty() {
            println!("skipped: no control group can be made here");
            return;
        }
        let id = format!("test-{}", std::process::id());
        let mut command = Command::new("sleep");
        command.arg("1000");
        groups.enter(&mut command, &id, 64 << 20);
        let mut child = command.spawn().unwrap();
        let own = fs::read_to_string(format!("/proc/{}/cgroup", child.id())).unwrap();
        assert_eq!(own.matches(&format!("remora-{id}")).count(), groups.hierarchies.len(), "{own}");
        groups.remove(&id);
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
        assert!(groups.hierarchies.iter().all(|it| !it.of(&id).exists()));
    }
}
