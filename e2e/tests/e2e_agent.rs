//! Tests of the node agent through its HTTP API, with real workers and real clients, including kills and restarts.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use e2e::{Agent, Marker, Program, Running, Worker, WorkerOptions, eventually};
use serde_json::{Value, json};
use transport::{Address, Endpoint};

const MIB: u64 = 1 << 20;

fn on(program: &str, allocation: &Value) -> Command {
    let mut command = Program::test(program).command();
    command.env("REMORA_URL", allocation["url"].as_str().unwrap());
    command
}

fn provider_library() -> PathBuf {
    e2e::library_folder().join("libaccelerator_amd.so")
}

/// Compiles the program that calls the provider library, for both generations of its interface.
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

    // A request for more memory or compute than is free is rejected.
    for request in
        [json!({"percent": 26}), json!({"memory": {"limit": MIB}, "compute": {"limit_percent": 26}})]
    {
        let (status, refusal) = agent.request("POST", "/api/v1/allocations", &agent.token, Some(request));
        assert_eq!(status, 409, "{refusal}");
        assert!(text(&refusal, "error").contains("by others"), "{refusal}");
    }

    // Clients need only the URL, and get the memory of their allocation.
    let held = Running::start(on("hold_memory", &quarter).arg("200"));
    held.wait_for_line("holding");
    let refused = Running::start(on("hold_memory", &quarter).arg("100")).finish();
    assert!(!refused.status.success(), "{refused:?}");
    Running::start(on("hold_memory", &half).arg("400")).finish().expect_silent_success();

    // After a kill and restart the agent still has all allocations; clients and workers are not affected.
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
    assert_eq!(
        agent.request("POST", "/api/v1/allocations", &agent.token, Some(json!({"percent": 26}))).0,
        409
    );

    // The token of an allocation gives access to that allocation; an unknown token to none.
    let token = text(&quarter, "url").strip_prefix("remora://").unwrap().split('@').next().unwrap();
    let (status, pod) = agent.request("GET", "/api/v1/pod", token, None);
    assert_eq!(
        (status, &pod["data"]["pod_name"], &pod["data"]["vram_limit"]),
        (200, &json!("p1"), &json!(256 * MIB))
    );
    assert_eq!(agent.request("GET", "/api/v1/pod", "0123456789abcdef", None).0, 401);
    assert_eq!(agent.request("GET", "/api/v1/allocations", token, None).0, 401);
    eventually("the client's process is known", || {
        let (_, found) = agent.request("GET", &format!("/api/v1/process?pid={}", held.pid()), token, None);
        found[0]["allocation"] == quarter["id"]
    });
    eventually("its use is measured", || {
        let (_, figures) = agent.request("GET", "/metrics", &agent.token, None);
        let figures = figures.as_str().unwrap_or_default();
        figures
            .lines()
            .any(|line| line.starts_with("remora_session_memory_used_bytes") && line.contains("hold_memory"))
    });

    // Memory of a killed client and shares of released allocations can be allocated again.
    held.signal(libc::SIGKILL);
    let killed = Instant::now();
    eventually("the memory is free", || {
        Running::start(on("hold_memory", &quarter).arg("200")).finish().status.success()
    });
    assert!(killed.elapsed() < Duration::from_secs(20), "{:?}", killed.elapsed());
    assert_eq!(agent.request("DELETE", &format!("/api/v1/allocations/{id}"), &agent.token, None).0, 204);
    agent.allocate(json!({"percent": 50}));
}

#[test]
fn a_part_that_was_leased_to_a_process_ends_with_it_and_a_dead_worker_is_replaced() {
    let agent = Agent::start();
    let client = Running::start(Command::new("sleep").arg("1000"));
    let leased = agent.allocate(json!({"percent": 100, "lease": {"process": client.pid()}}));
    assert_eq!(
        agent.request("POST", "/api/v1/allocations", &agent.token, Some(json!({"percent": 1}))).0,
        409
    );

    // A killed worker is restarted at the same address.
    let worker = format!("/api/v1/workers/{}", text(&leased, "id"));
    let pid = agent.get(&worker)["pid"].as_u64().unwrap();
    // SAFETY: kill takes no pointers; the process is this test's worker.
    assert_eq!(unsafe { libc::kill(pid as libc::pid_t, libc::SIGKILL) }, 0);
    eventually("another worker runs", || {
        let worker = agent.get(&worker);
        worker["running"] == true && worker["pid"] != pid && worker["restarts"].as_u64() >= Some(1)
    });
    Running::start(on("hold_memory", &leased).arg("100")).finish().expect_silent_success();

    // Its sessions are saved, which frees their memory, and resumed; their program does not notice.
    let mut held = Running::start(on("hold_memory", &leased).arg("100"));
    held.wait_for_line("holding");
    let (status, saved) = agent.request("POST", &format!("{worker}/snapshot"), &agent.token, None);
    assert_eq!((status, saved["sessions"].as_array().map(Vec::len)), (200, Some(1)), "{saved}");
    assert_eq!(agent.get(&worker)["status"]["devices"][0]["memory_used"], 0);
    let (status, resumed) = agent.request("POST", &format!("{worker}/resume"), &agent.token, None);
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

    // One client uses memory that no allocation has requested. Another cannot get as much, but gets the memory it requested.
    let burst = Running::start(on("hold_memory", &first).arg("340"));
    burst.wait_for_line("holding");
    let refused = Running::start(on("hold_memory", &second).arg("240")).finish();
    assert!(!refused.status.success() && refused.stdout.contains("out of memory"), "{refused:?}");
    let within = Running::start(on("hold_memory", &second).arg("120"));
    within.wait_for_line("holding");
    let all = Running::start(on("hold_memory", &third).arg("505"));
    all.wait_for_line("holding");

    // Memory that is used beyond a request is not available to a new allocation until it is freed.
    let new = part(128, 128, 1);
    let (status, refusal) = agent.request("POST", "/api/v1/allocations", &agent.token, Some(new.clone()));
    assert_eq!(status, 409, "{refusal}");
    burst.finish().expect_silent_success();
    eventually("the memory is free again", || {
        agent.request("POST", "/api/v1/allocations", &agent.token, Some(new.clone())).0 == 201
    });

    // CPU weights follow requests: three times as much is about five steps of niceness. An allocation that may burst has a lower class,
    // which adds two steps.
    let niceness = |allocation: &Value| {
        let worker = agent.get(&format!("/api/v1/workers/{}", text(allocation, "id")));
        let process = worker["status"]["sessions"][0]["process"].as_u64().unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.split(' ').nth(16).unwrap().parse::<i32>().unwrap()
    };
    let (less, more) = (niceness(&second), niceness(&third));
    assert!((6..=7).contains(&(less - more)), "{less} and {more}");
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

    // Suspend one session by its process ID; the other continues. Doing it twice has the same effect as once.
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

    // All sessions of a worker, and all sessions of a device.
    let number = agent.get(&worker)["pid"].to_string();
    let device = text(&agent.get("/api/v1/devices")[0], "uuid").to_owned();
    assert_eq!(order(&agent, &a, &["snapshot", &device, &number, &own]), "0");
    eventually("no session is left", || sessions(&agent) == 0);
    assert_eq!(order(&agent, &e, &["resume", "amd-0", &pid]), "2", "there is no such device");
    assert_eq!(order(&agent, &e, &["resume", &device]), "0");
    assert_eq!(sessions(&agent), 2);
    goes_on("it was resumed again");

    // Without an agent nothing can be saved, and the library reports an error.
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

#[test]
fn a_worker_with_tls_needs_nothing_but_its_url_and_keeps_its_certificate() {
    let arguments = ["--software", "mi300x=1G", "--worker-tls=on"];
    let mut agent = Agent::with(&arguments);
    let part = agent.allocate(json!({"percent": 25}));
    let url = text(&part, "url").to_owned();
    let address: Address = url.parse().unwrap();
    assert!(url.starts_with("remora+tls://"), "{url}");
    assert_eq!(address.pin, Some(agent.certificate().fingerprint()));

    // Every option and variable that takes a URL.
    Running::start(on("hold_memory", &part).arg("16")).finish().expect_silent_success();
    let program = Program::test("hold_memory");
    Running::start(program.command().arg("16").env("REMORA_WORKER", &url)).finish().expect_silent_success();
    let mut run = Command::new(e2e::remora());
    run.args(["run", "--worker", &url]).arg(program.path()).arg("16").env("REMORA_TOKEN", "another worker's");
    Running::start(&mut run).finish().expect_silent_success();

    // A wrong certificate pin, a plain TCP connection and a wrong token are rejected.
    let other = Address { pin: Some([7; 32]), ..address.clone() };
    let plain = Address { endpoint: endpoint_without_tls(&address.endpoint), pin: None, ..address.clone() };
    let stranger = Address { token: Some("0123456789abcdef".to_owned()), ..address.clone() };
    for wrong in [other, plain, stranger] {
        let ended = Running::start(program.command().arg("16").env("REMORA_URL", wrong.to_string())).finish();
        assert!(!ended.status.success(), "{wrong:?}: {ended:?}");
    }

    // The agent reaches the worker too, and the certificate survives restarts of both.
    let worker = format!("/api/v1/workers/{}", text(&part, "id"));
    assert_eq!(agent.get(&worker)["status"]["devices"].as_array().map(Vec::len), Some(1));
    agent.kill();
    agent.restart_with(&arguments);
    assert_eq!(agent.get(&format!("/api/v1/allocations/{}", text(&part, "id")))["url"], url);
    Running::start(on("hold_memory", &part).arg("16")).finish().expect_silent_success();
}

fn endpoint_without_tls(endpoint: &Endpoint) -> Endpoint {
    match endpoint {
        Endpoint::Tls { host, port } => Endpoint::Tcp { host: host.clone(), port: *port },
        other => other.clone(),
    }
}

#[test]
fn the_interface_serves_https_and_each_token_has_its_role() {
    let agent = Agent::with(&["--software", "mi300x=1G", "--tls-self-signed"]);
    let (admin, reader) = (agent.token.clone(), agent.reader());
    let (status, made) = agent.request_over_tls(
        "POST",
        "/api/v1/allocations",
        &admin,
        Some(json!({"percent": 25, "pod": "p1"})),
    );
    assert_eq!(status, 201, "{made}");
    let one = format!("/api/v1/allocations/{}", text(&made, "id"));

    // Without TLS there is no response: the connection is closed.
    let mut plain = TcpStream::connect(&agent.address).unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/"), "{}", String::from_utf8_lossy(&answer));

    // Health probes need no token; everything else does, including metrics.
    for path in ["/healthz", "/readyz"] {
        assert_eq!(agent.request_over_tls("GET", path, "", None).0, 200, "{path}");
    }
    for path in ["/metrics", "/api/v1/devices", &one] {
        for (token, expected) in [("", 401), ("0123456789abcdef", 401), (&reader, 200), (&admin, 200)] {
            assert_eq!(agent.request_over_tls("GET", path, token, None).0, expected, "{path}");
        }
    }

    // The read-only token can change nothing and does not see the tokens of allocations.
    let stop = format!("/api/v1/workers/{}/snapshot", text(&made, "id"));
    for (method, path) in [("POST", "/api/v1/allocations"), ("DELETE", &one), ("POST", &stop)] {
        let (status, refusal) = agent.request_over_tls(method, path, &reader, Some(json!({"percent": 1})));
        assert_eq!(status, 403, "{refusal}");
        assert!(text(&refusal, "error").contains("is read-only"), "{refusal}");
    }
    let secret = text(&made, "url").split(['/', '@']).nth(2).unwrap();
    for path in
        [one.as_str(), "/api/v1/allocations", "/api/v1/pod?pod_name=p1", "/api/v1/workers", "/metrics"]
    {
        let seen = agent.request_over_tls("GET", path, &reader, None).1.to_string();
        assert!(!seen.contains(secret) && seen.contains(text(&made, "id")) | seen.contains("p1"), "{seen}");
    }
    assert_eq!(agent.request_over_tls("GET", &one, &admin, None).1["url"], made["url"]);

    // Local programs without TLS use the Unix socket, also with a token.
    let socket = || UnixStream::connect(agent.folder.path().join("agent.sock")).unwrap();
    assert_eq!(agent.request_over(socket(), "GET", "/api/v1/devices", &admin, None).0, 200);
    assert_eq!(agent.request_over(socket(), "GET", "/api/v1/devices", "", None).0, 401);
}

#[test]
fn measurements_are_open_only_where_that_was_asked_for() {
    let agent = Agent::with(&["--software", "mi300x=1G", "--open-metrics"]);
    assert_eq!(agent.request("GET", "/metrics", "", None).0, 200);
    assert_eq!(agent.request("GET", "/api/v1/devices", "", None).0, 401);
}

#[test]
fn a_port_that_another_program_has_taken_is_replaced_and_the_machine_stays_ready() {
    let mut agent = Agent::start();
    let part = agent.allocate(json!({"percent": 25}));
    let worker = format!("/api/v1/workers/{}", text(&part, "id"));
    let pid = agent.get(&worker)["pid"].as_u64().unwrap();
    let before: Address = text(&part, "url").parse().unwrap();
    let Endpoint::Tcp { port, .. } = before.endpoint else { panic!("{before:?}") };
    agent.kill();
    // SAFETY: kill takes no pointers; the process is this test's worker.
    assert_eq!(unsafe { libc::kill(pid as libc::pid_t, libc::SIGKILL) }, 0);
    let mut taken = None;
    eventually("the port is free", || {
        taken = TcpListener::bind(("127.0.0.1", port)).ok();
        taken.is_some()
    });
    agent.restart();
    eventually("the worker listens on another port", || {
        let (status, answer) = agent.request("GET", "/readyz", "", None);
        assert_eq!(status, 200, "{answer}");
        agent.get(&worker)["running"] == true
    });
    let now = agent.get(&format!("/api/v1/allocations/{}", text(&part, "id")));
    assert_ne!(now["url"], part["url"]);
    Running::start(on("hold_memory", &now).arg("16")).finish().expect_silent_success();
}

#[test]
fn requests_that_cannot_be_met_are_refused_in_words() {
    let agent = Agent::with(&["--software", "mi300x=1G", "--software", "mi300x=1G"]);
    for (request, expected, words) in [
        (json!({"gpus": 3}), 409, "3 GPUs were requested, and this machine has 2"),
        (json!({"gpus": 3, "percent": 10}), 409, "3 GPUs were requested, and this machine has 2"),
        (json!({"model": "mi210"}), 409, "none of this machine's 2 GPUs matches the requested device"),
        (json!({"memory": {"limit": 10}}), 400, "the request is for 10 bytes of memory (limit 10)"),
    ] {
        let (status, refusal) = agent.request("POST", "/api/v1/allocations", &agent.token, Some(request));
        assert_eq!(status, expected, "{refusal}");
        let error = text(&refusal, "error");
        assert!(error.contains(words) && !error.contains(" { "), "{error}");
    }
    // The message is the same when one of the two is in use.
    agent.allocate(json!({"percent": 100}));
    let (_, refusal) = agent.request("POST", "/api/v1/allocations", &agent.token, Some(json!({"gpus": 3})));
    assert!(text(&refusal, "error").contains("this machine has 2"), "{refusal}");
}

#[test]
fn a_real_gpu_is_found_by_its_pci_address_and_not_by_its_place_in_the_list() {
    // The client library serves as the HIP runtime. Its GPUs are those of this worker: an MI300X at c0:00 and an MI210 at c1:00.
    let (folder, marker) = (tempfile::tempdir().unwrap(), Marker::new());
    let socket = folder.path().join("worker");
    let _behind = Worker::start_with(&WorkerOptions {
        listen: format!("unix:{}", socket.display()),
        ..WorkerOptions::with(&["--device", "mi210", "--memory", "2G"])
    });
    let provider = folder.path().join("provider.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/two_gpus.c");
    let mut clang = Command::new("clang-19");
    clang
        .args(["-std=c11", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&provider)
        .arg(source);
    Running::start(&mut clang).finish().expect_silent_success();
    let library = e2e::library_folder().join("libamdhip64.so.7");
    let config = folder.path().join("agent.toml");
    std::fs::write(&config, format!("hip_library = {:?}\n", library.display().to_string())).unwrap();
    let mut command = Agent::command(&folder.path().join("data"), &marker);
    command.arg("--provider").arg(&provider).arg("--config").arg(config);
    command.env("REMORA_URL", format!("remora+unix://{}", socket.display()));
    let (process, address) = Agent::listening(&mut command);
    let token = std::fs::read_to_string(folder.path().join("data/api-token")).unwrap().trim().to_owned();
    let agent = Agent { process: Some(process), address, token, marker, folder };
    for (device, name) in [("gpu-at-0000:c1", "MI210"), ("gpu-at-0000:c0", "MI300X")] {
        let part = agent.allocate(json!({"device": device, "percent": 50}));
        let worker = agent.get(&format!("/api/v1/workers/{}", text(&part, "id")));
        let devices = worker["status"]["devices"].as_array().unwrap();
        assert_eq!(devices.len(), 1, "{worker}");
        assert!(text(&devices[0], "name").contains(name), "{device}: {}", devices[0]);
    }
}

/// Compiles a library in C.
fn c_library(source: &str, into: &Path) {
    let mut clang = Command::new("clang-19");
    clang.args(["-std=c11", "-D_GNU_SOURCE", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o"]);
    clang.arg(into).arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(source));
    Running::start(&mut clang).finish().expect_silent_success();
}

#[test]
fn nvidia_gpus_are_offered_by_their_uuid_with_a_ledger_each_as_the_configured_model() {
    let (folder, marker) = (tempfile::tempdir().unwrap(), Marker::new());
    let (nvml, driver) = (folder.path().join("libnvidia-ml.so.1"), folder.path().join("libcuda.so.1"));
    c_library("../node/provider/tests/c/nvml.c", &nvml);
    c_library("programs/fake_cuda.c", &driver);
    let (config, data) = (folder.path().join("agent.toml"), folder.path().join("data"));
    std::fs::write(&config, format!("cuda_library = {:?}\n", driver.display().to_string())).unwrap();
    let mut command = Agent::command(&data, &marker);
    command.arg("--provider").arg(provider_library()).arg("--config").arg(config).args(["--as", "mi210"]);
    command.env("REMORA_AMD_SMI", "off").env("REMORA_NVML", &nvml);
    let (process, address) = Agent::listening(&mut command);
    let token = std::fs::read_to_string(data.join("api-token")).unwrap().trim().to_owned();
    let agent = Agent { process: Some(process), address, token, marker, folder };
    let [first, second] = [0, 1].map(|index| format!("gpu-feed0000-0000-0000-0000-00000000000{index}"));

    let devices = agent.get("/api/v1/devices");
    assert_eq!(devices.as_array().unwrap().len(), 2, "{devices}");
    assert_eq!((text(&devices[1], "uuid"), text(&devices[1], "vendor")), (second.as_str(), "NVIDIA"));
    let cuda = json!({"uuid": second.replace("gpu", "GPU"), "pci": "0000:48:00.0", "imitates": "mi210"});
    assert_eq!(devices[1]["backing"]["cuda"], cuda);

    // The driver lists the GPUs in another order than the management library.
    let names = |allocation: &Value| -> Vec<String> {
        let worker = agent.get(&format!("/api/v1/workers/{}", text(allocation, "id")));
        assert_eq!(worker["status"]["backend"], "cuda", "{worker}");
        let devices = worker["status"]["devices"].as_array().unwrap();
        devices.iter().map(|device| text(device, "name").to_owned()).collect()
    };
    for (device, name) in [(&first, "NVIDIA Mock 18 as gfx90a"), (&second, "NVIDIA Mock 48 as gfx90a")] {
        let part = agent.allocate(json!({"device": device, "percent": 40}));
        assert_eq!(names(&part), [name]);
        let worker = agent.get(&format!("/api/v1/workers/{}", text(&part, "id")));
        let limits = &worker["status"]["devices"][0]["limits"];
        assert_eq!(limits["memory"], (79u64 << 30) * 40 / 100, "{worker}");
        assert_eq!(limits["compute_percent"], 40.0, "{worker}");
    }
    let both = agent.allocate(json!({"gpus": 2, "percent": 30, "vendor": "nvidia"}));
    let mut of_both = names(&both);
    of_both.sort();
    assert_eq!(of_both, ["NVIDIA Mock 18 as gfx90a", "NVIDIA Mock 48 as gfx90a"]);

    // Each GPU has one ledger, and no more is promised than it has.
    for device in [&first, &second] {
        assert!(agent.folder.path().join("data/ledgers").join(device).is_file());
        let request = json!({"device": device, "percent": 31});
        let (status, refusal) = agent.request("POST", "/api/v1/allocations", &agent.token, Some(request));
        assert_eq!(status, 409, "{refusal}");
        agent.allocate(json!({"device": device, "percent": 30}));
    }
    let (status, refusal) =
        agent.request("POST", "/api/v1/allocations", &agent.token, Some(json!({"vendor": "amd"})));
    assert_eq!(status, 409, "{refusal}");

    // Sensors are NVML's.
    eventually("the sensors are read", || {
        let (_, figures) = agent.request("GET", "/metrics", &agent.token, None);
        let is_power = |line: &str| {
            let named = line.starts_with("remora_device_power_watts{") && line.contains(&second);
            named && line.contains("vendor=\"NVIDIA\"") && line.ends_with(" 555.25")
        };
        figures.as_str().unwrap_or_default().lines().any(is_power)
    });

    // A user sees the same GPUs without an agent.
    let remora = |arguments: &[&str]| {
        let mut command = Command::new(e2e::remora());
        command.args(arguments).env("REMORA_NVML", &nvml);
        for variable in ["REMORA_WORKER", "TF_WORKER_HOST", "TF_WORKER_PORT"] {
            command.env_remove(variable);
        }
        Running::start(&mut command).finish()
    };
    let shown = remora(&["devices"]);
    let row = shown.expect_success().stdout.lines().find(|line| line.contains("0000:48:00.0")).unwrap();
    for part in ["NVIDIA Mock", "sm_90", "79 GiB", "7 GiB", "132", "63 %", "66 C", "555 W"] {
        assert!(row.contains(part), "{part}: {row}");
    }
    let shown: Value = serde_json::from_str(&remora(&["devices", "--json"]).stdout).unwrap();
    assert_eq!(shown["machine"][0]["uuid"], first.replace("gpu", "GPU"));
    assert_eq!(shown["machine"][0]["processes"].as_array().unwrap().len(), 20);
    let found = remora(&["doctor"]);
    let line = found.stdout.lines().find(|line| line.contains("NVIDIA GPU: ")).unwrap();
    assert!(line.contains("NVIDIA Mock at 0000:18:00.0, 79 GiB, 7 GiB used, driver 599.01"), "{line}");
}
