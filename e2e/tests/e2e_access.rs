//! Access control of a worker: token authentication, TLS, and a worker without a token, which serves only its own user.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use e2e::{Ended, Program, Running, Status, Worker, WorkerOptions, remora};
use transport::Endpoint;

/// Long enough to pass the worker's check for weak tokens.
const TOKEN: &str = "open sesame, said Ali Baba";

fn with_token(token: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    transport::token::write_new(&path, token).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

fn run(command: &mut Command) -> Ended {
    Running::start(command).finish()
}

fn expect_refusal(ended: &Ended, words: &[&str]) {
    assert_eq!(ended.value("result0"), "hipErrorNoDevice");
    assert_eq!(ended.stderr.lines().count(), 1, "one line:\n{}", ended.stderr);
    for word in words {
        assert!(ended.stderr.contains(word), "{word} is not in: {}", ended.stderr);
    }
}

#[test]
fn only_the_right_token_opens_a_session() {
    let (_folder, path) = with_token(TOKEN);
    let worker = Worker::start_with(&WorkerOptions::with(&["--token-file", &path]));
    let count = Program::test("device_count");
    expect_refusal(&run(&mut count.on(&worker)), &["token", "REMORA_TOKEN"]);
    expect_refusal(&run(count.on(&worker).env("REMORA_TOKEN", "open barley")), &["token", "REMORA_TOKEN"]);
    assert!(!worker.log().contains("open"), "no token is logged:\n{}", worker.log());

    let vector_add = Program::example("vector_add");
    for (name, value) in [("REMORA_TOKEN", TOKEN), ("REMORA_TOKEN_FILE", path.as_str())] {
        let ended = run(vector_add.on(&worker).env(name, value));
        ended.expect_silent_success().expect_line("PASS vector_add");
    }

    let endpoint = worker.endpoint().to_string();
    let devices = || {
        let mut command = Command::new(remora());
        command.args(["devices", "--json", "--worker", &endpoint]);
        command.env_remove("REMORA_TOKEN").env_remove("REMORA_TOKEN_FILE");
        command
    };
    let refused = run(&mut devices());
    assert!(!refused.status.success() && refused.stderr.contains("token"), "{refused:?}");
    let status = Status::query(devices().env("REMORA_TOKEN", TOKEN));
    assert_eq!(status.devices().len(), 1);
}

#[test]
fn an_address_that_others_can_reach_needs_a_token() {
    let options = WorkerOptions { listen: "0.0.0.0:0".into(), ..WorkerOptions::default() };
    let refused = run(&mut options.command());
    assert!(!refused.status.success(), "{refused:?}");
    assert!(refused.stderr.contains("token") && refused.stderr.contains("0.0.0.0"), "{}", refused.stderr);
    assert!(!refused.stdout.contains("listening"), "{}", refused.stdout);
}

#[test]
fn tls_with_a_pinned_certificate_works_and_with_another_does_not() {
    let (_folder, path) = with_token(TOKEN);
    let worker = Worker::start_with(&WorkerOptions::with(&["--tls-self-signed", "--token-file", &path]));
    assert!(matches!(worker.endpoint(), Endpoint::Tls { .. }), "{}", worker.endpoint());
    let pinned = "REMORA_TLS_CA=";
    let log = worker.expect_log(pinned);
    let shown = log.split(pinned).nth(1).unwrap();
    let fingerprint = &shown[..shown.find(char::is_whitespace).unwrap_or(shown.len())];
    assert!(fingerprint.starts_with("sha256:") && fingerprint.len() == "sha256:".len() + 64, "{fingerprint}");

    let over_tls = |program: &Program, trust: Option<&str>| {
        let mut command = program.command();
        command.env("REMORA_WORKER", worker.endpoint().to_string()).env("REMORA_TOKEN", TOKEN);
        command.envs(trust.map(|trust| ("REMORA_TLS_CA", trust)));
        run(&mut command)
    };
    for name in ["vector_add", "launch_storm"] {
        let ended = over_tls(&Program::example(name), Some(fingerprint));
        ended.expect_silent_success().expect_line(&format!("PASS {name}"));
    }
    let count = Program::test("device_count");
    let other = format!("sha256:{}", "5a".repeat(32));
    // A wrong pin: the error names both fingerprints and what to do.
    expect_refusal(&over_tls(&count, Some(&other)), &["certificate", &other, fingerprint, "REMORA_TLS_CA"]);
    expect_refusal(&over_tls(&count, None), &["REMORA_TLS_CA"]);
    // Plain TCP to a TLS port.
    let mut plain = count.command();
    plain.env("REMORA_WORKER", format!("127.0.0.1:{}", worker.port())).env("REMORA_TOKEN", TOKEN);
    expect_refusal(&run(&mut plain), &["TLS", "tls://", "REMORA_TLS_CA"]);
    // TLS to a plain TCP port.
    let open = Worker::start();
    let mut tls = count.command();
    tls.env("REMORA_WORKER", format!("tls://127.0.0.1:{}", open.port())).env("REMORA_TLS_CA", fingerprint);
    expect_refusal(&run(&mut tls), &["does not speak TLS", "without tls://", "--tls-self-signed"]);
    e2e::eventually("its log names the cause", || open.log().contains("the client speaks TLS"));
}

#[test]
fn token_files_that_can_be_guessed_or_read_by_others_are_refused_and_say_how_to_fix_it() {
    let refused = |path: &str| {
        let ended = run(&mut WorkerOptions::with(&["--token-file", path]).command());
        assert!(!ended.status.success() && !ended.stdout.contains("listening"), "{ended:?}");
        ended.stderr
    };
    let (_folder, path) = with_token("x");
    assert!(refused(&path).contains("remora token new"), "{}", refused(&path));
    let (_folder, path) = with_token(TOKEN);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let text = refused(&path);
    assert!(text.contains("chmod 600") && !text.contains("sesame"), "{text}");
    // A client refuses it as well.
    let mut count = Program::test("device_count").command();
    expect_refusal(&run(count.env("REMORA_TOKEN_FILE", &path)), &["chmod 600"]);

    let made = tempfile::tempdir().unwrap();
    let path = made.path().join("token").to_str().unwrap().to_owned();
    run(Command::new(remora()).args(["token", "new", "--out", &path])).expect_silent_success();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let worker = Worker::start_with(&WorkerOptions::with(&["--token-file", &path]));
    let mut devices = Command::new(remora());
    devices.args(["devices", "--json", "--worker", &worker.endpoint().to_string()]);
    assert_eq!(Status::query(devices.env("REMORA_TOKEN_FILE", &path)).devices().len(), 1);
    let printed = run(Command::new(remora()).args(["token", "new"]));
    assert!(printed.stdout.trim().len() >= 32, "{printed:?}");
}

#[test]
fn plain_tcp_that_other_machines_can_reach_is_warned_of() {
    let (_folder, path) = with_token(TOKEN);
    let options =
        WorkerOptions { listen: "0.0.0.0:0".into(), ..WorkerOptions::with(&["--token-file", &path]) };
    Worker::start_with(&options).expect_log("unencrypted");
    let local = Worker::start_with(&WorkerOptions::with(&["--token-file", &path]));
    assert!(!local.log().contains("unencrypted"), "{}", local.log());
}

#[test]
fn tls_with_an_authority_file_works() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let (certificate, key) = (certificate.to_str().unwrap(), key.to_str().unwrap());
    let worker = Worker::start_with(&WorkerOptions::with(&["--tls-cert", certificate, "--tls-key", key]));
    let mut command = Program::example("vector_add").command();
    command.env("REMORA_WORKER", worker.endpoint().to_string()).env("REMORA_TLS_CA", certificate);
    run(&mut command).expect_silent_success().expect_line("PASS vector_add");
}

#[test]
fn a_worker_takes_no_more_sessions_than_it_was_told() {
    let worker = Worker::start_with(&WorkerOptions::with(&["--max-sessions", "1"]));
    let holding = Running::start(&mut Program::test("hold_memory").on(&worker));
    holding.wait_for_line("holding");
    expect_refusal(&run(&mut Program::test("device_count").on(&worker)), &["1 session", "limit"]);
    holding.finish().expect_success();
    e2e::eventually("the first session has ended", || worker.status().sessions().is_empty());
    Program::example("vector_add").run(&worker, &[]).expect_silent_success();
}

#[test]
fn a_unix_socket_serves_like_a_port() {
    let folder = tempfile::tempdir().unwrap();
    let listen = format!("unix:{}", folder.path().join("socket").display());
    let worker = Worker::start_with(&WorkerOptions { listen: listen.clone(), ..WorkerOptions::default() });
    let mut command = Program::example("vector_add").command();
    run(command.env("REMORA_WORKER", listen)).expect_silent_success().expect_line("PASS vector_add");
    drop(worker);
}
