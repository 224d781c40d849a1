//! Tests of `remora serve`, `remora submit` and `remora board`: keys, a killed server, and a client that reconnects to the next one.
//!
//! The judge is a script that prints the verdict which the submitted source contains; the worker is the real one.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const REMORA: &str = env!("CARGO_BIN_EXE_remora");
const JUDGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../board/server/tests/board/rig/judge.sh");
const PATIENCE: Duration = Duration::from_secs(120);

struct Board {
    folder: tempfile::TempDir,
    server: Option<Child>,
    address: String,
}

impl Board {
    fn new() -> Board {
        Board { folder: tempfile::tempdir().unwrap(), server: None, address: String::new() }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Starts a server; a second one listens on the address of the first.
    fn serve(&mut self) {
        let listen = if self.address.is_empty() { "127.0.0.1:0".to_owned() } else { self.address.clone() };
        let mut child = Command::new(REMORA)
            .args(["serve", "--ready", "--slots", "2", "--listen", &listen, "--data"])
            .arg(self.data())
            .args(["--judge", "/bin/sh", "--judge", JUDGE])
            .env("REMORA_LOG", "error")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        self.address = line.trim().strip_prefix("listening on http://").unwrap().to_owned();
        self.server = Some(child);
    }

    /// Kills the server with SIGKILL, as the OOM killer would.
    fn kill(&mut self) {
        let mut child = self.server.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn admin(&self, arguments: &[&str]) -> Output {
        Command::new(REMORA).arg("board").args(arguments).arg("--data").arg(self.data()).output().unwrap()
    }

    fn key(&self, name: &str) -> String {
        assert!(self.admin(&["user", "add", name]).status.success());
        let made = self.admin(&["key", "create", name]);
        assert!(made.status.success(), "{made:?}");
        String::from_utf8(made.stdout).unwrap().trim().to_owned()
    }

    fn submit(&self, key: &str, source: &Path) -> Child {
        Command::new(REMORA)
            .args(["submit", "--problem", "leaky-relu", "--endpoint", "checker", "--json", "--server"])
            .arg(format!("http://{}", self.address))
            .arg(source)
            .env("REMORA_BOARD_KEY", key)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn request(&self, method: &str, path: &str, key: &str, body: &str) -> Value {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.address,
            body.len()
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (_, body) = text.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    fn source(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn wait_until(&self, what: &str, mut condition: impl FnMut(&Board) -> bool) {
        let started = Instant::now();
        while !condition(self) {
            assert!(started.elapsed() < PATIENCE, "{what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        if let Some(mut child) = self.server.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn a_server_that_is_killed_loses_nothing_and_repeats_no_verdict() {
    let mut board = Board::new();
    let keys: Vec<String> = (0..4).map(|user| board.key(&format!("user{user}"))).collect();
    board.serve();
    let gate = board.folder.path().join("gate");
    let source = format!("//hold={}//", gate.display());
    let body = serde_json::json!({
        "solution_code": source, "problem": "leaky-relu", "gpu_type": "MI300X", "endpoint": "checker"
    })
    .to_string();
    let mut ids = Vec::new();
    for key in keys.iter().cycle().take(20) {
        let answer = board.request("POST", "/api/submissions", key, &body);
        ids.push((key, answer["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()));
    }
    // A client that waits in a terminal does not notice the kill and still gets the verdict.
    let watcher = board.submit(&keys[0], &board.source("kernel.hip", &source));
    // Two slots, and one submission that is compiled ahead.
    board.wait_until("the server takes 21 submissions and runs 3", |board| {
        let queue = board.request("GET", "/api/queue", &keys[0], "");
        queue["running"] == 3 && queue["waiting"] == 18
    });
    board.kill();
    board.serve();
    std::fs::write(&gate, "").unwrap();
    for (key, id) in &ids {
        let path = format!("/api/submissions/{id}");
        board.wait_until("every submission ends", |board| {
            board.request("GET", &path, key, "")["state"] == "done"
        });
        let detail = board.request("GET", &path, key, "");
        let events = detail["events"].as_array().unwrap();
        let ends = events.iter().filter(|event| event["status"] == "CHECKED").count();
        assert_eq!((detail["status"].as_str(), ends), (Some("CHECKED"), 1), "{detail}");
        let numbers: Vec<i64> = events.iter().map(|event| event["id"].as_i64().unwrap()).collect();
        assert_eq!(numbers, (1..=events.len() as i64).collect::<Vec<_>>());
    }
    let watched = watcher.wait_with_output().unwrap();
    assert!(watched.status.success(), "{}", String::from_utf8_lossy(&watched.stderr));
    let last: Value =
        serde_json::from_str(String::from_utf8_lossy(&watched.stdout).lines().last().unwrap()).unwrap();
    assert_eq!(last["status"], "CHECKED");
}

#[test]
fn submit_says_what_came_of_it_by_its_exit_status() {
    let mut board = Board::new();
    board.serve();
    for (source, code, words) in [
        ("//", 0, "2 of 2 cases passed"),
        ("//wrong", 1, "wrong answer: 1 of 2 cases passed"),
        ("//error", 1, "compile error: It does not compile"),
        ("//die", 2, "error: The submission could not be judged"),
    ] {
        let done = Command::new(REMORA)
            .args(["submit", "--problem", "leaky-relu", "--endpoint", "checker", "--server"])
            .arg(format!("http://{}/", board.address))
            .arg(board.source("kernel.hip", source))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        assert_eq!(done.status.code(), Some(code), "{source}: {text}");
        assert!(text.contains(words), "{source}: {text}");
        assert!(!text.contains('\x1b'), "no colours without a terminal: {text:?}");
    }
    let refused = Command::new(REMORA)
        .args(["submit", "--problem", "nothing", "--server"])
        .arg(format!("http://{}", board.address))
        .arg(board.source("kernel.hip", "//"))
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("there is no problem \"nothing\""),
        "{refused:?}"
    );
    // What never reaches a board is not judged either.
    for arguments in [
        &["submit", "missing.hip", "--problem", "relu"][..],
        &["submit", "--server", "http://127.0.0.1:1", "--problem", "relu", "/dev/null"],
        &["submit"],
    ] {
        let failed = Command::new(REMORA).args(arguments).output().unwrap();
        assert_eq!(failed.status.code(), Some(2), "{arguments:?}: {failed:?}");
        assert!(!failed.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn an_interrupt_cancels_the_submission() {
    let mut board = Board::new();
    board.serve();
    let watcher = board.submit("", &board.source("kernel.hip", "//hang"));
    board.wait_until("it runs", |board| {
        let all = board.request("GET", "/api/submissions", "", "");
        all["submissions"][0]["status"] == "COMPILING"
    });
    // SAFETY: the process is our child and has not been reaped.
    unsafe { libc::kill(watcher.id() as libc::pid_t, libc::SIGINT) };
    let done = watcher.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(130), "{}", String::from_utf8_lossy(&done.stdout));
    let all = board.request("GET", "/api/submissions", "", "");
    assert_eq!(all["submissions"][0]["status"], "CANCELLED");
}

#[test]
fn administrators_commands_reach_a_running_server() {
    let mut board = Board::new();
    let key = board.key("ada");
    board.serve();
    let me = |board: &Board| board.request("GET", "/api/me", &key, "");
    assert_eq!(me(&board)["user"], "ada");
    assert!(board.admin(&["user", "set", "ada", "--daily-budget", "2.5"]).status.success());
    assert_eq!(me(&board)["budget"]["daily_usd"], 2.5);
    assert!(board.admin(&["ban", "ada"]).status.success());
    assert_eq!(me(&board)["error"], "the user ada is banned on this server");
    assert!(board.admin(&["unban", "ada"]).status.success());
    let body = r#"{"solution_code":"//","problem":"leaky-relu","gpu_type":"MI300X","endpoint":"checker"}"#;
    let id = board.request("POST", "/api/submissions", &key, body)["id"].as_str().unwrap().to_owned();
    let status = |board: &Board| board.request("GET", &format!("/api/submissions/{id}"), &key, "");
    board.wait_until("it ends", |board| status(board)["state"] == "done");
    let before = status(&board)["events"].as_array().unwrap().len() as i64;
    assert!(board.admin(&["rejudge", &id]).status.success());
    board.wait_until("it is judged again", |board| {
        let detail = status(board);
        detail["state"] == "done" && detail["events"][0]["id"].as_i64().unwrap() > before
    });
    let stats = board.admin(&["stats"]);
    assert!(String::from_utf8_lossy(&stats.stdout).contains("1  CHECKED"), "{stats:?}");
    let prefix = key.split('_').nth(1).unwrap();
    assert!(board.admin(&["key", "revoke", prefix]).status.success());
    for (arguments, words) in [
        (&["user", "add", "ada"][..], "already a user named \"ada\""),
        (&["user", "add", "a b"], "is not a valid name"),
        (&["user", "add", "local"], "without a key"),
        (&["ban", "nobody"], "there is no user \"nobody\""),
        (&["key", "revoke", prefix], "there is no key"),
        (&["rejudge", "nothing"], "there is no finished submission"),
        (&["cancel", &id], "has ended already"),
    ] {
        let refused = board.admin(arguments);
        assert_eq!(refused.status.code(), Some(1), "{arguments:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains(words), "{arguments:?}: {refused:?}");
    }
    assert_eq!(board.admin(&["ban"]).status.code(), Some(2), "a name is missing");
    // Two servers on the same data folder would run every submission twice.
    let second =
        Command::new(REMORA).args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(board.data()).output();
    assert!(String::from_utf8_lossy(&second.unwrap().stderr).contains("another server is using"));
}

/// A process that is killed with the test.
struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_nvidia_gpu_is_a_device_under_its_own_name_only() {
    let folder = tempfile::tempdir().unwrap();
    let driver = folder.path().join("libcuda.so.1");
    let mut clang = Command::new("clang-19");
    clang
        .args(["-std=c11", "-D_GNU_SOURCE", "-shared", "-fPIC", "-DFIRST=\"NVIDIA H200\"", "-o"])
        .arg(&driver);
    clang.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../e2e/programs/fake_cuda.c"));
    assert!(clang.status().unwrap().success());
    let socket = format!("unix:{}", folder.path().join("worker").display());
    let mut worker = Command::new(REMORA);
    worker.args(["worker", "--ready", "--backend", "cuda", "--as", "mi210", "--listen", &socket]);
    worker.arg("--library").arg(&driver).env("REMORA_LOG", "error").stdout(Stdio::piped());
    worker.env("CUDA_VISIBLE_DEVICES", "GPU-feed0000-0000-0000-0000-000000000001");
    let mut worker = Background(worker.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(worker.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("listening on"), "{line}");

    let serve = |gpu: &str| {
        let mut command = Command::new(REMORA);
        command.args(["serve", "--ready", "--listen", "127.0.0.1:0", "--no-software", "--data"]);
        command.arg(folder.path().join("data")).args(["--worker", &format!("{gpu}={socket}")]);
        command.args(["--judge", "/bin/sh", "--judge", JUDGE]).env("REMORA_LOG", "error");
        command
    };
    for gpu in ["MI210", "H200", "H200-GFX942"] {
        let refused = serve(gpu).output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success(), "{gpu}");
        let expected = "the worker's device is NVIDIA H200 as gfx90a, whose name is H200-GFX90A";
        assert!(said.contains(expected), "{gpu}: {said}");
    }
    let mut board = Board::new();
    board.server = Some(serve("H200-gfx90a").stdout(Stdio::piped()).spawn().unwrap());
    let output = board.server.as_mut().unwrap().stdout.take().unwrap();
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).unwrap();
    board.address = line.trim().strip_prefix("listening on http://").unwrap().to_owned();
    let devices = board.request("GET", "/api/devices", "", "");
    let device = &devices["devices"][0];
    assert_eq!((&device["gpu_type"], &device["emulated"]), (&"H200-GFX90A".into(), &false.into()));
    assert_eq!(device["name"], "NVIDIA H200 as gfx90a");
}

#[test]
fn a_login_link_of_the_administrator_logs_a_browser_in_once() {
    let mut board = Board::new();
    assert!(board.admin(&["user", "add", "ada"]).status.success());
    board.serve();
    let made = board.admin(&["login-link", "ada", "--url", "https://board.example.org/"]);
    let printed = String::from_utf8(made.stdout).unwrap();
    let token = printed.trim().strip_prefix("https://board.example.org/login/link#").unwrap();
    let confirm = serde_json::json!({ "token": token, "confirm": true }).to_string();
    assert_eq!(board.request("POST", "/api/login/link", "", &confirm)["user"], "ada");
    let again = board.request("POST", "/api/login/link", "", &confirm);
    assert_eq!(again["error"], "this login link is not valid");
    // A link that nobody used is cancelled by logging the user out.
    let made = board.admin(&["login-link", "ada", "--minutes", "5"]);
    let printed = String::from_utf8(made.stdout).unwrap();
    let token = printed.trim().strip_prefix("http://127.0.0.1:3000/login/link#").unwrap();
    assert!(board.admin(&["logout", "ada"]).status.success());
    let confirm = serde_json::json!({ "token": token }).to_string();
    assert_eq!(
        board.request("POST", "/api/login/link", "", &confirm)["error"],
        "this login link is not valid"
    );
    assert!(board.admin(&["ban", "ada"]).status.success());
    for (arguments, words) in [
        (&["login-link", "nobody"][..], "there is no user \"nobody\""),
        (&["login-link", "local"], "reserved"),
        (&["login-link", "ada"], "ada is banned"),
        (&["logout", "nobody"], "there is no user \"nobody\""),
    ] {
        let refused = board.admin(arguments);
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && text.contains(words), "{arguments:?}: {text}");
    }
}

#[test]
fn a_board_whose_logins_are_not_safe_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("login.toml");
    let serve = |text: &str, more: &[&str]| {
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new(REMORA);
        command.args(["serve", "--listen", "127.0.0.1:0", "--judge", "/bin/sh", "--login"]).arg(&file);
        command.arg("--data").arg(folder.path().join("data")).args(more).output().unwrap()
    };
    let provider = |issuer: &str| format!("[provider.company]\nissuer = '{issuer}'\nclient-id = 'board'\n");
    for (text, more, words) in [
        (provider("http://login.example"), &[][..], "use https"),
        (
            provider("https://login.example"),
            &["--public-url", "board.example"],
            "not the address of a server",
        ),
        (provider("https://login.example") + "client-secret = 'x'\n", &[], "unknown field `client-secret`"),
    ] {
        let failed = serve(&text, more);
        let error = String::from_utf8_lossy(&failed.stderr).into_owned();
        assert!(!failed.status.success() && error.contains(words), "{text}: {error}");
    }
}
