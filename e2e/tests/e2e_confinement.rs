//! Sandbox tests: what hostile code in a session process can reach, tried in real executors.
//!
//! The test stops the main thread of an executor with ptrace and makes it execute system calls, like an attacker who has taken over the
//! process. This needs root or CAP_SYS_PTRACE.
#![cfg(target_arch = "x86_64")]

mod intrusion;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use e2e::{Program, Running, Worker, WorkerOptions, eventually};
use intrusion::Intruder;
use libc::{EACCES, ENOSYS, EPERM};

/// An unprivileged user ID without an entry in /etc/passwd.
const ORDINARY_USER: u32 = 54_321;
/// Token of the workers in these tests.
const TOKEN: &str = "7c0d1f6be29b4c0f9a53d7c1448e20b6b1f2f5a4c93e4d7a";

/// A program that holds a session, and the session's process.
struct SteadySession {
    program: Running,
    executor: u32,
}

impl SteadySession {
    fn on(worker: &Worker) -> SteadySession {
        let known: Vec<u32> = executors(worker);
        let mut command = Program::test("steady").on(worker);
        let program = Running::start(command.env("REMORA_TOKEN", TOKEN));
        program.wait_for_line("round 0");
        let new = executors(worker).into_iter().find(|pid| !known.contains(pid));
        SteadySession { program, executor: new.expect("the session has a process") }
    }

    /// Asserts that the program continues.
    fn expect_progress(&self) {
        let rounds = || self.program.stdout_so_far().lines().count();
        let before = rounds();
        eventually("the program continues", || rounds() > before + 1);
    }
}

fn executors(worker: &Worker) -> Vec<u32> {
    let processes = worker.processes().into_iter();
    processes.filter(|(_, command)| command.ends_with(" executor")).map(|(pid, _)| pid).collect()
}

/// A line of /proc/PID/status.
fn status(pid: u32, name: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_default().trim().to_owned()
}

fn is_root() -> bool {
    // SAFETY: takes no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Opens a file; returns the negative error number on failure.
fn open(intruder: &Intruder, path: &str, flags: i32) -> i64 {
    intruder
        .with_text(path, |address| intruder.call(libc::SYS_openat, [-100, address, flags.into(), 0, 0, 0]))
}

/// Everything that an attacker could try. None of it may succeed.
fn attack(session: &SteadySession, other: u32, worker: &Worker, token: &Path, store: &Path) {
    let intruder = Intruder::new(session.executor);
    let (own, victim, supervisor) = (i64::from(session.executor), i64::from(other), i64::from(worker.pid()));
    assert_eq!(intruder.call(libc::SYS_getpid, [0; 6]), own, "the injected system call runs in the executor");

    let (read, write) = (libc::O_RDONLY, libc::O_RDWR);
    for (path, flags) in [
        (token.to_str().unwrap().to_owned(), read),
        (store.to_str().unwrap().to_owned(), read),
        ("/etc/passwd".to_owned(), read),
        ("/".to_owned(), read),
        ("/tmp/remora-intruder".to_owned(), write | libc::O_CREAT),
        ("/proc/self/mem".to_owned(), write),
        ("/proc/self/environ".to_owned(), read),
        ("/proc/self/exe".to_owned(), read),
        (format!("/proc/{other}/mem"), write),
        (format!("/proc/{other}/environ"), read),
        (format!("/proc/{supervisor}/mem"), write),
        (format!("/proc/{supervisor}/environ"), read),
        ("/dev/null".to_owned(), write),
    ] {
        let result = open(&intruder, &path, flags);
        assert_eq!(result, i64::from(-EACCES), "open of {path}");
    }

    let sigchld = i64::from(libc::SIGCHLD);
    let (unix, inet, stream) = (libc::AF_UNIX.into(), libc::AF_INET.into(), libc::SOCK_STREAM.into());
    let refused: &[(&str, libc::c_long, [i64; 6])] = &[
        ("socket AF_INET", libc::SYS_socket, [inet, stream, 0, 0, 0, 0]),
        ("socket AF_UNIX", libc::SYS_socket, [unix, stream, 0, 0, 0, 0]),
        ("connect", libc::SYS_connect, [3, 0, 16, 0, 0, 0]),
        ("bind", libc::SYS_bind, [3, 0, 16, 0, 0, 0]),
        ("listen", libc::SYS_listen, [3, 1, 0, 0, 0, 0]),
        ("ptrace", libc::SYS_ptrace, [libc::PTRACE_ATTACH.into(), victim, 0, 0, 0, 0]),
        ("process_vm_readv", libc::SYS_process_vm_readv, [victim, 0, 0, 0, 0, 0]),
        ("process_vm_writev", libc::SYS_process_vm_writev, [victim, 0, 0, 0, 0, 0]),
        ("kill of an executor", libc::SYS_kill, [victim, 0, 0, 0, 0, 0]),
        ("kill of the supervisor", libc::SYS_kill, [supervisor, 0, 0, 0, 0, 0]),
        ("kill of everything", libc::SYS_kill, [-1, 0, 0, 0, 0, 0]),
        ("tgkill", libc::SYS_tgkill, [victim, victim, 0, 0, 0, 0]),
        ("tkill", libc::SYS_tkill, [victim, 0, 0, 0, 0, 0]),
        ("rt_sigqueueinfo", libc::SYS_rt_sigqueueinfo, [victim, 0, 0, 0, 0, 0]),
        ("pidfd_open", libc::SYS_pidfd_open, [victim, 0, 0, 0, 0, 0]),
        ("pidfd_getfd", libc::SYS_pidfd_getfd, [3, 3, 0, 0, 0, 0]),
        ("prlimit64 of an executor", libc::SYS_prlimit64, [victim, 7, 0, 0, 0, 0]),
        ("F_SETOWN", libc::SYS_fcntl, [3, libc::F_SETOWN.into(), victim, 0, 0, 0]),
        ("fork", libc::SYS_fork, [0; 6]),
        ("vfork", libc::SYS_vfork, [0; 6]),
        ("clone of a process", libc::SYS_clone, [sigchld, 0, 0, 0, 0, 0]),
        ("execve", libc::SYS_execve, [0; 6]),
        ("execveat", libc::SYS_execveat, [0; 6]),
        ("setuid", libc::SYS_setuid, [0; 6]),
        ("setresuid", libc::SYS_setresuid, [0; 6]),
        ("setgroups", libc::SYS_setgroups, [0; 6]),
        ("unshare", libc::SYS_unshare, [libc::CLONE_NEWUSER.into(), 0, 0, 0, 0, 0]),
        ("setns", libc::SYS_setns, [3, 0, 0, 0, 0, 0]),
        ("mount", libc::SYS_mount, [0; 6]),
        ("chroot", libc::SYS_chroot, [0; 6]),
        ("bpf", libc::SYS_bpf, [0; 6]),
        ("keyctl", libc::SYS_keyctl, [0; 6]),
        ("perf_event_open", libc::SYS_perf_event_open, [0; 6]),
        ("io_uring_setup", libc::SYS_io_uring_setup, [1, 0, 0, 0, 0, 0]),
        ("personality", libc::SYS_personality, [0; 6]),
        ("seccomp", libc::SYS_seccomp, [0; 6]),
        ("init_module", libc::SYS_init_module, [0; 6]),
        ("TIOCSTI", libc::SYS_ioctl, [2, libc::TIOCSTI as i64, 0, 0, 0, 0]),
        ("PR_SET_SECCOMP", libc::SYS_prctl, [libc::PR_SET_SECCOMP.into(), 0, 0, 0, 0, 0]),
        ("shmget", libc::SYS_shmget, [0, 4096, 0o1000, 0, 0, 0]),
        ("symlink", libc::SYS_symlink, [0; 6]),
        ("mkdir", libc::SYS_mkdir, [0; 6]),
        ("chmod", libc::SYS_chmod, [0; 6]),
        ("open_by_handle_at", libc::SYS_open_by_handle_at, [0; 6]),
    ];
    for (name, number, arguments) in refused {
        assert_eq!(intruder.call(*number, *arguments), i64::from(-EPERM), "{name}");
    }
    assert_eq!(intruder.call(libc::SYS_clone3, [0; 6]), i64::from(-ENOSYS), "clone3");
    drop(intruder);
    session.expect_progress();
}

/// Asserts the kernel's view of a sandboxed process: seccomp, no core dumps, not dumpable.
fn expect_confined(pid: u32) {
    assert_eq!(status(pid, "NoNewPrivs"), "1");
    assert_eq!(status(pid, "Seccomp"), "2");
    assert_eq!(status(pid, "CapEff"), "0000000000000000");
    for thread in fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten() {
        let text = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        assert!(text.is_empty() || text.contains("Seccomp:\t2"), "a thread has no filter:\n{text}");
    }
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
    // The /proc files of a dumpable process belong to its user, those of others to root.
    assert_eq!(fs::metadata(format!("/proc/{pid}/mem")).unwrap().uid(), 0, "not dumpable");
}

/// A worker with a token file and an upload folder in `folder`, run by `user`.
fn worker(folder: &Path, user: Option<u32>, more: &[&str]) -> Worker {
    let token = folder.join("token");
    fs::write(&token, TOKEN).unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    let uploads = folder.join("uploads");
    fs::create_dir(&uploads).unwrap();
    if let Some(user) = user {
        for path in [folder, &token, &uploads] {
            std::os::unix::fs::chown(path, Some(user), Some(user)).unwrap();
        }
    }
    let mut options = WorkerOptions::with(more);
    for (option, path) in [("--upload-cache", &uploads), ("--token-file", &token)] {
        options.arguments.extend([option.to_owned(), path.to_str().unwrap().to_owned()]);
    }
    options.user = user;
    Worker::start_with(&options)
}

#[test]
fn hostile_code_in_an_executor_of_root_reaches_nothing_of_the_machine_and_nobody_else() {
    if !is_root() {
        return e2e::skip("only root can start a worker of root and stop its processes");
    }
    let folder = tempfile::tempdir().unwrap();
    let worker = worker(folder.path(), None, &[]);
    let (session, other) = (SteadySession::on(&worker), SteadySession::on(&worker));
    let users = [&session, &other].map(|it| status(it.executor, "Uid"));
    assert!(users.iter().all(|user| !user.split_whitespace().any(|number| number == "0")), "{users:?}");
    assert_ne!(users[0], users[1], "each session has a separate user ID");
    let groups = [&session, &other].map(|it| status(it.executor, "Groups"));
    assert!(groups.iter().all(|groups| !groups.split_whitespace().any(|number| number == "0")), "{groups:?}");
    expect_confined(session.executor);
    attack(&session, other.executor, &worker, &folder.path().join("token"), &folder.path().join("uploads"));
    other.expect_progress();
}

#[test]
fn hostile_code_in_an_executor_of_an_ordinary_user_reaches_nothing_of_the_machine_and_nobody_else() {
    if !is_root() {
        return e2e::skip("only root can start a worker of another user and stop its processes");
    }
    let folder = tempfile::tempdir().unwrap();
    let worker = worker(folder.path(), Some(ORDINARY_USER), &[]);
    let (session, other) = (SteadySession::on(&worker), SteadySession::on(&worker));
    assert!(status(session.executor, "Uid").starts_with(&ORDINARY_USER.to_string()));
    expect_confined(session.executor);
    attack(&session, other.executor, &worker, &folder.path().join("token"), &folder.path().join("uploads"));
    other.expect_progress();
}

#[test]
fn without_confinement_the_same_attacks_succeed_and_the_worker_warns() {
    if !is_root() {
        return e2e::skip("only root can stop processes of a worker");
    }
    let folder = tempfile::tempdir().unwrap();
    let worker = worker(folder.path(), None, &["--unconfined-executors"]);
    worker.expect_log("--unconfined-executors");
    let session = SteadySession::on(&worker);
    assert_eq!(status(session.executor, "Seccomp"), "0");
    let intruder = Intruder::new(session.executor);
    let token = folder.path().join("token");
    assert!(open(&intruder, token.to_str().unwrap(), libc::O_RDONLY) >= 0, "injected system calls work");
    assert_eq!(intruder.call(libc::SYS_kill, [worker.pid().into(), 0, 0, 0, 0, 0]), 0);
    drop(intruder);
    session.expect_progress();
}

#[test]
fn an_executor_gets_no_secret_in_its_environment() {
    let mut options = WorkerOptions::default();
    options.environment.push(("REMORA_TOKEN".to_owned(), TOKEN.to_owned()));
    options.environment.push(("SOME_API_KEY".to_owned(), "another-secret".to_owned()));
    let worker = Worker::start_with(&options);
    let session = SteadySession::on(&worker);
    let executor = session.executor;
    let environment = fs::read(format!("/proc/{executor}/environ")).expect("the test may look at it");
    let environment = String::from_utf8_lossy(&environment);
    assert!(!environment.contains("secret") && !environment.contains(TOKEN), "{environment}");
}
