//! Everything that the processes of a sandbox need, prepared before the fork: nothing is allocated afterwards.

use std::collections::BTreeSet;
use std::ffi::{CString, OsStr, OsString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use seccompiler::BpfProgram;

use crate::command::Command;
use crate::descriptor::FIRST_OWN;
use crate::level::Level;
use crate::report::SandboxError;
use crate::{NOBODY, USERS, WORK};

/// Devices that every program expects.
pub(crate) const DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"];

/// Folders on which a root can be mounted, in a private mount namespace; every system has one of them.
pub(crate) const ROOTS: [&std::ffi::CStr; 3] = [c"/tmp", c"/var", c"/usr"];

/// A step of building the file system. Targets are relative to the new root.
#[derive(Debug)]
pub(crate) enum Step {
    Folder {
        target: CString,
    },
    Link {
        target: CString,
        to: CString,
    },
    /// Mounts a file or folder of the machine.
    Show {
        source: CString,
        target: CString,
        folder: bool,
    },
}

/// A file in the private folder.
#[derive(Debug)]
pub(crate) struct Given {
    pub name: CString,
    pub content: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Plan {
    pub level: Level,
    /// User id to switch to, if we are root; otherwise only a user namespace changes the user.
    pub user: Option<u32>,
    /// Contents of uid_map and gid_map.
    pub uid_map: String,
    pub gid_map: String,
    pub steps: Vec<Step>,
    /// Mount options and path of the private folder.
    pub work_options: CString,
    pub work: CString,
    /// Folders for these files, parents first.
    pub folders: Vec<CString>,
    pub files: Vec<Given>,
    /// Folder below the private folder where the command starts.
    pub start_folder: Option<CString>,
    /// Whether the private folder is on the machine's file system and must be removed at the end.
    pub removes_work: bool,
    pub collected: Vec<CString>,
    pub largest_file: u64,
    pub program: CString,
    /// Pointers into these are built before the fork; the strings live as long as the plan.
    pub arguments: Vec<CString>,
    pub environment: Vec<CString>,
    pub descriptors: Vec<(i32, i32)>,
    pub limits: Vec<(u32, libc::rlimit)>,
    pub landlock: Option<OwnedFd>,
    pub filter: BpfProgram,
}

impl Plan {
    /// `folder` is the private folder on the machine's file system, for levels without a separate file system.
    pub fn new(
        command: &Command,
        level: Level,
        folder: Option<&Path>,
        user: Option<u32>,
    ) -> Result<Plan, SandboxError> {
        // SAFETY: only queries numbers.
        let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
        let owner = user.unwrap_or(NOBODY);
        let work = folder.unwrap_or_else(|| Path::new(WORK));
        let landlock = match level {
            Level::Namespaces => crate::rules::border().unwrap_or_default(),
            Level::Restricted => {
                crate::rules::files(&command.visible, work).map_err(|error| SandboxError::Io {
                    what: "cannot build the Landlock ruleset",
                    source: std::io::Error::other(error),
                })?
            }
            Level::Limited => None,
        };
        if level == Level::Restricted && landlock.is_none() {
            let why = "this kernel has no Landlock".to_owned();
            return Err(SandboxError::TooWeak { found: Level::Limited, least: Level::Restricted, why });
        }
        let filter =
            crate::filter::program(command.sockets, level == Level::Namespaces).map_err(|error| {
                SandboxError::Io {
                    what: "cannot build the system call filter",
                    source: std::io::Error::other(error),
                }
            })?;
        let arguments = std::iter::once(command.program.as_os_str())
            .chain(command.arguments.iter().map(OsString::as_os_str))
            .map(|argument| text(argument.as_bytes()))
            .collect::<Result<_, _>>()?;
        let variable =
            |(name, value): &(OsString, OsString)| text(&[name.as_bytes(), b"=", value.as_bytes()].concat());
        let files = command
            .files
            .iter()
            .map(|(name, content)| Ok(Given { name: inside(name)?, content: content.clone() }));
        let mut environment: Vec<CString> =
            command.environment.iter().map(variable).collect::<Result<_, _>>()?;
        if !command.environment.iter().any(|(name, _)| name == "TMPDIR") {
            // The only writable folder. The caller does not know its path.
            environment.push(variable(&("TMPDIR".into(), work.as_os_str().to_owned()))?);
        }
        Ok(Plan {
            level,
            user,
            uid_map: format!("{NOBODY} {uid} 1\n"),
            gid_map: format!("{NOBODY} {gid} 1\n"),
            steps: if level == Level::Namespaces { steps(command)? } else { Vec::new() },
            work_options: text(
                format!("mode=0700,uid={owner},gid={owner},size={}", command.limits.folder).as_bytes(),
            )?,
            work: text(work.as_os_str().as_bytes())?,
            folders: folders_of(command)?,
            files: files.collect::<Result<_, SandboxError>>()?,
            start_folder: command.start_folder.as_deref().map(inside).transpose()?,
            removes_work: folder.is_some(),
            collected: command.collected.iter().map(|name| single(name)).collect::<Result<_, _>>()?,
            largest_file: command.limits.file.min(i32::MAX as u64),
            program: text(command.program.as_os_str().as_bytes())?,
            arguments,
            environment,
            descriptors: descriptors(command)?,
            limits: limits(command, level, user),
            landlock,
            filter,
        })
    }
}

/// Returns a dedicated user id for a command, if we are root. Without a user namespace, processes are counted per user: with one
/// user for all commands, a fork bomb in one would keep the others from forking.
pub(crate) fn own_user() -> Option<u32> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // SAFETY: only queries a number.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_root {
        return None;
    }
    // Process ids have at most 22 bits, so no two processes assign the same id; one process reuses it after 64 commands.
    let own = USERS + 64 * std::process::id() + NEXT.fetch_add(1, Ordering::Relaxed) % 64;
    // Root in a rootless container has few user ids available.
    let maps = ["/proc/self/uid_map", "/proc/self/gid_map"].map(std::fs::read_to_string);
    let is_mapped = |user: u32| maps.iter().all(|map| map.as_ref().map_or(true, |map| maps_to(map, user)));
    [own, NOBODY].into_iter().find(|user| is_mapped(*user))
}

/// Whether a user or group id is mapped in this process's user namespace. Each line of a map is a range: first id inside, first
/// id outside, count.
fn maps_to(map: &str, user: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map(|number| number.parse::<u64>().unwrap_or(0));
        let (first, _, count) = (numbers.next(), numbers.next(), numbers.next());
        let begin = first.unwrap_or(0);
        (begin..begin + count.unwrap_or(0)).contains(&u64::from(user))
    })
}

/// Source descriptor and target number of each descriptor that is passed on.
fn descriptors(command: &Command) -> Result<Vec<(i32, i32)>, SandboxError> {
    let mut pairs = Vec::new();
    for (descriptor, number) in &command.descriptors {
        if !(3..FIRST_OWN).contains(number) || pairs.iter().any(|(_, taken)| taken == number) {
            return Err(SandboxError::Name(format!("descriptor number {number}")));
        }
        pairs.push((descriptor.as_raw_fd(), *number));
    }
    Ok(pairs)
}

fn limits(command: &Command, level: Level, user: Option<u32>) -> Vec<(u32, libc::rlimit)> {
    let limits = &command.limits;
    let both = |value: u64| libc::rlimit { rlim_cur: value, rlim_max: value };
    let seconds = limits.cpu.as_secs() + u64::from(limits.cpu.subsec_nanos() > 0);
    let mut list = vec![
        // The soft limit sends SIGXCPU, which can be ignored; the hard limit sends SIGKILL.
        (libc::RLIMIT_CPU, libc::rlimit { rlim_cur: seconds.max(1), rlim_max: seconds.max(1) + 1 }),
        // Not the address space: programs reserve terabytes of addresses.
        (libc::RLIMIT_DATA, both(limits.memory)),
        (libc::RLIMIT_FSIZE, both(limits.file)),
        (libc::RLIMIT_NOFILE, both(256)),
        (libc::RLIMIT_CORE, both(0)),
        (libc::RLIMIT_MSGQUEUE, both(0)),
        (libc::RLIMIT_MEMLOCK, both(64 << 10)),
        // Deep recursion must fault in the program, not exhaust the machine.
        (libc::RLIMIT_STACK, both(64 << 20)),
    ];
    // RLIMIT_NPROC counts all processes of a user on the machine. So it is set only if the command has a dedicated user or user
    // namespace: otherwise it would count everything else that the user runs.
    if level == Level::Namespaces || user.is_some() {
        list.push((libc::RLIMIT_NPROC, both(limits.processes)));
    }
    list
}

/// Returns the steps that build the command's file system, folders before their contents.
fn steps(command: &Command) -> Result<Vec<Step>, SandboxError> {
    let mut tree = Tree { made: vec![PathBuf::from("/")], steps: Vec::new() };
    tree.folder(Path::new(WORK))?;
    for device in DEVICES {
        tree.show(Path::new(device), 0)?;
    }
    for item in &command.visible {
        tree.show(&item.path, 0)?;
    }
    Ok(tree.steps)
}

/// The new root as planned so far.
struct Tree {
    made: Vec<PathBuf>,
    steps: Vec<Step>,
}

impl Tree {
    /// Shows the file or folder at a path, and the symbolic links on the path. Skips what does not exist or is visible already.
    fn show(&mut self, path: &Path, depth: usize) -> Result<(), SandboxError> {
        if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
            return Err(SandboxError::Name(path.display().to_string()));
        }
        if depth > 16 {
            return Ok(());
        }
        // A symbolic link on the path is recreated, and its target is shown instead.
        let mut so_far = PathBuf::from("/");
        let parts: Vec<Component> = path.components().skip(1).collect();
        for (index, part) in parts.iter().enumerate() {
            let place = so_far.join(part);
            let Ok(data) = std::fs::symlink_metadata(&place) else { return Ok(()) };
            if data.file_type().is_symlink() {
                let Ok(to) = std::fs::read_link(&place) else { return Ok(()) };
                if !self.is_inside_shown(&place) && !self.made.contains(&place) {
                    self.folder(&so_far)?;
                    self.steps
                        .push(Step::Link { target: relative(&place)?, to: text(to.as_os_str().as_bytes())? });
                    self.made.push(place);
                }
                let mut onward = normal(&so_far.join(to));
                onward.extend(&parts[index + 1..]);
                return self.show(&onward, depth + 1);
            }
            so_far = place;
        }
        if self.is_inside_shown(path) || self.is_shown(path) {
            return Ok(());
        }
        let folder = path.is_dir();
        match path.parent() {
            Some(parent) => self.folder(parent)?,
            None => return Err(SandboxError::Name("/".to_owned())),
        }
        self.steps.push(Step::Show {
            source: text(path.as_os_str().as_bytes())?,
            target: relative(path)?,
            folder,
        });
        self.made.push(path.to_owned());
        Ok(())
    }

    /// Whether this is inside a folder that is shown as a whole.
    fn is_inside_shown(&self, path: &Path) -> bool {
        self.steps.iter().any(|step| match step {
            Step::Show { source, folder: true, .. } => {
                let shown = Path::new(OsStr::from_bytes(source.as_bytes()));
                path != shown && path.starts_with(shown)
            }
            _ => false,
        })
    }

    fn is_shown(&self, path: &Path) -> bool {
        let bytes = path.as_os_str().as_bytes();
        self.steps.iter().any(|step| matches!(step, Step::Show { source, .. } if source.as_bytes() == bytes))
    }

    fn folder(&mut self, path: &Path) -> Result<(), SandboxError> {
        if self.made.iter().any(|made| made == path) || self.is_inside_shown(path) {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.folder(parent)?;
        }
        self.steps.push(Step::Folder { target: relative(path)? });
        self.made.push(path.to_owned());
        Ok(())
    }
}

/// Removes `.` and `..` lexically.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

fn relative(path: &Path) -> Result<CString, SandboxError> {
    let rest = path.strip_prefix("/").unwrap_or(path);
    text(rest.as_os_str().as_bytes())
}

/// Returns the folders of the command's files, parents first.
fn folders_of(command: &Command) -> Result<Vec<CString>, SandboxError> {
    let mut folders = BTreeSet::new();
    let names = command.files.iter().map(|(name, _)| name.as_str());
    for name in names {
        let mut parent = Path::new(name).parent();
        while let Some(folder) = parent.filter(|folder| !folder.as_os_str().is_empty()) {
            folders.insert(inside(&folder.display().to_string())?);
            parent = folder.parent();
        }
    }
    // A path sorts after its parent folders.
    Ok(folders.into_iter().collect())
}

/// Converts a relative path that stays below its starting folder; refuses any other.
fn inside(name: &str) -> Result<CString, SandboxError> {
    let normal = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    if !normal || name.is_empty() || name.ends_with('/') {
        return Err(SandboxError::Name(name.to_owned()));
    }
    text(name.as_bytes())
}

/// Converts a plain file name; refuses a path.
fn single(name: &str) -> Result<CString, SandboxError> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(part)), None) if part == name => text(name.as_bytes()),
        _ => Err(SandboxError::Name(name.to_owned())),
    }
}

fn text(bytes: &[u8]) -> Result<CString, SandboxError> {
    CString::new(bytes)
        .map_err(|_| SandboxError::Name(OsString::from_vec(bytes.to_vec()).to_string_lossy().into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_leave_the_private_folder_are_refused() {
        for name in ["", ".", "..", "a/b", "/a", "../a", "a/", "a\0b"] {
            assert!(single(name).is_err(), "{name:?}");
        }
        assert!(single("solution.hip").is_ok());
    }

    #[test]
    fn paths_of_files_stay_in_the_private_folder_and_their_folders_come_first() {
        for name in ["", ".", "..", "/a", "../a", "a/../b", "a/", "a/../../b", "a\0b"] {
            assert!(inside(name).is_err(), "{name:?}");
        }
        let command = Command::new("/bin/true").file("a/b/c.h", "").file("a/d.h", "").file("e.h", "");
        assert_eq!(folders_of(&command).unwrap(), [c"a".to_owned(), c"a/b".to_owned()]);
    }

    #[test]
    fn a_user_is_given_only_where_the_map_of_users_has_it() {
        let whole = "         0          0 4294967295\n";
        let rootless = "         0       1000          1\n         1     100000      65536\n";
        assert!(maps_to(whole, USERS) && maps_to(whole, NOBODY));
        assert!(!maps_to(rootless, USERS) && maps_to(rootless, NOBODY) && maps_to(rootless, 0));
        assert!(!maps_to("0 1000 1\n", NOBODY) && !maps_to("", 0));
    }

    #[test]
    fn a_folder_is_shown_whatever_of_it_was_shown_before() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/b/file"), "").unwrap();
        let steps = steps(&Command::new(root.join("a/b/file")).visible(root.join("a"))).unwrap();
        let shown = |path: &Path| {
            steps.iter().any(|step| matches!(step, Step::Show { source, .. } if source.as_bytes() == path.as_os_str().as_bytes()))
        };
        assert!(shown(&root.join("a")), "{steps:?}");
    }

    #[test]
    fn links_on_the_way_are_made_and_what_they_lead_to_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        std::fs::write(root.join("real/file"), "").unwrap();
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        let steps = steps(&Command::new(root.join("link/file"))).unwrap();
        let shown = |path: &Path| {
            steps.iter().any(|step| matches!(step, Step::Show { source, .. } if source.as_bytes() == path.as_os_str().as_bytes()))
        };
        assert!(shown(&root.join("real/file")), "{steps:?}");
        assert!(steps.iter().any(|step| matches!(step, Step::Link { to, .. } if to.as_bytes() == b"real")));
    }
}
