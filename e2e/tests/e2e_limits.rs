//! Resource limits of a worker: allocations beyond the memory limit fail at once, and compute time is throttled.

use e2e::{Program, Running, Worker, WorkerOptions, eventually};

const MIB: u64 = 1 << 20;

#[test]
fn two_clients_share_one_limit_of_memory_and_the_dead_give_theirs_back() {
    let worker = Worker::start_with(&WorkerOptions::with(&[
        "--memory-limit",
        "512M",
        "--compute-limit",
        "100",
        "--grace-closed",
        "0.5",
    ]));
    let device = &worker.status().devices()[0];
    assert_eq!(device["memory_total"], 512 * MIB);
    assert_eq!(device["limits"]["memory"], 512 * MIB);

    let first = Running::start(Program::test("hold_memory").on(&worker).arg("300"));
    first.wait_for_line("holding");
    let refused = Program::test("hold_memory").run(&worker, &["300"]);
    assert!(!refused.status.success(), "{refused:?}");
    assert!(
        refused.stdout.contains("out of memory") || refused.stderr.contains("out of memory"),
        "{refused:?}"
    );
    assert!(worker.status().devices()[0]["limits"]["refused"].as_u64() >= Some(1));
    // The remaining memory can be allocated.
    let second = Running::start(Program::test("hold_memory").on(&worker).arg("180"));
    second.wait_for_line("holding");

    first.signal(libc::SIGKILL);
    eventually("the killed client's memory is free", || worker.status().memory_used() < 200 * MIB);
    let third = Running::start(Program::test("hold_memory").on(&worker).arg("300"));
    third.wait_for_line("holding");

    // The memory is also released if a session process is killed.
    let executors: Vec<u32> =
        worker.processes().into_iter().map(|(pid, _)| pid).filter(|pid| *pid != worker.pid()).collect();
    assert_eq!(executors.len(), 2, "{executors:?}");
    for pid in executors {
        // SAFETY: kill takes no pointers; the process has the marker of this test's worker.
        assert_eq!(unsafe { libc::kill(pid as libc::pid_t, libc::SIGKILL) }, 0);
    }
    eventually("no session is left", || worker.status().sessions().is_empty());
    let last = Running::start(Program::test("hold_memory").on(&worker).arg("500"));
    last.wait_for_line("holding");
    last.finish().expect_silent_success();
}

#[test]
fn memory_of_every_kind_runs_out_at_the_limit_and_comes_back() {
    let worker = Worker::start_with(&WorkerOptions::with(&["--memory-limit", "256M"]));
    Program::test("memory_limits").run(&worker, &[]).expect_silent_success();
    eventually("nothing is left", || worker.status().memory_used() == 0);
}

#[test]
fn work_takes_as_long_as_its_share_of_the_device_allows() {
    let worker = Worker::start_with(&WorkerOptions::with(&["--compute-limit", "2"]));
    let ended = Program::test("busy").run(&worker, &["launches", "24"]);
    let line = ended.expect_silent_success().stdout.clone();
    let seconds: f64 = line
        .split("seconds=")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next())
        .unwrap()
        .parse()
        .unwrap();
    let limits = &worker.status().devices()[0]["limits"];
    let number = |name: &str| limits[name].as_u64().unwrap();
    assert_eq!(number("launches"), 24);
    // The last kernel began when all earlier ones were paid for, except for the burst allowance. It took at most a tenth of the time.
    let spent = number("spent_ns") as f64 / 1e9;
    assert!(seconds >= spent * 0.9 / 0.02 - 0.25, "{spent} s of the device in {seconds} s: {limits}");
}

#[test]
fn host_memory_counts_and_is_refused_in_the_call_that_needs_it() {
    let worker = Worker::start_with(&WorkerOptions::with(&["--memory-limit", "64M"]));
    Program::test("host_limits").run(&worker, &[]).expect_silent_success();
    let limits = &worker.status().devices()[0]["limits"];
    assert_eq!(limits["host_memory"], 576 * MIB);
    // The same with a single session, where device allocations need no round trip.
    let limited = ["--memory-limit", "64M", "--host-memory-limit", "500M", "--max-sessions", "1"];
    let worker = Worker::start_with(&WorkerOptions::with(&limited));
    Program::test("host_limits").run(&worker, &[]).expect_silent_success();
}

/// A cgroup with little memory. Removed on drop, after its processes have exited.
struct MemoryGroup(std::path::PathBuf);

impl MemoryGroup {
    /// Creates the cgroup, or returns why that is not possible.
    fn new(bytes: u64) -> Result<MemoryGroup, String> {
        let own = std::fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
        let first = own.lines().find_map(|line| line.split_once(":memory:")).map(|(_, path)| path);
        let (parent, file) = match first {
            Some(path) => (format!("/sys/fs/cgroup/memory{path}"), "memory.limit_in_bytes"),
            None => ("/sys/fs/cgroup".to_owned(), "memory.max"),
        };
        let folder = std::path::Path::new(&parent).join(format!("remora-e2e-{}", std::process::id()));
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        std::fs::create_dir(&folder).map_err(failed)?;
        let group = MemoryGroup(folder.clone());
        std::fs::write(folder.join(file), bytes.to_string()).map_err(failed)?;
        Ok(group)
    }

    fn add(&self, worker: &Worker) {
        std::fs::write(self.0.join("cgroup.procs"), worker.pid().to_string()).unwrap();
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        for _ in 0..500 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

#[test]
fn a_software_gpu_has_no_more_memory_than_its_control_group_and_a_session_that_ran_out_says_so() {
    let group = match MemoryGroup::new(256 * MIB) {
        Ok(group) => group,
        Err(why) => return e2e::skip(&format!("cannot create a memory cgroup: {why}")),
    };
    let program = Program::test("runs_out");
    {
        let worker = Worker::start();
        group.add(&worker);
        let ended = program.run(&worker, &[]);
        let total: u64 = ended.expect_silent_success().value("total").parse().unwrap();
        assert!(total <= 256 * MIB && total > 0, "{total} bytes in a group of 256 MiB");
    }
    {
        // The operator has configured more memory than there is.
        let worker = Worker::start_with(&WorkerOptions::with(&["--memory", "2G"]));
        group.add(&worker);
        let ended = program.run(&worker, &["1024"]);
        assert_eq!(ended.value("outcome"), "hipErrorOutOfMemory", "{ended:?}");
        assert!(ended.stderr.contains("out-of-memory killer"), "{ended:?}");
        worker.expect_log("out-of-memory killer");
        // The worker keeps running.
        program.run(&worker, &["16"]).expect_silent_success();
    }
}
