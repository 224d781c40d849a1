//! Programs that try to escape from the sandbox, or to exceed their limits.
//!
//! Every test runs with and without namespaces. If the tests run as root, all of them run again as an ordinary user.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use sandbox::{Command, Ended, IsolationRange, Level, Limits, NOBODY, SandboxError, Stop, USERS};

const LEVELS: [Level; 2] = [Level::Namespaces, Level::Restricted];

/// The compiled intruder, in a folder that every user can access.
fn intruder() -> &'static Path {
    static BUILT: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, program) = BUILT.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let program = folder.path().join("intruder");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/intruder.c");
        let source = std::env::var_os("INTRUDER_SOURCE").map_or(source, PathBuf::from);
        let mut compiler = std::process::Command::new("cc");
        let status = compiler.arg("-O1").arg("-w").arg(source).arg("-o").arg(&program).status().unwrap();
        assert!(status.success());
        (folder, program)
    });
    program
}

fn command(how: &[&str], level: Level) -> Command {
    Command::new(intruder())
        .arguments(how.iter().copied())
        .visible("/lib64")
        .visible("/lib")
        .visible("/usr/lib")
        .isolation(IsolationRange { least: level, most: level })
}

fn run(how: &[&str], level: Level) -> Ended {
    command(how, level).run().unwrap_or_else(|error| panic!("{how:?}: {error:?}"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Asserts that the intruder achieves nothing at any level.
fn gets_nothing(how: &[&str]) {
    for level in LEVELS {
        let ended = run(how, level);
        assert_eq!(ended.stop, Stop::Exited(1), "{how:?} at {level:?}: {ended:?}");
        assert_eq!(ended.level, level);
    }
}

#[test]
fn files_that_are_not_visible_cannot_be_read() {
    for file in ["/etc/shadow", "/etc/passwd", "/etc/hostname", "/proc/1/environ", "/proc/self/status"] {
        gets_nothing(&["read", file]);
    }
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::set_permissions(secret.path(), std::fs::Permissions::from_mode(0o644)).unwrap();
    gets_nothing(&["read", secret.path().to_str().unwrap()]);
}

#[test]
fn nothing_outside_the_private_folder_can_be_written() {
    let open = tempfile::tempdir().unwrap();
    std::fs::set_permissions(open.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let file = open.path().join("file");
    for path in ["/file", "/usr/lib/file", "/dev/shm/file", "/lib64/file", file.to_str().unwrap()] {
        gets_nothing(&["write", path]);
    }
    // Not even where everyone may write and the folder is visible.
    for level in LEVELS {
        let ended = command(&["write", file.to_str().unwrap()], level).visible(open.path()).run().unwrap();
        assert_eq!(ended.stop, Stop::Exited(1), "{ended:?}");
    }
    assert!(!file.exists());
    for level in LEVELS {
        assert_eq!(run(&["write", "file"], level).stop, Stop::Exited(0));
    }
}

#[test]
fn there_is_no_network() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    gets_nothing(&["internet", &listener.local_addr().unwrap().port().to_string()]);
}

#[test]
fn unix_sockets_are_reached_only_if_they_were_granted() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let [granted, other] = ["granted", "other"].map(|name| folder.path().join(name));
    let _listeners = [&granted, &other].map(|path| {
        let listener = UnixListener::bind(path).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
        listener
    });
    gets_nothing(&["local", granted.to_str().unwrap()]);
    let granting = |path: &Path, level| {
        command(&["local", path.to_str().unwrap()], level).socket(&granted).run().unwrap().stop
    };
    assert_eq!(granting(&granted, Level::Namespaces), Stop::Exited(0));
    assert_eq!(granting(&granted, Level::Restricted), Stop::Exited(0));
    // Landlock does not cover unix sockets in the file system; only a separate file system hides them.
    assert_eq!(granting(&other, Level::Namespaces), Stop::Exited(1));
}

#[test]
fn other_processes_are_neither_seen_nor_signalled() {
    let own = std::process::id().to_string();
    gets_nothing(&["others", &own]);
}

#[test]
fn the_parent_cannot_be_traced() {
    gets_nothing(&["trace"]);
}

#[test]
fn privileges_and_namespaces_are_not_to_be_had() {
    gets_nothing(&["privileges"]);
}

#[test]
fn no_descriptor_of_ours_is_inherited() {
    let _held = std::fs::File::open("/dev/null").unwrap();
    for level in LEVELS {
        assert_eq!(text(&run(&["descriptors"], level).output), "0\n");
    }
}

#[test]
fn the_command_is_nobody_in_a_folder_of_its_own() {
    let ended = run(&["identity"], Level::Namespaces);
    let said = text(&ended.output);
    let (user, rest) = said.split_once(' ').unwrap();
    let user: u32 = user.parse().unwrap();
    // If user namespaces are denied, the real user id is visible.
    assert!(user == NOBODY || user >= USERS, "{said}");
    assert_eq!(rest, format!("{user} 2 /box\n"));
}

#[test]
fn a_fork_bomb_is_stopped_and_leaves_nothing() {
    let limits = Limits { processes: 20, ..Limits::default() };
    let ended = command(&["forks"], Level::Namespaces).limits(limits).run().unwrap();
    assert_eq!(ended.stop, Stop::Exited(0));
    let made: u32 = text(&ended.output).trim().parse().unwrap();
    assert!((1..=20).contains(&made), "{made}");
}

#[test]
fn two_commands_are_counted_apart() {
    let limits = Limits { processes: 20, ..Limits::default() };
    let start = || command(&["forks"], Level::Namespaces).limits(limits.clone()).start().unwrap();
    let both = [start(), start(), start()].map(|running| running.wait().unwrap());
    for ended in both {
        let made: u32 = text(&ended.output).trim().parse().unwrap();
        assert!(made >= 10, "{made}");
    }
}

#[test]
fn memory_is_limited() {
    let limits = Limits { memory: 128 << 20, ..Limits::default() };
    for level in LEVELS {
        let ended = command(&["memory"], level).limits(limits.clone()).run().unwrap();
        // The allocation fails or the command is killed, whichever comes first.
        assert!(matches!(ended.stop, Stop::Exited(1) | Stop::Memory), "{ended:?}");
        let ended = command(&["shared-memory"], level).limits(limits.clone()).run().unwrap();
        assert_eq!(ended.stop, Stop::Memory);
        assert!(ended.peak_memory > 128 << 20);
    }
}

#[test]
fn memory_of_processes_that_execute_no_program_is_limited() {
    let limits = Limits { memory: 128 << 20, ..Limits::default() };
    for (how, level) in
        ["forked-memory", "orphaned-memory"].into_iter().flat_map(|how| LEVELS.map(|level| (how, level)))
    {
        let ended = command(&[how], level).limits(limits.clone()).run().unwrap();
        assert_eq!(ended.stop, Stop::Memory, "{how} at {level:?}: {ended:?}");
    }
}

/// A command is a copy of its caller until it executes its program, which may be that of the caller.
#[test]
fn memory_of_a_command_that_has_the_program_of_its_caller_is_limited() {
    let name = "memory_of_a_command_that_has_the_program_of_its_caller_is_limited";
    let process = std::env::var("OWN_PROGRAM").unwrap_or_default();
    if process == "command" {
        fill_shared_memory();
    }
    let own = std::env::current_exe().unwrap();
    if process.is_empty() {
        // A copy, which the command's user can execute.
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("tests");
        std::fs::copy(&own, &copy).unwrap();
        for path in [folder.path(), &copy] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let mut caller = std::process::Command::new(&copy);
        let output = caller.args(["--exact", name, "--nocapture"]).env("OWN_PROGRAM", "caller").output();
        let output = output.unwrap();
        return assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    }
    let limits = Limits { memory: 128 << 20, wall: Duration::from_secs(10), ..Limits::default() };
    for level in LEVELS {
        let ended = Command::new(&own)
            .arguments(["--exact", name, "--nocapture"])
            .environment("OWN_PROGRAM", "command")
            .visible("/lib64")
            .visible("/lib")
            .visible("/usr/lib")
            .isolation(IsolationRange { least: level, most: level })
            .limits(limits.clone())
            .run()
            .unwrap();
        assert_eq!(ended.stop, Stop::Memory, "{level:?}: {ended:?}");
    }
}

/// Fills memory to which the limit of a process on its private memory does not apply, and waits.
fn fill_shared_memory() -> ! {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, which is written within its bounds.
    unsafe {
        let memory = libc::mmap(std::ptr::null_mut(), 256 << 20, access, kind, -1, 0);
        assert_ne!(memory, libc::MAP_FAILED);
        libc::memset(memory, 1, 256 << 20);
        loop {
            libc::pause();
        }
    }
}

#[test]
fn memory_of_the_caller_does_not_count() {
    let held = vec![1u8; 256 << 20];
    let limits = Limits { memory: 128 << 20, ..Limits::default() };
    for level in LEVELS {
        let ended = command(&["waits"], level).limits(limits.clone()).run().unwrap();
        assert_eq!(ended.stop, Stop::Exited(0), "{ended:?}");
        assert!((1..64 << 20).contains(&ended.peak_memory), "{} bytes", ended.peak_memory);
    }
    assert!(held.iter().all(|byte| *byte == 1));
}

#[test]
fn the_private_folder_cannot_be_filled_beyond_its_size() {
    let limits = Limits { folder: 16 << 20, ..Limits::default() };
    let ended = command(&["folder"], Level::Namespaces).limits(limits.clone()).run().unwrap();
    assert_eq!(ended.stop, Stop::Exited(1));
    let written: u64 = text(&ended.error).trim().parse().unwrap();
    assert!(written <= 16 << 20, "{written}");
    let ended = command(&["folder"], Level::Restricted).limits(limits).run().unwrap();
    assert_eq!(ended.stop, Stop::Folder);
}

#[test]
fn output_is_cut_off() {
    let limits = Limits { output: 10_000, ..Limits::default() };
    for level in LEVELS {
        let ended = command(&["output"], level).limits(limits.clone()).run().unwrap();
        assert_eq!(ended.stop, Stop::Output);
        assert_eq!(ended.output.len(), 10_000);
    }
}

#[test]
fn time_is_limited_whether_it_is_slept_or_burnt() {
    for level in LEVELS {
        let limits = Limits { wall: Duration::from_millis(300), ..Limits::default() };
        assert_eq!(command(&["sleep"], level).limits(limits).run().unwrap().stop, Stop::Time);
        let limits = Limits { cpu: Duration::from_secs(1), ..Limits::default() };
        assert_eq!(command(&["spin"], level).limits(limits).run().unwrap().stop, Stop::Time);
    }
}

#[test]
fn a_daemon_ends_with_the_command() {
    for level in LEVELS {
        // A mark that no other process has in its arguments.
        let mark = format!("{}", 1_000_000_000 + std::process::id() * 10 + level as u32);
        let ended = run(&["daemon", &mark], level);
        assert_eq!(ended.stop, Stop::Exited(0));
        // The end of the command is reported after all its processes have exited.
        assert_eq!(processes_with(&mark), Vec::<String>::new(), "{level:?}");
    }
}

fn processes_with(argument: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if line.split(|byte| *byte == 0).any(|part| part == argument.as_bytes()) {
            found.push(text(&line));
        }
    }
    found
}

#[test]
fn a_command_that_is_dropped_is_ended() {
    for level in LEVELS {
        let mark = format!("{}", 2_000_000_000 + u64::from(std::process::id()) * 10 + level as u64);
        let running = command(&["sleep", &mark], level).start().unwrap();
        assert!(!running.is_finished());
        drop(running);
        assert_eq!(processes_with(&mark), Vec::<String>::new());
        let stopped = command(&["sleep"], level).start().unwrap().stop().unwrap();
        assert_eq!(stopped.stop, Stop::Cancelled);
    }
}

#[test]
fn files_go_in_and_come_out_and_links_do_not() {
    for level in LEVELS {
        let ended = command(&["copy"], level)
            .input("from input, ")
            .file("given", "from a file")
            .collect("made")
            .collect("missing")
            .collect("link")
            .run()
            .unwrap();
        assert_eq!(ended.stop, Stop::Exited(0), "{ended:?}");
        assert_eq!(ended.collected, [Some(b"from input, from a file".to_vec()), None, None]);
    }
}

#[test]
fn files_in_folders_are_there_and_the_command_starts_among_them() {
    for level in LEVELS {
        let start = || command(&["read", "given"], level).file("a/b/given", "text").file("a/other", "");
        assert_eq!(start().start_folder("a/b").run().unwrap().stop, Stop::Exited(0), "{level:?}");
        assert_eq!(start().start_folder("a").run().unwrap().stop, Stop::Exited(1), "{level:?}");
        assert!(matches!(start().start_folder("..").run(), Err(SandboxError::Name(_))));
    }
}

#[test]
fn processor_time_is_measured_while_it_is_used_and_at_the_end() {
    for level in LEVELS {
        let metered = Arc::new(Mutex::new((0, Duration::ZERO)));
        let meter = Arc::clone(&metered);
        let limits = Limits { cpu: Duration::from_secs(1), ..Limits::default() };
        let ended = command(&["spin"], level)
            .limits(limits)
            .meter(move |used| {
                let mut metered = meter.lock().unwrap();
                *metered = (metered.0 + 1, metered.1 + used);
            })
            .run()
            .unwrap();
        let (times, metered) = *metered.lock().unwrap();
        assert!(ended.cpu > Duration::from_millis(900), "{level:?}: {ended:?}");
        assert!(times > 2, "{level:?}: called {times} times");
        // The kernel's coarse clock may be ahead of the exact one.
        assert!(metered >= ended.cpu && metered < ended.cpu + Duration::from_millis(100), "{metered:?}");
    }
}

#[test]
fn a_caller_that_is_killed_leaves_neither_processes_nor_files() {
    let name = "a_caller_that_is_killed_leaves_neither_processes_nor_files";
    if let Some(mark) = std::env::var_os("TO_BE_KILLED") {
        let mark = mark.to_str().unwrap();
        let _running =
            LEVELS.map(|level| command(&["sleep", mark], level).file("a/b/c", "text").start().unwrap());
        println!("started");
        std::thread::sleep(Duration::from_secs(3600));
    }
    let temporary = tempfile::tempdir().unwrap();
    std::fs::set_permissions(temporary.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let mark = format!("{}", 3_000_000_000 + u64::from(std::process::id()) * 10);
    let mut caller = std::process::Command::new(std::env::current_exe().unwrap());
    caller.args(["--exact", name, "--nocapture"]).env("TO_BE_KILLED", &mark).env("TMPDIR", temporary.path());
    let mut caller = caller.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(caller.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("started")));
    let files = || std::fs::read_dir(temporary.path()).unwrap().flatten();
    let private =
        || files().filter(|file| file.file_name().to_string_lossy().starts_with("sandbox-")).count();
    let deadline = Instant::now() + Duration::from_secs(30);
    // They are started, but may not have executed their program yet.
    let mut seen = (0, 0);
    while seen != (2, 1) && Instant::now() < deadline {
        seen = (processes_with(&mark).len(), private());
    }
    caller.kill().unwrap();
    caller.wait().unwrap();
    assert_eq!(seen, (2, 1));
    while processes_with(&mark).len() + private() > 0 {
        assert!(Instant::now() < deadline, "{:?} {:?}", processes_with(&mark), files().collect::<Vec<_>>());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_descriptor_that_is_handed_over_works_both_ways() {
    for level in LEVELS {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let running = command(&["talk"], level).descriptor(theirs.into(), 7).start().unwrap();
        ours.write_all(b"a").unwrap();
        let mut answer = [0];
        ours.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"b");
        assert_eq!(running.wait().unwrap().stop, Stop::Exited(0));
    }
}

#[test]
fn output_is_told_while_it_is_printed() {
    static HEARD: Mutex<Vec<u8>> = Mutex::new(Vec::new());
    let ended = command(&["identity"], Level::Namespaces)
        .listener(|_, bytes| HEARD.lock().unwrap().extend_from_slice(bytes))
        .run()
        .unwrap();
    assert_eq!(*HEARD.lock().unwrap(), ended.output);
    assert!(!ended.output.is_empty());
}

#[test]
fn a_fault_is_told_as_the_signal_it_was() {
    for level in LEVELS {
        assert_eq!(run(&["fault"], level).stop, Stop::Signalled(libc::SIGSEGV));
    }
}

#[test]
fn a_program_that_is_not_there_is_an_error() {
    let error = Command::new("/no/such/program").run().unwrap_err();
    assert!(matches!(error, SandboxError::Setup { .. }), "{error:?}");
}

/// Reports that the next test does nothing; `cargo xtask test` collects such lines. Not eprintln, which the test harness hides.
fn skip(reason: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "skipped: the_same_holds_for_an_ordinary_user: {reason}");
}

/// Runs all tests of this file again as another user.
#[test]
fn the_same_holds_for_an_ordinary_user() {
    // SAFETY: only queries a number.
    if unsafe { libc::geteuid() } != 0 {
        return skip("the tests already run as an ordinary user");
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let [own, source] = ["tests", "intruder.c"].map(|name| folder.path().join(name));
    std::fs::copy(std::env::current_exe().unwrap(), &own).unwrap();
    std::fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/intruder.c"), &source).unwrap();
    for path in [&own, &source] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    // Not nobody's id, so that the test sees whether the mapping is made.
    const USER: u32 = 54_321;
    // The kernel lets no ordinary user create a namespace after chroot; the tests of denied namespaces cover that case.
    let mut probe = std::process::Command::new("unshare");
    if !probe.args(["--user", "true"]).uid(USER).gid(USER).current_dir("/").status().unwrap().success() {
        return skip("this machine denies namespaces to ordinary users");
    }
    let mut again = std::process::Command::new(&own);
    again.uid(USER).gid(USER).env("INTRUDER_SOURCE", &source).env_remove("TMPDIR").current_dir("/");
    let output = again.output().unwrap();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}

/// A seccomp filter for what containers often deny; child processes inherit it.
fn deny(calls: &[libc::c_long]) -> seccompiler::BpfProgram {
    use seccompiler::{SeccompAction, SeccompFilter, TargetArch};
    let rules = calls.iter().map(|&call| (call, Vec::new())).collect();
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let arch = if cfg!(target_arch = "x86_64") { TargetArch::x86_64 } else { TargetArch::aarch64 };
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).unwrap().try_into().unwrap()
}

/// Runs one test of this file again with some system calls denied.
fn again_without(test: &str, calls: &[libc::c_long]) {
    let filter = deny(calls);
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", test, "--nocapture"]).env("DENIED", test);
    // SAFETY: between fork and exec only the filter is applied, which was built before.
    unsafe { again.pre_exec(move || seccompiler::apply_filter(&filter).map_err(std::io::Error::other)) };
    let output = again.output().unwrap();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn where_namespaces_are_denied_the_rest_is_used_and_told() {
    let name = "where_namespaces_are_denied_the_rest_is_used_and_told";
    if std::env::var_os("DENIED").is_none_or(|denied| denied != name) {
        return again_without(name, &[libc::SYS_unshare]);
    }
    let command = |how: &[&str]| command(how, Level::Restricted).isolation(IsolationRange::default());
    let ended = command(&["read", "/etc/passwd"]).run().unwrap();
    assert_eq!((ended.stop, ended.level), (Stop::Exited(1), Level::Restricted));
}

#[test]
fn where_nothing_is_granted_a_command_is_refused_unless_that_is_asked_for() {
    let name = "where_nothing_is_granted_a_command_is_refused_unless_that_is_asked_for";
    if std::env::var_os("DENIED").is_none_or(|denied| denied != name) {
        return again_without(name, &[libc::SYS_unshare, libc::SYS_landlock_create_ruleset]);
    }
    let command = |least| {
        command(&["identity"], Level::Restricted).isolation(IsolationRange { least, most: Level::Namespaces })
    };
    let error = command(Level::Restricted).run().unwrap_err();
    assert!(matches!(error, SandboxError::TooWeak { .. }), "{error:?}");
    assert!(error.to_string().contains("cannot be isolated"), "{error}");
    assert_eq!(command(Level::Limited).run().unwrap().level, Level::Limited);
}
