//! Isolation of tenants of one worker and of users of one machine: none sees, accesses or exhausts the resources of another.

use std::fs;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use e2e::{Ended, Program, Running, Status, Worker, WorkerOptions, eventually, remora};
use transport::greet::{self, Credentials};
use transport::{Link, TransportError};
use wire::{Hello, Purpose, RejectCode, Welcome, WireError};

const TIMEOUT: Duration = Duration::from_secs(20);
const ALICE: &str = "alice-0123456789-abcdef";
const BOB: &str = "bob-0123456789-abcdef";
const ADMIN: &str = "admin-0123456789-abcdef";

struct Shared {
    worker: Worker,
    folder: tempfile::TempDir,
}

impl Shared {
    /// Starts a worker with two tenants: Alice has limits, Bob has none.
    fn start() -> Shared {
        let folder = tempfile::tempdir().unwrap();
        Shared::write(folder.path(), &["alice", "bob"]);
        let (file, store) = (folder.path().join("tokens.toml"), folder.path().join("store"));
        let (file, store) = (file.to_str().unwrap(), store.to_str().unwrap());
        let worker = Worker::start_with(&WorkerOptions::with(&["--tokens", file, "--upload-cache", store]));
        Shared { worker, folder }
    }

    fn write(folder: &Path, tenants: &[&str]) {
        let mut text = String::new();
        for (name, token, more) in
            [("alice", ALICE, "max-sessions = 1\nmemory-limit = \"64M\"\n"), ("bob", BOB, "")]
        {
            if tenants.contains(&name) {
                text += &format!("[[token]]\nname = \"{name}\"\ntoken = \"{token}\"\n{more}");
            }
        }
        text += &format!("[[token]]\nname = \"operator\"\nrole = \"admin\"\ntoken = \"{ADMIN}\"\n");
        let path = folder.join("tokens.toml");
        let _ = fs::remove_file(&path);
        transport::token::write_new(&path, &text).unwrap();
    }

    fn program(&self, name: &str, token: &str) -> Command {
        let mut command = Program::test(name).on(&self.worker);
        command.env("REMORA_TOKEN", token);
        command
    }

    fn command(&self, arguments: &[&str], variable: &str, token: &str) -> Command {
        let mut command = Command::new(remora());
        for name in ["REMORA_TOKEN", "REMORA_TOKEN_FILE", "REMORA_ADMIN_TOKEN", "REMORA_ADMIN_TOKEN_FILE"] {
            command.env_remove(name);
        }
        command.args(arguments).env("REMORA_WORKER", self.worker.endpoint().to_string()).env(variable, token);
        command
    }

    fn remora(&self, arguments: &[&str], variable: &str, token: &str) -> Ended {
        Running::start(&mut self.command(arguments, variable, token)).finish()
    }

    fn status(&self, variable: &str, token: &str) -> Status {
        Status::query(&mut self.command(&["devices", "--json"], variable, token))
    }

    fn link(&self) -> Link {
        let stream = TcpStream::connect((self.worker.host(), self.worker.port())).unwrap();
        Link::from_tcp(stream).unwrap()
    }

    fn open(&self, hello: &Hello, token: &str, secret: Option<&[u8; 32]>) -> Result<Welcome, WireError> {
        let link = self.link();
        let credentials = Credentials { token: Some(token.as_bytes()), secret };
        let opened = greet::open_session(&link, hello, &credentials, TIMEOUT, TIMEOUT);
        opened.map(|(welcome, _)| welcome).map_err(wire_error)
    }
}

fn wire_error(error: TransportError) -> WireError {
    match error {
        TransportError::Wire(error) => error,
        other => panic!("{other}"),
    }
}

fn code(error: &WireError) -> RejectCode {
    let WireError::Rejected { code, .. } = error else { panic!("{error}") };
    *code
}

fn hello() -> Hello {
    Hello {
        min_version: wire::MIN_VERSION,
        max_version: wire::MAX_VERSION,
        client: "tenant".to_owned(),
        pid: std::process::id(),
        ..Hello::default()
    }
}

#[test]
fn a_tenant_sees_and_reaches_only_its_own_sessions_and_administers_none() {
    let shared = Shared::start();
    let held = Running::start(&mut shared.program("hold_memory", BOB));
    held.wait_for_line("holding");
    let sessions = |variable, token| shared.status(variable, token).sessions().len();
    assert_eq!(sessions("REMORA_TOKEN", BOB), 1);
    assert_eq!(sessions("REMORA_TOKEN", ALICE), 0);
    assert_eq!(shared.status("REMORA_TOKEN", ALICE).memory_used(), 0);
    assert_eq!(sessions("REMORA_ADMIN_TOKEN", ADMIN), 1);
    let all = shared.status("REMORA_ADMIN_TOKEN", ADMIN);
    assert_eq!(all.json["sessions"][0]["tenant"], "bob");

    // Neither another tenant nor the owner of a session may snapshot it; only the administration token permits that.
    let id = all.json["sessions"][0]["id"].as_str().unwrap().to_owned();
    let out = shared.folder.path().join("snapshot");
    let arguments = ["snapshot", &id, "--keep", "--out", out.to_str().unwrap()];
    for token in [ALICE, BOB] {
        let refused = shared.remora(&arguments, "REMORA_TOKEN", token);
        assert!(
            !refused.status.success() && refused.stderr.contains("REMORA_ADMIN_TOKEN_FILE"),
            "{refused:?}"
        );
    }
    shared.remora(&arguments, "REMORA_ADMIN_TOKEN", ADMIN).expect_success();
    // The administration token cannot open a session.
    assert_eq!(code(&shared.open(&hello(), ADMIN, None).unwrap_err()), RejectCode::Access);
    held.finish().expect_success();
}

#[test]
fn a_session_is_not_reattached_with_the_token_of_another_tenant() {
    let shared = Shared::start();
    let welcome = shared.open(&hello(), BOB, None).unwrap();
    let secret = welcome.session_secret;
    for purpose in [Purpose::Session, Purpose::Strand] {
        let received = u64::from(purpose == Purpose::Strand);
        let again = Hello { session_id: welcome.session_id, purpose: purpose as u8, received, ..hello() };
        let refused = shared.open(&again, ALICE, Some(&secret)).unwrap_err();
        assert_eq!(code(&refused), RejectCode::UnknownSession, "{refused}");
    }
    let again = Hello { session_id: welcome.session_id, ..hello() };
    assert_eq!(shared.open(&again, BOB, Some(&secret)).unwrap().session_id, welcome.session_id);
}

#[test]
fn limits_and_uploads_are_those_of_the_token() {
    let shared = Shared::start();
    let held = Running::start(shared.program("hold_memory", ALICE).arg("32"));
    held.wait_for_line("holding");
    let full = shared.open(&hello(), ALICE, None).unwrap_err();
    assert!(code(&full) == RejectCode::Full && full.to_string().contains("alice"), "{full}");
    held.finish().expect_success();
    eventually("her session is over", || shared.status("REMORA_TOKEN", ALICE).sessions().is_empty());
    let refused = Running::start(shared.program("hold_memory", ALICE).arg("100")).finish();
    assert!(!refused.status.success(), "{refused:?}");
    Running::start(shared.program("hold_memory", BOB).arg("100")).finish().expect_success();

    let sent = |token| {
        let mut command = shared.program("weights", token);
        Running::start(command.env("REMORA_UPLOAD_CACHE", "always")).finish().expect_success();
    };
    eventually("her session is over", || shared.status("REMORA_TOKEN", ALICE).sessions().is_empty());
    sent(ALICE);
    sent(BOB);
    assert_eq!(fs::read_dir(shared.folder.path().join("store")).unwrap().count(), 2);
}

#[test]
fn a_token_that_is_removed_ends_its_sessions_when_the_file_is_read_again() {
    let shared = Shared::start();
    let held = Running::start(&mut shared.program("hold_memory", BOB));
    held.wait_for_line("holding");
    Shared::write(shared.folder.path(), &["alice"]);
    // SAFETY: kill takes no pointers; the process is the worker this test started.
    assert_eq!(unsafe { libc::kill(shared.worker.pid() as libc::pid_t, libc::SIGHUP) }, 0);
    eventually("his session is over", || shared.status("REMORA_ADMIN_TOKEN", ADMIN).sessions().is_empty());
    assert_eq!(code(&shared.open(&hello(), BOB, None).unwrap_err()), RejectCode::Access);
    assert!(shared.open(&hello(), ALICE, None).is_ok());
}

/// Runs `work` on a thread with another user ID; `None` if this process may not change its user.
fn as_user<T: Send + 'static>(user: u32, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let thread = std::thread::spawn(move || {
        let (keep, user) = (libc::c_long::from(-1), libc::c_long::from(user));
        // SAFETY: the raw system call changes the user ID of this thread only, and the thread ends afterwards.
        let changed = unsafe { libc::syscall(libc::SYS_setresuid, keep, user, keep) };
        (changed == 0).then(work)
    });
    thread.join().unwrap()
}

#[test]
fn a_worker_without_a_token_refuses_other_users_of_the_machine() {
    let inspect = |link: &Link| {
        let hello = Hello { purpose: Purpose::Inspect as u8, ..hello() };
        greet::greet::<wire::Status>(link, &hello, &Credentials::default(), TIMEOUT, TIMEOUT).map(drop)
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listen = format!("unix:{}", path.display());
    let on_unix = Worker::start_with(&WorkerOptions { listen, ..WorkerOptions::default() });
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    inspect(&Link::from_unix(UnixStream::connect(&path).unwrap())).unwrap();
    let on_tcp = Worker::start();
    let port = on_tcp.port();
    inspect(&Link::from_tcp(TcpStream::connect(("127.0.0.1", port)).unwrap()).unwrap()).unwrap();

    let strangers = as_user(12345, move || {
        let unix = inspect(&Link::from_unix(UnixStream::connect(&path).unwrap()));
        let tcp = inspect(&Link::from_tcp(TcpStream::connect(("127.0.0.1", port)).unwrap()).unwrap());
        (unix.unwrap_err(), tcp.unwrap_err())
    });
    let Some((unix, tcp)) = strangers else {
        return e2e::skip("this process may not change its user ID");
    };
    for error in [unix, tcp] {
        assert_eq!(code(&wire_error(error)), RejectCode::Access);
    }
    eventually("the log names the user", || {
        on_tcp.log().contains("12345") && on_unix.log().contains("12345")
    });
}
