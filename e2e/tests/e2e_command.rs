//! Tests of the `remora` command: `run` is transparent and leaves no processes behind; `devices` and `doctor` report correctly.

mod first_minute;

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use e2e::{
    Ended, Marker, Program, Recipe, Running, Worker, WorkerOptions, eventually, remora, toolchain_folder,
};

/// `remora run -- program arguments`, with a marker by which all its processes are found.
struct Run {
    marker: Marker,
    command: Command,
}

impl Run {
    fn new(program: &Program, arguments: &[&str]) -> Run {
        let marker = Marker::new();
        let mut command = Command::new(remora());
        command.arg("run").arg("--").arg(program.path()).args(arguments).env(Marker::NAME, marker.value());
        command.env_remove("LD_LIBRARY_PATH").env_remove("TF_WORKER_HOST").env_remove("REMORA_WORKER");
        Run { marker, command }
    }

    fn finish(mut self) -> Ended {
        let ended = Running::start(&mut self.command).finish();
        self.expect_nothing_left();
        ended
    }

    /// Asserts that no process is left. The worker must have exited before `remora run` does, so this does not wait.
    #[track_caller]
    fn expect_nothing_left(&self) {
        assert_eq!(self.marker.processes(), [], "remora run left processes behind");
    }
}

#[test]
fn run_chooses_the_device_the_program_was_built_for() {
    for (architecture, full) in [("gfx90a", "gfx90a:sramecc+:xnack-"), ("gfx942", "gfx942:sramecc+:xnack-")] {
        let program = Recipe::test("outcome").for_architectures(&[architecture]).build();
        let ended = Run::new(&program, &["architecture"]).finish();
        ended.expect_silent_success();
        assert_eq!(ended.value("architecture"), full);
    }
}

#[test]
fn run_passes_the_exit_code_on() {
    let program = Program::test("outcome");
    for code in [0, 1, 77] {
        let ended = Run::new(&program, &["exit", &code.to_string()]).finish();
        assert_eq!(ended.status.code(), Some(code), "{ended:?}");
    }
}

#[test]
fn run_tells_of_a_signal_that_ended_the_program() {
    let ended = Run::new(&Program::test("outcome"), &["abort"]).finish();
    let code = ended.status.code().or(ended.status.signal().map(|signal| 128 + signal));
    assert_eq!(code, Some(128 + libc::SIGABRT), "{ended:?}");
}

#[test]
fn run_passes_signals_to_the_program() {
    let mut run = Run::new(&Program::test("outcome"), &["signal"]);
    let running = Running::start(&mut run.command);
    running.wait_for_line("waiting");
    running.signal(libc::SIGTERM);
    let ended = running.finish();
    assert_eq!(ended.status.code(), Some(42), "{ended:?}");
    run.expect_nothing_left();
}

#[test]
fn run_that_is_killed_leaves_no_worker_behind() {
    let mut run = Run::new(&Program::test("outcome"), &["sleep"]);
    let running = Running::start(&mut run.command);
    running.wait_for_line("waiting");
    running.signal(libc::SIGKILL);
    eventually("the worker has noticed", || {
        run.marker
            .processes()
            .iter()
            .all(|(_, command)| !command.contains(" worker") && !command.contains(" executor"))
    });
    // `remora run` does not kill the program itself; dropping the marker does.
    assert!(run.marker.processes().iter().all(|(_, command)| command.contains("outcome")));
}

#[test]
fn run_of_something_that_is_not_there_says_so() {
    let ended = Running::start(Command::new(remora()).args(["run", "--", "/no/such/program"])).finish();
    assert_eq!(ended.status.code(), Some(127), "{ended:?}");
    assert!(ended.stderr.contains("/no/such/program"), "{}", ended.stderr);
}

#[test]
fn run_refuses_options_of_a_software_gpu_when_a_worker_is_named() {
    let program = Program::test("outcome");
    for option in ["--watchdog=5", "--memory=1G"] {
        let name = &option[..option.find('=').unwrap()];
        let mut command = Command::new(remora());
        command.args(["run", "--worker", "127.0.0.1:1", option, "--"]).arg(program.path());
        let mut by_environment = Command::new(remora());
        by_environment.env("REMORA_WORKER", "127.0.0.1:1").args(["run", option, "--"]).arg(program.path());
        for command in [&mut command, &mut by_environment] {
            let ended = Running::start(command).finish();
            assert!(matches!(ended.status.code(), Some(1 | 2)) && ended.stdout.is_empty(), "{ended:?}");
            assert!(ended.stderr.contains(name), "{}", ended.stderr);
        }
    }
}

#[test]
fn run_refuses_a_program_for_another_architecture_in_one_line() {
    let other = Recipe::test("outcome").for_architectures(&["gfx1100"]).build();
    let old = Recipe::test("outcome").for_architectures(&["gfx90a"]).build();
    let worker = Worker::start();
    let endpoint = worker.endpoint().to_string();
    let run = |options: &[&str], program: &Program| {
        let mut command = Command::new(remora());
        command.arg("run").args(options).arg("--").arg(program.path()).args(["exit", "0"]);
        command.env_remove("REMORA_WORKER").env_remove("TF_WORKER_HOST");
        Running::start(&mut command).finish()
    };
    for (options, program, built_for) in [
        (&[][..], &other, "gfx1100"),
        (&["--device", "mi300x"][..], &old, "gfx90a"),
        (&["--worker", &endpoint][..], &other, "gfx1100"),
    ] {
        let ended = run(options, program);
        assert_eq!(ended.status.code(), Some(126), "{options:?} {ended:?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        for part in [built_for, "gfx942", "--offload-arch=gfx942"] {
            assert!(ended.stderr.contains(part), "{part} in {}", ended.stderr);
        }
    }
    // Without `remora run` the client library reports it, once for all launches.
    let many = Recipe::test("late_launch").for_architectures(&["gfx1100"]).build().run(&worker, &[]);
    assert_eq!(many.stderr.lines().count(), 1, "{}", many.stderr);
    assert!(
        many.stderr.contains("gfx1100") && many.stderr.contains("--offload-arch=gfx942"),
        "{}",
        many.stderr
    );
    // The gfx90a program runs on a device of its architecture.
    run(&["--device", "mi210"], &old).expect_silent_success();
}

#[test]
fn commands_whose_reader_has_left_end_by_sigpipe() {
    for command in [&["doctor"][..], &["devices"], &["devices", "--json"], &["harness"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut remora = Command::new(remora());
        remora.args(command).env_remove("REMORA_WORKER").env_remove("TF_WORKER_HOST");
        let output = remora.stdout(writer).stderr(std::process::Stdio::piped()).output().unwrap();
        assert_eq!(output.status.signal(), Some(libc::SIGPIPE), "{command:?} {output:?}");
        assert!(output.stderr.is_empty(), "{command:?} {output:?}");
    }
    // A closed standard error does not change the exit code.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(remora());
    let status = command.args(["run", "--", "/no/such/program"]).stderr(writer).status().unwrap();
    assert_eq!(status.code(), Some(127));
}

#[test]
fn run_uses_the_worker_it_is_given() {
    let worker = Worker::start_with(&WorkerOptions { device: "mi210".into(), ..WorkerOptions::default() });
    let program = Recipe::test("outcome").for_architectures(&["gfx90a", "gfx942"]).build();
    let mut command = Command::new(remora());
    command.args(["run", "--worker", &worker.endpoint().to_string(), "--"]);
    command.arg(program.path()).arg("architecture");
    let ended = Running::start(&mut command).finish();
    ended.expect_silent_success();
    assert!(ended.value("architecture").starts_with("gfx90a"), "{}", ended.stdout);
    worker.expect_log("outcome");
}

#[test]
fn devices_are_shown_with_all_that_matters() {
    let worker = Worker::start();
    let endpoint = worker.endpoint().to_string();
    let ended = Running::start(Command::new(remora()).args(["devices", "--worker", &endpoint])).finish();
    ended.expect_success();
    let text = ended.stdout.to_lowercase();
    for word in ["mi300x", "gfx942", "gib", "304", "mhz", "%"] {
        assert!(text.contains(word), "{word} is missing:\n{}", ended.stdout);
    }
    let device = worker.status().devices().remove(0);
    assert!(device["name"].as_str().unwrap().contains("MI300X"), "{device}");
    assert!(device["isa"].as_str().unwrap().starts_with("gfx942"), "{device}");
    assert_eq!(device["compute_units"], 304, "{device}");
    for name in ["memory_total", "memory_used", "clock_mhz", "memory_clock_mhz", "load_percent"] {
        assert!(device[name].is_number(), "{name}: {device}");
    }
}

#[test]
fn devices_without_a_worker_say_what_to_do() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let endpoint = format!("127.0.0.1:{port}");
    let ended = Running::start(Command::new(remora()).args(["devices", "--worker", &endpoint])).finish();
    assert!(!ended.status.success(), "{ended:?}");
    assert!(ended.stderr.contains(&endpoint) && ended.stderr.contains("remora worker"), "{}", ended.stderr);
}

#[test]
fn doctor_tells_what_is_installed_and_whether_the_worker_answers() {
    let worker = Worker::start();
    let endpoint = worker.endpoint().to_string();
    let doctor = |endpoint: &str| {
        let mut command = Command::new(remora());
        command.arg("doctor").env("REMORA_WORKER", endpoint).env("REMORA_TOOLCHAIN", toolchain_folder());
        Running::start(&mut command).finish()
    };
    let well = doctor(&endpoint);
    well.expect_success();
    for word in ["libamdhip64.so.5", "libamdhip64.so.6", "libamdhip64.so.7", "clang", &endpoint, "MI300X"] {
        assert!(well.stdout.contains(word), "{word} is missing:\n{}", well.stdout);
    }
    drop(worker);
    let ill = doctor(&endpoint);
    let said = ill.stdout.clone() + &ill.stderr;
    assert!(said.contains(&endpoint) && said.contains("remora worker"), "it says how to fix it:\n{said}");
}
