//! Observability of programs and workers: traces, summaries, `remora top`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::{Ended, Program, Running, Worker, eventually, remora};
use serde_json::Value;

/// The numbers of calls that a program prints.
fn printed_counts(stdout: &str) -> BTreeMap<String, u64> {
    let pairs = stdout.lines().filter_map(|line| line.split_once(' '));
    pairs
        .filter(|(name, _)| name.starts_with("hip"))
        .map(|(name, count)| (name.to_owned(), count.parse().expect("a count")))
        .collect()
}

struct Trace {
    events: Vec<Value>,
}

/// One slice (duration event) of a trace.
struct Slice<'a> {
    name: &'a str,
    row: (u64, u64),
    begin: f64,
    end: f64,
    arguments: &'a Value,
}

impl Trace {
    fn read(path: &Path) -> Trace {
        let text =
            std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Trace::parse(&text)
    }

    fn parse(text: &str) -> Trace {
        match serde_json::from_str(text) {
            Ok(Value::Array(events)) => Trace { events },
            other => panic!("not an array of events: {:?}\n{text}", other.err()),
        }
    }

    fn slices(&self, category: &str) -> Vec<Slice<'_>> {
        let slices = self.events.iter().filter(|event| event["ph"] == "X" && event["cat"] == category);
        slices
            .map(|event| {
                let begin = event["ts"].as_f64().expect("a time");
                Slice {
                    name: event["name"].as_str().expect("a name"),
                    row: (
                        event["pid"].as_u64().expect("a process"),
                        event["tid"].as_u64().expect("a thread"),
                    ),
                    begin,
                    end: begin + event["dur"].as_f64().expect("a duration"),
                    arguments: &event["args"],
                }
            })
            .collect()
    }

    fn count(&self, name: &str) -> u64 {
        self.slices("call").iter().filter(|slice| slice.name == name).count() as u64
    }

    /// Maximum error of device times in microseconds.
    fn uncertainty(&self) -> f64 {
        let readings = self.events.iter().filter(|event| event["name"] == "clock");
        let worst =
            readings.map(|event| event["args"]["uncertainty_ns"].as_f64().expect("a number") / 1000.0);
        worst.reduce(f64::max).expect("the worker's clock was read")
    }

    /// The name of a row (process and thread).
    fn row_name(&self, kind: &str, (pid, tid): (u64, u64)) -> &str {
        let named = self.events.iter().rfind(|event| {
            event["ph"] == "M" && event["name"] == kind && event["pid"] == pid && event["tid"] == tid
        });
        named.and_then(|event| event["args"]["name"].as_str()).unwrap_or_else(|| panic!("row {pid}.{tid}"))
    }

    /// Flow arrows by ID: the times of their starts and ends.
    fn arrows(&self) -> BTreeMap<&str, [Vec<f64>; 2]> {
        let mut arrows: BTreeMap<&str, [Vec<f64>; 2]> = BTreeMap::new();
        for (end, kind) in ["s", "f"].iter().enumerate() {
            for event in self.events.iter().filter(|event| event["ph"] == *kind) {
                let ends = arrows.entry(event["id"].as_str().expect("a name")).or_default();
                ends[end].push(event["ts"].as_f64().expect("a time"));
            }
        }
        arrows
    }
}

fn traced(worker: &Worker, mode: &str, trace: &Path) -> Ended {
    let program = Program::test("traced");
    let mut command = program.on(worker);
    Running::start(command.arg(mode).env("REMORA_TRACE", trace)).finish()
}

#[test]
fn a_trace_has_every_call_and_what_the_device_did_for_it() {
    let worker = Worker::start();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.json");
    let ended = traced(&worker, "work", &path);
    ended.expect_silent_success();
    let trace = Trace::read(&path);
    let made = printed_counts(&ended.stdout);
    assert_eq!(made["hipLaunchKernel"], 7);
    for (name, count) in &made {
        assert_eq!(trace.count(name), *count, "{name}");
    }
    let calls = trace.slices("call");
    let threads: std::collections::BTreeSet<_> = calls.iter().map(|call| call.row).collect();
    assert_eq!(threads.len(), 2, "one row for each thread that called");
    let launch = calls.iter().find(|call| call.name == "hipLaunchKernel").expect("a launch");
    assert_eq!(launch.arguments["numBlocks"], serde_json::json!([256, 1, 1]));
    assert!(
        launch.arguments["kernel"].as_str().expect("a kernel").starts_with("scale("),
        "{}",
        launch.arguments
    );
    let copy = calls.iter().find(|call| call.name == "hipMemcpyAsync").expect("a copy");
    assert_eq!(copy.arguments["sizeBytes"], 4 << 16);

    // Stream activity: in order, one command at a time, between the call that queued it and the call that waited for it.
    let slack = trace.uncertainty();
    let device = trace.slices("device");
    let kernels: Vec<_> = device.iter().filter(|slice| slice.name.starts_with("scale(")).collect();
    assert_eq!(kernels.len(), 7);
    assert_eq!(device.iter().filter(|slice| slice.name == "write").count(), 2);
    assert_eq!(device.iter().filter(|slice| slice.name == "fill").count(), 2);
    let mut reached: BTreeMap<(u64, u64), f64> = BTreeMap::new();
    for slice in &device {
        assert!(trace.row_name("process_name", (slice.row.0, 0)).starts_with("device 0: AMD Instinct"));
        assert!(trace.row_name("thread_name", slice.row).contains("stream"));
        let before = reached.insert(slice.row, slice.end);
        // Times have three decimal digits, so a sum may be wrong in the fourth.
        assert!(
            before.is_none_or(|before| before <= slice.begin + 0.002),
            "two commands of a stream overlap"
        );
    }
    let launches: Vec<_> = calls.iter().filter(|call| call.name == "hipLaunchKernel").collect();
    let waits: Vec<_> = calls.iter().filter(|call| call.name == "hipStreamSynchronize").collect();
    for (kernel, launch) in kernels.iter().zip(&launches) {
        assert_eq!(kernel.arguments["call"], "hipLaunchKernel");
        let wait =
            waits.iter().find(|wait| wait.row == launch.row && wait.begin >= launch.end).expect("a wait");
        assert!(
            kernel.begin >= launch.begin - slack && kernel.end <= wait.end + slack,
            "the kernel ran from {} to {}, was queued at {} and waited for until {}, within {slack}",
            kernel.begin,
            kernel.end,
            launch.begin,
            wait.end
        );
    }
    let arrows = trace.arrows();
    assert!(arrows.len() >= kernels.len());
    for (name, [from, to]) in &arrows {
        assert_eq!((from.len(), to.len()), (1, 1), "arrow {name}");
        assert!(from[0] <= to[0] + slack, "arrow {name}");
    }
    // Network traffic.
    let wire = trace.slices("wire");
    assert!(wire.iter().any(|slice| slice.name == "SynchronizeStream" && slice.end >= slice.begin));
    let back: u64 = wire
        .iter()
        .filter(|slice| slice.name == "Read")
        .filter_map(|slice| slice.arguments["bytes"].as_u64())
        .sum();
    assert!(back >= 2 * (4 << 16), "both results were received over the link");
}

#[test]
fn a_trace_is_whole_after_exit_and_readable_after_abort() {
    let worker = Worker::start();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("exit.json");
    let ended = traced(&worker, "exit", &path);
    assert_eq!(ended.status.code(), Some(3), "{}", ended.stderr);
    let trace = Trace::read(&path);
    for (name, count) in printed_counts(&ended.stdout) {
        assert_eq!(trace.count(&name), count, "{name}");
    }

    let path = folder.path().join("abort.json");
    let ended = traced(&worker, "abort", &path);
    assert!(ended.status.code().is_none(), "{:?}", ended.status);
    let text = std::fs::read_to_string(&path).expect("a trace");
    // Trace viewers accept a missing closing bracket and an incomplete last line.
    let (whole, _) = text.rsplit_once('\n').expect("lines");
    let trace = Trace::parse(&format!("{}\n]", whole.trim_end_matches(',')));
    assert!(trace.count("hipGetDevice") > 100);
}

#[test]
fn a_forked_child_has_a_trace_of_its_own_or_none() {
    let worker = Worker::start();
    let folder = tempfile::tempdir().expect("a folder");
    let ended = traced(&worker, "child", &folder.path().join("of-%p.json"));
    ended.expect_success();
    let files: Vec<PathBuf> = std::fs::read_dir(folder.path())
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    assert_eq!(files.len(), 2, "{files:?}");
    let child = ended.stdout.lines().find_map(|line| line.strip_prefix("child ")).expect("a child");
    let of_child = folder.path().join(format!("of-{child}.json"));
    let of_parent = files.iter().find(|path| **path != of_child).expect("two files");
    assert_eq!(Trace::read(&of_child).count("hipLaunchKernel"), 2);
    assert_eq!(Trace::read(of_parent).count("hipLaunchKernel"), 8);

    let shared = folder.path().join("shared.json");
    let ended = traced(&worker, "child", &shared);
    ended.expect_success();
    assert!(ended.stderr.contains("belongs to the parent process"), "{}", ended.stderr);
    assert_eq!(Trace::read(&shared).count("hipLaunchKernel"), 8);
}

#[test]
fn a_summary_counts_what_was_called() {
    let worker = Worker::start();
    let program = Program::test("traced");
    let ended = Running::start(program.on(&worker).env("REMORA_SUMMARY", "1")).finish();
    ended.expect_success();
    let rows: BTreeMap<&str, Vec<f64>> = ended
        .stderr
        .lines()
        .filter_map(|line| {
            let mut cells = line.split_whitespace();
            let name = cells.next()?;
            let values: Option<Vec<f64>> = cells.map(|cell| cell.parse().ok()).collect();
            Some((name, values.filter(|values| values.len() == 7)?))
        })
        .collect();
    let made = printed_counts(&ended.stdout);
    for (name, count) in &made {
        assert_eq!(rows[name.as_str()][0], *count as f64, "{name} in\n{}", ended.stderr);
    }
    let [calls, total, mean, longest, round_trips, sent, received] = rows["hipStreamSynchronize"][..] else {
        panic!("seven columns");
    };
    assert!(total >= longest && longest >= mean && mean > 0.0, "{}", ended.stderr);
    assert_eq!(round_trips, calls);
    assert!(sent >= 32.0 * calls && received >= 28.0 * calls);
    assert_eq!(rows["hipLaunchKernel"][4], 0.0, "launches have no wait time");
    assert!(rows["hipMemcpyAsync"][5] >= 2.0 * (4 << 16) as f64, "both inputs were sent");
    assert!(rows["hipMemcpy"][6] >= 2.0 * (4 << 16) as f64, "both results were received");
    let times: Vec<f64> = rows.iter().filter(|(name, _)| **name != "all").map(|(_, row)| row[1]).collect();
    assert!((times.iter().sum::<f64>() - rows["all"][1]).abs() <= 0.1 * times.len() as f64);

    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("summary-%p.txt");
    Running::start(program.on(&worker).env("REMORA_SUMMARY", &file)).finish().expect_silent_success();
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
}

fn top(worker: &Worker) -> Value {
    let mut command = Command::new(remora());
    command.args([
        "top",
        "--once",
        "--json",
        "--interval",
        "0.1",
        "--worker",
        &worker.endpoint().to_string(),
    ]);
    let ended = Running::start(&mut command).finish();
    ended.expect_success();
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}\n{}", ended.stdout))
}

#[test]
fn top_sees_a_session_its_memory_and_its_calls() {
    let worker = Worker::start();
    assert_eq!(top(&worker)["sessions"], serde_json::json!([]));
    let holder = Running::start(Program::test("hold_memory").on(&worker).arg("96"));
    holder.wait_for_line("holding");
    let seen = top(&worker);
    let session = &seen["sessions"][0];
    assert_eq!(session["client"], "hold_memory");
    assert_eq!(session["pid"], holder.pid());
    let memory = session["memory_used"][0].as_u64().expect("bytes");
    assert!((96 << 20..98 << 20).contains(&memory), "{memory}");
    assert_eq!(seen["devices"][0]["memory_used"], memory);
    let round_trips = session["round_trips"].as_u64().expect("a count");
    let requests = session["requests"].as_u64().expect("a count");
    assert!(round_trips >= 1 && requests > round_trips, "{session}");
    assert!(session["bytes_received"].as_u64().expect("bytes") > 24 * requests);
    assert!(session["bytes_sent"].as_u64().expect("bytes") >= 28 * round_trips);
    assert_eq!(session["rates"]["calls"], 0.0, "it only holds memory");

    // A program that works continuously: its counters grow, so its rates are not 0.
    let busy = Running::start(&mut Program::test("steady").on(&worker));
    let rates = |seen: &Value| {
        let sessions = seen["sessions"].as_array().expect("sessions").clone();
        let session = sessions.into_iter().find(|session| session["pid"] == busy.pid())?;
        session["rates"]["calls"].as_f64().filter(|rate| *rate > 0.0).map(|_| session)
    };
    eventually("calls of a busy program", || rates(&top(&worker)).is_some());
    drop(busy);
    holder.finish().expect_success();
}

#[test]
fn top_without_a_terminal_prints_plain_tables_and_survives_its_worker() {
    let worker = Worker::start();
    let mut command = Command::new(remora());
    command.args(["top", "--interval", "0.05", "--worker", &worker.endpoint().to_string()]);
    let watching = Running::start(&mut command);
    let header = watching.wait_for_line("remora ");
    assert!(header.contains(" sessions"), "{header}");
    watching.wait_for_line("no sessions");
    drop(worker);
    watching.wait_for_line("no worker answers");
    assert!(!watching.stdout_so_far().contains('\u{1b}'), "no terminal escape sequences");
}

#[test]
fn a_trace_that_could_not_be_written_to_its_end_says_so_in_one_line() {
    let worker = Worker::start();
    let ended = Running::start(Program::test("traced").on(&worker).env("REMORA_TRACE", "/dev/full")).finish();
    ended.expect_success();
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("/dev/full is truncated"), "{}", ended.stderr);
}
