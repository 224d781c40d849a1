//! An agent as those meet it who ask it for parts of GPUs: over HTTP, with real workers and real clients, and killed in between.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use e2e::{Ended, Marker, Program, Running, eventually};
use serde_json::{Value, json};

const MIB: u64 = 1 << 20;

/// An agent with one software GPU of a gibibyte. Whatever it started ends with it.
struct Agent {
    process: Option<Running>,
    address: String,
    token: String,
    marker: Marker,
    folder: tempfile::TempDir,
}

impl Agent {
    fn start() -> Agent {
        let folder = tempfile::tempdir().unwrap();
        let marker = Marker::new();
        let (process, address) = Agent::launch(folder.path(), &marker);
        let token = std::fs::read_to_string(folder.path().join("api-token")).unwrap().trim().to_owned();
        Agent { process: Some(process), address, token, marker, folder }
    }

    /// The same for the GPUs that a library tells of.
    fn with_provider(library: &Path, gpus: &str) -> Agent {
        let (folder, marker) = (tempfile::tempdir().unwrap(), Marker::new());
        let mut command = Agent::command(folder.path(), &marker);
        command.arg("--provider").arg(library).env("REMORA_SOFTWARE_GPUS", gpus).env("REMORA_AMD_SMI", "off");
        let (process, address) = Agent::listening(&mut command);
        let token = std::fs::read_to_string(folder.path().join("api-token")).unwrap().trim().to_owned();
        Agent { process: Some(process), address, token, marker, folder }
    }

    fn launch(folder: &Path, marker: &Marker) -> (Running, String) {
        Agent::listening(Agent::command(folder, marker).args(["--software", "mi300x=1G"]))
    }

    fn command(folder: &Path, marker: &Marker) -> Command {
        let mut command = Command::new(e2e::remora());
        command.args(["agent", "--ready", "--listen", "127.0.0.1:0", "--node", "n1"]);
        command.arg("--data").arg(folder).env(Marker::NAME, marker.value());
        command
    }

    fn listening(command: &mut Command) -> (Running, String) {
        let process = Running::start(command);
        let line = process.wait_for_line("listening on ");
        (process, line.trim().strip_prefix("listening on http://").unwrap().to_owned())
    }

    /// Has somebody else's program order something of this agent through the provider library.
    fn through_provider(&self, program: &Path, arguments: &[&str]) -> Ended {
        let mut command = Command::new(program);
        command.arg(provider_library()).args(arguments).env_clear().env("REMORA_AMD_SMI", "off");
        command.env("REMORA_SOFTWARE_GPUS", "mi300x").env("REMORA_AGENT", format!("http://{}", self.address));
        command.env("REMORA_AGENT_TOKEN_FILE", self.folder.path().join("api-token"));
        let ended = Running::start(&mut command).finish();
        ended.expect_success();
        ended
    }

    fn kill(&mut self) {
        let process = self.process.take().unwrap();
        process.signal(libc::SIGKILL);
        process.finish();
    }

    fn restart(&mut self) {
        let (process, address) = Agent::launch(self.folder.path(), &self.marker);
        (self.process, self.address) = (Some(process), address);
    }

    fn ask(&self, method: &str, path: &str, token: &str, body: Option<Value>) -> (u16, Value) {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {token}\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n{body}",
            self.address,
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split_whitespace().nth(1).unwrap().parse().unwrap();
        let value = serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned()));
        (status, value)
    }

    fn get(&self, path: &str) -> Value {
        let (status, value) = self.ask("GET", path, &self.token, None);
        assert_eq!(status, 200, "{path}: {value}");
        value
    }

    fn allocate(&self, request: Value) -> Value {
        let (status, value) = self.ask("POST", "/api/v1/allocations", &self.token, Some(request));
        assert_eq!(status, 201, "{value}");
        value
    }
}

fn on(program: &str, allocation: &Value) -> Command {
    let mut command = Program::own(program).command();
    command.env("REMORA_URL", allocation["url"].as_str().unwrap());
    command
}

fn provider_library() -> PathBuf {
    e2e::library_folder().join("libaccelerator_amd.so")
}

/// The program that calls the provider library, for both generations of its interface.
fn callers(folder: &Path) -> [PathBuf; 2] {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    ["A", "E"].map(|generation| {
        let program = folder.join(generation);
        let mut clang = Command::new("clang-19");
        clang.args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"]);
        clang.arg(format!("-DGENERATION_{generation}"));
        clang.arg("-I").arg(root.join("../node/provider/include"));
        clang.arg(root.join("programs/provider_call.c")).arg("-o").arg(&program);
        Running::start(&mut clang).finish().expect_silent_success();
        program
    })
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("no text `{name}` in {value}"))
}

#[test]
fn parts_of_a_gpu_are_given_kept_over_a_kill_and_freed() {
    let mut agent = Agent::start();
    let quarter = agent.allocate(json!({"percent": 25, "name": "quarter", "pod": "p1", "namespace": "ns"}));
    let half = agent.allocate(json!({"percent": 50, "name": "half"}));
    assert_eq!(quarter["share"]["memory_limit_bytes"], 256 * MIB);

    // More than is left is refused, by memory and by compute.
    for request in
        [json!({"percent": 26}), json!({"memory": {"limit": MIB}, "compute": {"limit_percent": 26}})]
    {
        let (status, refusal) = agent.ask("POST", "/api/v1/allocations", &agent.token, Some(request));
        assert_eq!(status, 409, "{refusal}");
        assert!(text(&refusal, "error").contains("not promised to others"), "{refusal}");
    }

    // Each gets what it was given, with nothing but the address.
    let held = Running::start(on("hold_memory", &quarter).arg("200"));
    held.wait_for_line("holding");
    let refused = Running::start(on("hold_memory", &quarter).arg("100")).finish();
    assert!(!refused.status.success(), "{refused:?}");
    Running::start(on("hold_memory", &half).arg("400")).finish().expect_silent_success();

    // Killed and started again, it knows them all; clients and workers notice nothing.
    let before = agent.get("/api/v1/workers");
    agent.kill();
    agent.restart();
    let after = agent.get("/api/v1/workers");
    for (before, after) in before.as_array().unwrap().iter().zip(after.as_array().unwrap()) {
        assert_eq!((&before["id"], &before["pid"]), (&after["id"], &after["pid"]));
        assert_eq!(after["running"], true);
    }
    let id = text(&quarter, "id").to_owned();
    assert_eq!(agent.get(&format!("/api/v1/allocations/{id}"))["url"], quarter["url"]);
    let promised = &agent.get("/api/v1/devices")[0]["promised"];
    assert_eq!(promised["memory_limit_bytes"], 768 * MIB);
    assert_eq!(agent.ask("POST", "/api/v1/allocations", &agent.token, Some(json!({"percent": 26}))).0, 409);

    // Who has the token of an allocation sees it; a token nobody was given shows nothing.
    let token = text(&quarter, "url").strip_prefix("remora://").unwrap().split('@').next().unwrap();
    let (status, pod) = agent.ask("GET", "/api/v1/pod", token, None);
    assert_eq!(
        (status, &pod["data"]["pod_name"], &pod["data"]["vram_limit"]),
        (200, &json!("p1"), &json!(256 * MIB))
    );
    assert_eq!(agent.ask("GET", "/api/v1/pod", "0123456789abcdef", None).0, 401);
    assert_eq!(agent.ask("GET", "/api/v1/allocations", token, None).0, 401);
    eventually("the client's process is known", || {
        let (_, found) = agent.ask("GET", &format!("/api/v1/process?pid={}", held.pid()), token, None);
        found[0]["allocation"] == quarter["id"]
    });
    eventually("its use is measured", || {
        let (_, figures) = agent.ask("GET", "/metrics", &agent.token, None);
        let figures = figures.as_str().unwrap_or_default();
        figures
            .lines()
            .any(|line| line.starts_with("remora_session_memory_used_bytes") && line.contains("hold_memory"))
    });

    // What a client had that was killed can be had again, and so can a part that is given back.
    held.signal(libc::SIGKILL);
    let killed = Instant::now();
    eventually("the memory is free", || {
        Running::start(on("hold_memory", &quarter).arg("200")).finish().status.success()
    });
    assert!(killed.elapsed() < Duration::from_secs(20), "{:?}", killed.elapsed());
    assert_eq!(agent.ask("DELETE", &format!("/api/v1/allocations/{id}"), &agent.token, None).0, 204);
    agent.allocate(json!({"percent": 50}));
}

#[test]
fn a_part_that_was_leased_to_a_process_ends_with_it_and_a_dead_worker_is_replaced() {
    let agent = Agent::start();
    let client = Running::start(Command::new("sleep").arg("1000"));
    let leased = agent.allocate(json!({"percent": 100, "lease": {"process": client.pid()}}));
    assert_eq!(agent.ask("POST", "/api/v1/allocations", &agent.token, Some(json!({"percent": 1}))).0, 409);

    // A worker that is killed is there again, at the same address.
    let worker = format!("/api/v1/workers/{}", text(&leased, "id"));
    let pid = agent.get(&worker)["pid"].as_u64().unwrap();
    // SAFETY: kill reads no memory of ours; the process is this test's worker.
    assert_eq!(unsafe { libc::kill(pid as libc::pid_t, libc::SIGKILL) }, 0);
    eventually("another worker runs", || {
        let worker = agent.get(&worker);
        worker["running"] == true && worker["pid"] != pid && worker["restarts"].as_u64() >= Some(1)
    });
    Running::start(on("hold_memory", &leased).arg("100")).finish().expect_silent_success();

    // Its sessions are saved, which frees what they had, and taken up again; their program notices nothing.
    let mut held = Running::start(on("hold_memory", &leased).arg("100"));
    held.wait_for_line("holding");
    let (status, saved) = agent.ask("POST", &format!("{worker}/snapshot"), &agent.token, None);
    assert_eq!((status, saved["sessions"].as_array().map(Vec::len)), (200, Some(1)), "{saved}");
    assert_eq!(agent.get(&worker)["status"]["devices"][0]["memory_used"], 0);
    let (status, resumed) = agent.ask("POST", &format!("{worker}/resume"), &agent.token, None);
    assert_eq!((status, &resumed), (200, &saved));
    assert!(agent.get(&worker)["status"]["devices"][0]["memory_used"].as_u64() >= Some(100 * MIB));
    held.close_input();
    held.finish().expect_silent_success().expect_line("leaving");

    client.signal(libc::SIGKILL);
    drop(client);
    eventually("the allocation is gone", || agent.get("/api/v1/allocations").as_array().unwrap().is_empty());
    agent.allocate(json!({"percent": 100}));
}

#[test]
fn a_burster_never_takes_what_another_requested_and_weights_follow_requests() {
    let (folder, marker) = (tempfile::tempdir().unwrap(), Marker::new());
    let mut command = Agent::command(folder.path(), &marker);
    command.args(["--software", "mi300x=1G", "--oversubscribe-memory", "2"]);
    let (process, address) = Agent::listening(&mut command);
    let token = std::fs::read_to_string(folder.path().join("api-token")).unwrap().trim().to_owned();
    let agent = Agent { process: Some(process), address, token, marker, folder };
    let part = |request: u64, limit: u64, percent: u32| json!({"memory": {"request": request * MIB, "limit": limit * MIB}, "compute": {"limit_percent": percent}});
    let [first, second] = [19, 19].map(|percent| agent.allocate(part(128, 640, percent)));
    let third = agent.allocate(part(512, 512, 57));

    // One uses what nobody has requested; for another as much is not there, but what it requested itself is.
    let burst = Running::start(on("hold_memory", &first).arg("340"));
    burst.wait_for_line("holding");
    let refused = Running::start(on("hold_memory", &second).arg("240")).finish();
    assert!(!refused.status.success() && refused.stdout.contains("out of memory"), "{refused:?}");
    let within = Running::start(on("hold_memory", &second).arg("120"));
    within.wait_for_line("holding");
    let all = Running::start(on("hold_memory", &third).arg("505"));
    all.wait_for_line("holding");

    // What is used beyond a request is not promised to a new allocation, until it is free.
    let new = part(128, 128, 1);
    let (status, refusal) = agent.ask("POST", "/api/v1/allocations", &agent.token, Some(new.clone()));
    assert_eq!(status, 409, "{refusal}");
    burst.finish().expect_silent_success();
    eventually("what was used is free", || {
        agent.ask("POST", "/api/v1/allocations", &agent.token, Some(new.clone())).0 == 201
    });

    // Processors go by what was requested: three times as much is about five steps of niceness.
    let niceness = |allocation: &Value| {
        let worker = agent.get(&format!("/api/v1/workers/{}", text(allocation, "id")));
        let process = worker["status"]["sessions"][0]["process"].as_u64().unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.split(' ').nth(16).unwrap().parse::<i32>().unwrap()
    };
    assert!((4..=5).contains(&(niceness(&second) - niceness(&third))));
}

#[test]
fn gpus_that_a_provider_library_tells_of_are_offered() {
    let agent = Agent::with_provider(&provider_library(), "mi210,mi300x");
    let devices = agent.get("/api/v1/devices");
    let models: Vec<&str> = devices.as_array().unwrap().iter().map(|device| text(device, "model")).collect();
    assert_eq!(models, ["AMD Instinct MI210", "AMD Instinct MI300X"]);
    let request = json!({"model": "mi300x", "memory": {"limit": 64 * MIB}, "compute": {"limit_tflops": 130}});
    let part = agent.allocate(request);
    assert_eq!(part["devices"], json!([devices[1]["uuid"]]));
    Running::start(on("hold_memory", &part).arg("32")).finish().expect_silent_success();
}

#[test]
fn sessions_are_saved_and_resumed_through_both_generations_of_the_provider_interface() {
    let mut agent = Agent::with_provider(&provider_library(), "mi300x");
    let folder = tempfile::tempdir().unwrap();
    let [a, e] = callers(folder.path());
    let part = agent.allocate(json!({"percent": 25}));
    let worker = format!("/api/v1/workers/{}", text(&part, "id"));
    let sessions = |agent: &Agent| agent.get(&worker)["status"]["sessions"].as_array().unwrap().len();
    let running = Running::start(&mut on("matmul_loop", &part));
    running.wait_for_line("round 0");
    let bystander = Running::start(on("hold_memory", &part).arg("16"));
    bystander.wait_for_line("holding");
    let pid = running.pid().to_string();
    let order = |agent: &Agent, program: &Path, arguments: &[&str]| {
        agent.through_provider(program, arguments).value("result").to_owned()
    };
    let goes_on = |claim: &str| {
        let before = running.stdout_so_far().lines().count();
        eventually(claim, || running.stdout_so_far().lines().count() > before + 1);
    };

    // One by the number of its process, and the other goes on. Twice is once.
    let devices = agent.through_provider(&a, &["devices"]);
    assert_eq!((devices.value("devices"), devices.value("savable")), ("1", "1"), "{devices:?}");
    for _ in 0..2 {
        assert_eq!(order(&agent, &e, &["snapshot", "", &pid]), "0");
        eventually("one session is left", || sessions(&agent) == 1);
    }
    let own = std::process::id().to_string();
    assert_eq!(order(&agent, &e, &["resume", "", &own]), "2", "no session of this process is known");
    for _ in 0..2 {
        assert_eq!(order(&agent, &a, &["resume", "", &pid]), "0");
        goes_on("it was resumed");
    }

    // All of a worker, and all of a device.
    let number = agent.get(&worker)["pid"].to_string();
    let device = text(&agent.get("/api/v1/devices")[0], "uuid").to_owned();
    assert_eq!(order(&agent, &a, &["snapshot", &device, &number, &own]), "0");
    eventually("no session is left", || sessions(&agent) == 0);
    assert_eq!(order(&agent, &e, &["resume", "amd-0", &pid]), "2", "there is no such device");
    assert_eq!(order(&agent, &e, &["resume", &device]), "0");
    assert_eq!(sessions(&agent), 2);
    goes_on("it was resumed again");

    // Without an agent nothing can be saved, and nothing claims that it could.
    agent.kill();
    assert_eq!(agent.through_provider(&e, &["devices"]).value("savable"), "0");
    let refused = agent.through_provider(&e, &["snapshot", "", &pid]);
    assert_eq!(refused.value("result"), "5");
    assert!(refused.stderr.contains("ERROR the agent at"), "{}", refused.stderr);
    bystander.finish().expect_silent_success().expect_line("leaving");
    let moved = running.finish();
    moved.expect_silent_success();
    let undisturbed = Running::start(on("matmul_loop", &part).arg(moved.value("rounds"))).finish();
    undisturbed.expect_silent_success();
    assert_eq!(moved.stdout, undisturbed.stdout);
}
