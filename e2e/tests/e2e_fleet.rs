//! A fleet of agents: sessions survive restarts of workers and agents, and allocations move between machines while programs run.

use std::io::Write;
use std::net::TcpStream;
use std::process::Command;

use e2e::{Agent, Ended, Program, Running, eventually};
use serde_json::{Value, json};
use transport::tls::Trust;

const GPU: [&str; 2] = ["--software", "mi300x=1G"];

fn on(program: &str, allocation: &Value) -> Running {
    let mut command = Program::test(program).command();
    Running::start(command.env("REMORA_URL", text(allocation, "url")))
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("no text `{name}` in {value}"))
}

#[track_caller]
fn goes_on(program: &Running) {
    let lines = || program.stdout_so_far().lines().count();
    let before = lines();
    eventually("the program goes on", || lines() > before + 2);
}

fn allocations(agent: &Agent) -> Vec<Value> {
    agent.get("/api/v1/allocations").as_array().unwrap().clone()
}

fn worker(agent: &Agent, allocation: &Value) -> Value {
    agent.get(&format!("/api/v1/workers/{}", text(allocation, "id")))
}

fn sessions(agent: &Agent, allocation: &Value) -> usize {
    worker(agent, allocation)["status"]["sessions"].as_array().map_or(0, Vec::len)
}

fn has_session(agent: &Agent, allocation: &Value, program: &Running) -> bool {
    let sessions = worker(agent, allocation)["status"]["sessions"].as_array().cloned().unwrap_or_default();
    sessions.iter().any(|session| session["pid"] == json!(program.pid()))
}

fn signal(pid: &Value, signal: libc::c_int) {
    let pid = libc::pid_t::try_from(pid.as_i64().unwrap()).unwrap();
    // SAFETY: kill takes no pointers; the process is a worker of this test's agent.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

#[test]
fn a_rolling_restart_of_two_agents_loses_no_session() {
    let arguments = [GPU[0], GPU[1], "--save-sessions"];
    let mut agents = [Agent::with(&arguments), Agent::with(&arguments)];
    let mut programs = Vec::new();
    for agent in &agents {
        let part = agent.allocate(json!({"percent": 50}));
        programs.extend(["steady", "matmul_loop"].map(|program| on(program, &part)));
    }
    programs.iter().for_each(goes_on);
    for agent in &mut agents {
        agent.end(libc::SIGTERM).expect_success();
        // As in a container, nothing of the agent is left. The keeper of a worker ends after the worker.
        eventually("all processes have ended", || agent.marker.processes().is_empty());
        agent.restart_with(&arguments);
        programs.iter().for_each(goes_on);
    }
    for program in programs {
        program.finish().expect_success();
    }
}

#[test]
fn sessions_survive_the_end_of_their_worker_and_suspended_ones_its_death() {
    let mut agent = Agent::start();
    let part = agent.allocate(json!({"percent": 50}));
    let program = on("steady", &part);
    goes_on(&program);
    let before = worker(&agent, &part)["pid"].clone();
    signal(&before, libc::SIGTERM);
    eventually("another worker runs", || {
        let now = worker(&agent, &part);
        now["running"] == true && now["pid"] != before
    });
    goes_on(&program);

    // A suspended session survives the kill of its worker and its agent, and resumes only on request.
    let path = format!("/api/v1/workers/{}", text(&part, "id"));
    let (status, saved) = agent.request("POST", &format!("{path}/snapshot"), &agent.token, None);
    assert_eq!((status, saved["sessions"].as_array().map(Vec::len)), (200, Some(1)), "{saved}");
    let before = worker(&agent, &part)["pid"].clone();
    agent.kill();
    signal(&before, libc::SIGKILL);
    agent.restart();
    eventually("another worker runs", || worker(&agent, &part)["running"] == true);
    assert_eq!(sessions(&agent, &part), 0);
    let (status, resumed) = agent.request("POST", &format!("{path}/resume"), &agent.token, None);
    assert_eq!((status, &resumed), (200, &saved));
    goes_on(&program);
    program.finish().expect_success().expect_line("PASS steady");
}

/// Address of an agent with HTTPS.
fn https(agent: &Agent) -> String {
    format!("https://{}?pin={}", agent.address, Trust::Fingerprint(agent.certificate().fingerprint()))
}

fn drain(agent: &Agent, arguments: &[&str]) -> Ended {
    let mut command = Command::new(e2e::remora());
    command.args(["agent", "drain", "--data"]).arg(agent.folder.path()).args(arguments);
    Running::start(&mut command).finish()
}

#[test]
fn a_drained_machine_hands_over_its_allocations_while_programs_run() {
    let mut old = Agent::start();
    // The other machine uses TLS with its own certificate for everything.
    let new = Agent::with(&[GPU[0], GPU[1], "--worker-tls=on", "--tls-self-signed"]);
    let (used, idle) =
        (old.allocate(json!({"percent": 25, "name": "used"})), old.allocate(json!({"percent": 50})));
    let (steady, matmul) = (on("steady", &used), on("matmul_loop", &used));
    goes_on(&steady);
    goes_on(&matmul);
    let token = new.folder.path().join("api-token");
    let ended = drain(&old, &["--to", &https(&new), "--to-token-file", token.to_str().unwrap()]);
    ended.expect_success();
    assert!(ended.stdout.contains(&format!("allocation {} was moved", text(&used, "id"))), "{ended:?}");
    let secret = text(&used, "url").split(['/', '@']).nth(2).unwrap();
    assert!(ended.stdout.contains(" with 2 sessions") && !ended.stdout.contains(secret), "{ended:?}");
    goes_on(&steady);
    goes_on(&matmul);
    assert_eq!(allocations(&old), Vec::<Value>::new());
    let ask = |method: &str, path: &str| new.request_over_tls(method, path, &new.token, None).1;
    for before in [&used, &idle] {
        let after = ask("GET", &format!("/api/v1/allocations/{}", text(before, "id")));
        for same in ["id", "name", "share", "qos", "created_ms"] {
            assert_eq!(after[same], before[same], "{same}");
        }
        assert!(text(&after, "url").contains(text(before, "url").split(['/', '@']).nth(2).unwrap()));
    }
    // New programs need the new URL, and nothing else.
    let again = ask("GET", &format!("/api/v1/allocations/{}", text(&used, "id")));
    on("matmul_loop", &again).finish().expect_silent_success();

    // The machine refuses allocations, after a restart too, until the drain is cancelled.
    old.kill();
    old.restart();
    let refuse = |agent: &Agent| {
        agent.request("POST", "/api/v1/allocations", &agent.token, Some(json!({"percent": 1})))
    };
    let (status, refusal) = refuse(&old);
    assert_eq!(status, 503, "{refusal}");
    assert!(text(&refusal, "error").contains("is being drained"), "{refusal}");
    assert_eq!(old.request("GET", "/readyz", "", None).0, 503);
    drain(&old, &["--cancel"]).expect_silent_success().expect_line("new allocations are accepted");
    assert_eq!(refuse(&old).0, 201);

    steady.finish().expect_success().expect_line("PASS steady");
    let moved = matmul.finish();
    moved.expect_success();
    let mut undisturbed = Program::test("matmul_loop").command();
    undisturbed.env("REMORA_URL", text(&again, "url")).arg(moved.value("rounds"));
    assert_eq!(moved.stdout, Running::start(&mut undisturbed).finish().stdout);
}

#[test]
fn a_program_that_starts_while_its_allocation_moves_goes_along() {
    let (old, new) = (Agent::start(), Agent::start());
    let part = old.allocate(json!({"percent": 50}));
    let paused = on("steady", &part);
    goes_on(&paused);
    // The allocation waits for its client, which does not notice that its session has moved.
    signal(&json!(paused.pid()), libc::SIGSTOP);
    std::thread::scope(|scope| {
        let moving = scope.spawn(|| {
            let body = json!({"to": format!("http://{}", new.address), "token": new.token});
            let path = format!("/api/v1/allocations/{}/migrate", text(&part, "id"));
            old.request("POST", &path, &old.token, Some(body))
        });
        eventually("the session has moved", || !allocations(&new).is_empty() && sessions(&new, &part) == 1);
        let started = on("matmul_loop", &part);
        goes_on(&started);
        signal(&json!(paused.pid()), libc::SIGCONT);
        let (status, moved) = moving.join().unwrap();
        // The program that started meanwhile has its session there.
        assert_eq!((status, moved["sessions"].as_array().map(Vec::len)), (200, Some(1)), "{moved}");
        goes_on(&started);
        started.finish().expect_success();
    });
    paused.finish().expect_success().expect_line("PASS steady");
}

/// The URL with which `remora` administers the worker of an allocation.
fn admin_url(agent: &Agent, allocation: &Value) -> String {
    let file = agent.folder.path().join("workers").join(format!("{}.admin-token", text(allocation, "id")));
    let (_, address) = text(allocation, "url").split_once('@').unwrap();
    format!("remora://{}@{address}", std::fs::read_to_string(file).unwrap().trim())
}

/// A program whose session cannot move until it receives the line `go`.
fn holding(part: &Value) -> Running {
    let mut held = on("moved", part);
    held.wait_for_line("ready");
    held.send_line("hold");
    held.wait_for_line("held");
    held
}

fn remora(arguments: &[&str]) {
    Running::start(Command::new(e2e::remora()).args(arguments)).finish().expect_success();
}

#[test]
fn a_session_that_is_resumed_while_its_allocation_moves_goes_along() {
    let [old, new] = ["mi300x=8G"; 2].map(|gpu| Agent::with(&["--software", gpu]));
    let part = old.allocate(json!({"percent": 50}));
    let steady = on("steady", &part);
    goes_on(&steady);
    let mut held = holding(&part);
    let (folder, admin) = (tempfile::tempdir().unwrap(), admin_url(&old, &part));
    let file = folder.path().join("steady.session");
    let (file, session) = (file.to_str().unwrap(), format!("pid:{}", steady.pid()));
    remora(&["snapshot", &session, "--worker", &admin, "--out", file]);
    std::thread::scope(|scope| {
        let moving = scope.spawn(|| {
            let body = json!({"to": format!("http://{}", new.address), "token": new.token, "patience_s": 20});
            let path = format!("/api/v1/allocations/{}/migrate", text(&part, "id"));
            old.request("POST", &path, &old.token, Some(body))
        });
        eventually("the allocation is there", || allocations(&new).iter().any(|it| it["url"].is_string()));
        let started = on("matmul_loop", &part);
        eventually("programs are redirected", || has_session(&new, &part, &started));
        // The session that cannot move yet is the only one that the agent has listed.
        remora(&["resume", file, "--worker", &admin]);
        held.send_line("go");
        held.wait_for_line("let go");
        let (status, moved) = moving.join().unwrap();
        assert_eq!(status, 200, "{moved}");
        started.finish().expect_success();
    });
    goes_on(&steady);
    assert!(has_session(&new, &part, &steady));
    held.finish().expect_success();
    steady.finish().expect_success().expect_line("PASS steady");
}

#[test]
fn programs_start_at_their_worker_again_when_it_confirms_the_end_of_an_interrupted_move() {
    let (mut old, new) = (Agent::start(), Agent::start());
    let part = old.allocate(json!({"percent": 50}));
    let paused = on("steady", &part);
    goes_on(&paused);
    signal(&json!(paused.pid()), libc::SIGSTOP);
    let body = json!({"to": format!("http://{}", new.address), "token": new.token}).to_string();
    let mut request = TcpStream::connect(&old.address).unwrap();
    write!(
        request,
        "POST /api/v1/allocations/{}/migrate HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\
         content-length: {}\r\n\r\n{body}",
        text(&part, "id"),
        old.address,
        old.token,
        body.len()
    )
    .unwrap();
    eventually("the session has moved", || !allocations(&new).is_empty() && sessions(&new, &part) == 1);
    // The agent ends during the move, and the worker does not answer the next one at first.
    let process = worker(&old, &part)["pid"].clone();
    old.kill();
    signal(&process, libc::SIGSTOP);
    old.restart();
    let logs = |words: &str| old.process.as_ref().unwrap().stderr_so_far().contains(words);
    eventually("the agent has asked the worker", || logs("until this one confirms"));
    signal(&process, libc::SIGCONT);
    eventually("the worker has confirmed", || logs("no longer redirected"));
    let started = on("matmul_loop", &part);
    goes_on(&started);
    assert!(has_session(&old, &part, &started));
    started.finish().expect_success();
    signal(&json!(paused.pid()), libc::SIGCONT);
    goes_on(&paused);
    paused.finish().expect_success().expect_line("PASS steady");
}

#[test]
fn an_allocation_that_cannot_move_stays_as_it_was() {
    let (old, other, new) = ("mi300x=8G", "mi300x=16G", "mi300x=8G");
    let [old, other, new] = [old, other, new].map(|gpu| Agent::with(&["--software", gpu]));
    let part = old.allocate(json!({"percent": 50}));
    let steady = on("steady", &part);
    goes_on(&steady);
    let mut held = holding(&part);
    let migrate_within = |patience: u32, to: &Agent, token: &str| {
        let body = json!({"to": format!("http://{}", to.address), "token": token, "patience_s": patience});
        let path = format!("/api/v1/allocations/{}/migrate", text(&part, "id"));
        old.request("POST", &path, &old.token, Some(body))
    };
    let migrate = |to: &Agent, token: &str| migrate_within(1, to, token);
    let refused = |(status, refusal): (u16, Value), expected: u16, words: &str| {
        assert_eq!(status, expected, "{refusal}");
        assert!(text(&refusal, "error").contains(words), "{refusal}");
        assert_eq!((allocations(&old).len(), sessions(&old, &part)), (1, 2));
        goes_on(&steady);
    };
    refused(migrate(&other, &other.token), 502, "none of this machine's 1 GPUs matches");
    refused(migrate(&new, &new.reader()), 502, "is read-only");
    refused(migrate(&old, &old.token), 502, "is here already");
    // The first session moves and returns, because the second one cannot move.
    refused(migrate(&new, &new.token), 409, "waits for the program");
    assert_eq!(allocations(&new), Vec::<Value>::new());
    // So does the session of a program that starts meanwhile: it is opened at the other worker.
    std::thread::scope(|scope| {
        let moving = scope.spawn(|| migrate_within(10, &new, &new.token));
        eventually("the allocation is there", || allocations(&new).iter().any(|it| it["url"].is_string()));
        let started = on("matmul_loop", &part);
        eventually("its session is opened there", || has_session(&new, &part, &started));
        let (status, refusal) = moving.join().unwrap();
        assert_eq!((status, sessions(&old, &part)), (409, 3), "{refusal}");
        assert!(has_session(&old, &part, &started));
        goes_on(&started);
        started.finish().expect_success();
    });
    // Programs start here again.
    let started = on("matmul_loop", &part);
    goes_on(&started);
    assert!(has_session(&old, &part, &started));
    started.finish().expect_success();

    held.send_line("go");
    held.wait_for_line("let go");
    let (status, moved) = migrate(&new, &new.token);
    assert_eq!((status, moved["sessions"].as_array().map(Vec::len)), (200, Some(2)), "{moved}");
    assert_eq!((allocations(&old).len(), sessions(&new, &part)), (0, 2));
    goes_on(&steady);
    held.finish().expect_success();
    steady.finish().expect_success().expect_line("PASS steady");

    // What belongs to this machine cannot leave it.
    let process = Running::start(Command::new("sleep").arg("1000"));
    let leased = old.allocate(json!({"percent": 10, "lease": {"process": process.pid()}}));
    let path = format!("/api/v1/allocations/{}/migrate", text(&leased, "id"));
    let body = json!({"to": format!("http://{}", new.address), "token": new.token});
    let (status, refusal) = old.request("POST", &path, &old.token, Some(body));
    assert_eq!(status, 409, "{refusal}");
    assert!(text(&refusal, "error").contains("is leased to process"), "{refusal}");
}
