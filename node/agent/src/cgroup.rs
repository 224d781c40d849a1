//! Control groups (cgroup v1 and v2) that limit the host memory of workers.
//!
//! Each allocation has one group, a sibling of the agent's. It contains the worker and every process the worker starts, such as compilers.
//! If the agent may not create groups, workers run without them and only their own memory accounting and niceness apply.
//!
//! The cpu controller is not used. Niceness divides CPU time, see `LimitConfig::niceness`; `cargo xtask bench agent` measures how well.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

/// Child group that the agent moves into under cgroup v2, where a group that delegates controllers cannot contain processes.
const LEAF: &str = "remora-agent";
const PREFIX: &str = "remora-";
/// An empty group older than this is a leftover and is removed.
const STALE: Duration = Duration::from_secs(60);
const REMOVAL: (u32, Duration) = (50, Duration::from_millis(10));

/// A hierarchy with the memory controller.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hierarchy {
    parent: PathBuf,
    unified: bool,
    memory: bool,
}

/// All hierarchies in which worker groups are created.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    hierarchies: Vec<Hierarchy>,
}

/// Returns this machine's hierarchies, which are detected once.
pub(crate) fn groups() -> &'static Groups {
    static FOUND: OnceLock<Groups> = OnceLock::new();
    FOUND.get_or_init(|| {
        let groups = Groups::find(Path::new("/"));
        match groups.hierarchies.iter().any(|it| it.memory) {
            true => tracing::info!("each worker's memory is limited by a control group"),
            false => tracing::warn!(
                "cannot create memory control groups: host memory is limited only by the workers' own accounting"
            ),
        }
        groups
    })
}

impl Groups {
    /// Detects the hierarchies in which groups can be created, and removes empty leftover groups.
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
                Err(error) => tracing::debug!("cannot create control groups below {path} ({names}): {error}"),
            }
        }
        hierarchies.iter().for_each(Hierarchy::sweep);
        Groups { hierarchies }
    }

    /// Makes a command start its process in a dedicated group, which the process's children inherit.
    pub(crate) fn enter(&self, command: &mut Command, id: &str, memory: u64) {
        for hierarchy in &self.hierarchies {
            match hierarchy.make(id, memory) {
                Ok(door) => {
                    // SAFETY: between fork and exec the closure only calls `write`, which is async-signal-safe, on an open
                    // descriptor and a constant.
                    unsafe {
                        command.pre_exec(move || {
                            // A failure is ignored: a worker without a group is better than no worker, and `check` logs it.
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

    /// Logs a warning if a worker is not in the groups that were created for it.
    pub(crate) fn check(&self, id: &str, pid: u32) {
        let own = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let found = own.matches(&format!("/{PREFIX}{id}")).count();
        if found < self.hierarchies.len() && !own.is_empty() {
            let all = self.hierarchies.len();
            tracing::warn!(
                "worker {id} is in {found} of {all} control groups: the kernel does not enforce all its limits"
            );
        }
    }

    /// Removes the groups of a worker that has ended, and kills the processes left in them.
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
                        // SAFETY: `kill` takes integers only. The process is in the worker's group, which contains no other
                        // processes.
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

    /// Creates a group, or reuses an existing one, and returns its open `cgroup.procs` file.
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

    /// Returns the settings of a group: file, value, and whether the group is useless without it.
    fn settings(&self, memory: u64) -> Vec<(&'static str, String, bool)> {
        let mut settings = Vec::new();
        match (self.memory, self.unified) {
            // memory.oom.group stays unset: the OOM killer takes session processes first and one at a time, so that the supervisor can
            // report why.
            (true, true) => settings.extend([
                ("memory.max", memory.to_string(), true),
                ("memory.swap.max", "0".to_owned(), false),
            ]),
            (true, false) => settings.extend([
                // memory.limit must never exceed memory.memsw.limit, whether the values rise or fall; hence the first is written twice.
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
                // Fails for a group with processes, which is intended.
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

fn write(path: &Path, value: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(value.as_bytes())
}

/// Returns the folder of this process's group if a mountinfo line describes that hierarchy.
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

/// Enables the memory controller for child groups (cgroup v2), which requires moving this process into a child group.
fn delegate(parent: PathBuf) -> io::Result<Hierarchy> {
    let has = |file: &str, name: &str| {
        let text = fs::read_to_string(parent.join(file)).unwrap_or_default();
        text.split_ascii_whitespace().any(|it| it == name)
    };
    let mut memory = has("cgroup.controllers", "memory");
    if !memory {
        return Err(io::Error::other("the memory controller is not delegated"));
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
            // Not eprintln: the test harness hides what a passing test prints.
            let line =
                b"skipped: cgroup::tests::a_process_is_in_its_groups: no control group can be created here\n";
            return std::io::Write::write_all(&mut std::io::stderr(), line).unwrap();
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
