//! Memory available to this process, considering cgroup limits, and detection of out-of-memory kills.
//!
//! Reads cgroup v1 and v2, also nested and mounted inside a container.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Maximum bytes of memory that this process and its children may use. The value is cached: a process that enters a sandbox must
/// call this before.
pub fn machine_memory() -> u64 {
    static FOUND: OnceLock<u64> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // SAFETY: sysconf takes a number and has no side effects.
        let (pages, size) =
            unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
        let installed = if pages <= 0 || size <= 0 { u64::MAX } else { pages as u64 * size as u64 };
        memory_groups(Path::new("/")).iter().filter_map(Group::limit).fold(installed, u64::min)
    })
}

/// Counts of processes that the kernel's OOM killer ended: in this process's cgroup and below it, where the kernel counts that, and
/// on the whole machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutOfMemoryKills {
    group: Option<u64>,
    machine: u64,
}

impl OutOfMemoryKills {
    /// Reads the current counters.
    pub fn now() -> OutOfMemoryKills {
        OutOfMemoryKills::within(Path::new("/"))
    }

    fn within(root: &Path) -> OutOfMemoryKills {
        let group = memory_groups(root).first().and_then(Group::kills);
        let machine = read_to_string(root.join("proc/vmstat")).ok().and_then(|text| field(&text, "oom_kill"));
        OutOfMemoryKills { group, machine: machine.unwrap_or(0) }
    }

    /// Whether a process was OOM-killed since `before`. Kills due to the limit of a parent cgroup, or because the machine ran out of
    /// memory, show up only in the machine-wide counter.
    pub fn rose_since(&self, before: &OutOfMemoryKills) -> bool {
        self.group > before.group || self.machine > before.machine
    }
}

/// A cgroup with the memory controller.
#[derive(Debug)]
struct Group {
    folder: PathBuf,
    unified: bool,
}

impl Group {
    /// Memory limit in bytes; `None` for no limit.
    fn limit(&self) -> Option<u64> {
        let name = if self.unified { "memory.max" } else { "memory.limit_in_bytes" };
        read_to_string(self.folder.join(name)).ok()?.trim().parse().ok()
    }

    fn kills(&self) -> Option<u64> {
        let name = if self.unified { "memory.events" } else { "memory.oom_control" };
        field(&read_to_string(self.folder.join(name)).ok()?, "oom_kill")
    }
}

/// Parses the number after `name` at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// The cgroups this process is in, innermost first, with all visible ancestors.
fn memory_groups(root: &Path) -> Vec<Group> {
    let read = |name: &str| read_to_string(root.join("proc/self").join(name)).unwrap_or_default();
    let (own, mounts) = (read("cgroup"), read("mountinfo"));
    let mut groups = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let unified = number == "0" && controllers.is_empty();
        if !unified && !controllers.split(',').any(|name| name == "memory") {
            continue;
        }
        for (inside, mount) in mounts.lines().filter_map(|line| hierarchy(line, unified)) {
            let mount = root.join(mount.trim_start_matches('/'));
            // The mount may be a nested cgroup, as in a container.
            let below = Path::new(path).strip_prefix(inside).unwrap_or(Path::new("")).to_owned();
            let visible = if mount.join(&below).is_dir() { below } else { PathBuf::new() };
            groups.extend(visible.ancestors().map(|at| Group { folder: mount.join(at), unified }));
        }
    }
    // A cgroup v2 group without the memory controller lacks these files.
    groups.retain(|group| {
        let name = if group.unified { "memory.events" } else { "memory.limit_in_bytes" };
        group.folder.join(name).exists()
    });
    groups
}

/// Parses a line of mountinfo: the cgroup that is mounted, and its mount point.
fn hierarchy(line: &str, unified: bool) -> Option<(&str, &str)> {
    let (head, tail) = line.split_once(" - ")?;
    let mut tail = tail.split(' ');
    let (kind, options) = (tail.next()?, tail.nth(1)?);
    let fits = match unified {
        true => kind == "cgroup2",
        false => kind == "cgroup" && options.split(',').any(|option| option == "memory"),
    };
    let mut head = head.split(' ').skip(3);
    fits.then_some((head.next()?, head.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fake(PathBuf);

    impl Fake {
        fn new(name: &str, own: &str, mounts: &str) -> Fake {
            let root = std::env::temp_dir().join(format!("remora-groups-{name}-{}", std::process::id()));
            let fake = Fake(root);
            fake.write("proc/self/cgroup", own);
            fake.write("proc/self/mountinfo", mounts);
            fake
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        fn limit(&self) -> Option<u64> {
            memory_groups(&self.0).iter().filter_map(Group::limit).min()
        }
    }

    impl Drop for Fake {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    const UNIFIED: &str = "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn the_least_of_nested_unified_groups_holds_and_its_kills_are_counted() {
        let fake = Fake::new("v2", "0::/a.slice/b.service\n", UNIFIED);
        fake.write("sys/fs/cgroup/a.slice/memory.max", "1000000\n");
        fake.write("sys/fs/cgroup/a.slice/memory.events", "low 0\noom_kill 9\n");
        fake.write("sys/fs/cgroup/a.slice/b.service/memory.max", "max\n");
        fake.write("sys/fs/cgroup/a.slice/b.service/memory.events", "oom 4\noom_kill 3\noom_group_kill 0\n");
        fake.write("proc/vmstat", "nr_free_pages 5\noom_kill 12\n");
        assert_eq!(fake.limit(), Some(1_000_000));
        let before = OutOfMemoryKills::within(&fake.0);
        assert_eq!(before, OutOfMemoryKills { group: Some(3), machine: 12 });
        fake.write("sys/fs/cgroup/a.slice/b.service/memory.events", "oom_kill 4\n");
        assert!(OutOfMemoryKills::within(&fake.0).rose_since(&before));
        assert!(!before.rose_since(&before));
    }

    #[test]
    fn groups_of_the_first_generation_count_beside_a_unified_hierarchy_without_memory() {
        let mounts = "31 23 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
                      35 23 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      36 23 0:32 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        let fake = Fake::new("v1", "4:memory:/x/y\n1:cpu:/\n0::/\n", mounts);
        fake.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        fake.write("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "8192\n");
        fake.write("sys/fs/cgroup/memory/x/y/memory.limit_in_bytes", "16384\n");
        fake.write("sys/fs/cgroup/memory/x/y/memory.oom_control", "under_oom 0\noom_kill 2\n");
        assert_eq!(fake.limit(), Some(8192));
        assert_eq!(OutOfMemoryKills::within(&fake.0).group, Some(2));
    }

    #[test]
    fn a_container_sees_its_group_where_it_is_mounted() {
        let mounts = "35 23 0:31 /docker/c1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let fake = Fake::new("container", "4:memory:/docker/c1\n", mounts);
        fake.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "4096\n");
        assert_eq!(fake.limit(), Some(4096));
    }

    #[test]
    fn without_control_groups_the_machine_has_what_is_installed() {
        let fake = Fake::new("none", "", "");
        assert_eq!(fake.limit(), None);
        assert!(machine_memory() > 1 << 20);
    }
}
