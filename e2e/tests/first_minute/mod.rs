//! Tests of the first minute: the overview, `try`, `new`, help, completions, man pages, configuration files, and a missing compiler that is
//! reported before it hurts.

use std::path::Path;
use std::process::Command;

use e2e::{Ended, Marker, Recipe, Running, Worker, WorkerOptions, library_folder, remora, toolchain_folder};
use serde_json::Value;

/// `remora` with these arguments, without the settings of the user who runs the tests.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(remora());
    command.args(arguments).env("REMORA_CONFIG", "off");
    for variable in ["LD_LIBRARY_PATH", "TF_WORKER_HOST", "REMORA_WORKER", "REMORA_LOG", "REMORA_TOOLCHAIN"] {
        command.env_remove(variable);
    }
    command
}

fn finish(command: &mut Command) -> Ended {
    Running::start(command).finish()
}

fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

#[test]
fn without_arguments_the_three_uses_are_shown_with_their_commands() {
    let ended = finish(&mut command(&[]));
    ended.expect_silent_success();
    for line in [
        "  remora run -- ./program",
        "  remora run --worker HOST:PORT -- ./program",
        "  remora submit kernel.hip --problem vector-addition",
    ] {
        ended.expect_line(line);
    }
}

#[test]
fn help_of_a_command_is_the_same_in_both_forms() {
    for name in ["run", "try", "worker"] {
        let by_command = finish(&mut command(&["help", name]));
        by_command.expect_silent_success();
        assert_eq!(by_command.stdout, finish(&mut command(&[name, "--help"])).stdout);
    }
    assert!(!finish(&mut command(&["help", "no-such"])).status.success());
}

#[test]
fn completions_and_man_pages_cover_every_command_that_help_lists() {
    let help = finish(&mut command(&["help"]));
    let listed = help.stdout.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| !line.is_empty());
    // A long description continues on lines that are indented more.
    let names = listed.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    let names: Vec<&str> = names.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() > 15 && names.contains(&"try") && !names.contains(&"executor"), "{names:?}");
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let ended = finish(&mut command(&["completions", shell]));
        ended.expect_silent_success();
        for name in &names {
            assert!(ended.stdout.contains(name), "{shell}: {name}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man/man1");
    finish(&mut command(&["man", pages.to_str().unwrap()])).expect_silent_success();
    for name in names.iter().filter(|name| **name != "help") {
        let page = std::fs::read_to_string(pages.join(format!("remora-{name}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{name}: {page}");
    }
    assert!(pages.join("remora.1").is_file() && !pages.join("remora-executor.1").exists());
}

#[test]
fn try_computes_on_a_software_gpu_without_a_compiler_and_says_so_in_five_lines() {
    for (device, name) in [("mi300x", "MI300X"), ("mi210", "MI210")] {
        let marker = Marker::new();
        let mut command = command(&["try", "--device", device]);
        // No compiler: neither in the folder of the toolchain, nor by name.
        command.env("REMORA_TOOLCHAIN", "/no/such/folder").env("PATH", "/no/such/folder");
        let ended = finish(command.env(Marker::NAME, marker.value()));
        ended.expect_silent_success();
        let starts: Vec<&str> =
            ended.stdout.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(starts, ["worker", "client", "kernel", "result", "next"], "{}", ended.stdout);
        assert!(ended.stdout.contains(name) && ended.stdout.contains("libamdhip64.so.7"), "{}", ended.stdout);
        assert_eq!(marker.processes(), [], "remora try left processes behind");
    }
}

#[test]
fn try_uses_a_worker_that_it_is_given() {
    let worker = Worker::start_with(&WorkerOptions { device: "mi250x".into(), ..WorkerOptions::default() });
    let ended = finish(&mut command(&["try", "--worker", &worker.endpoint().to_string()]));
    ended.expect_silent_success();
    assert!(ended.stdout.contains("MI250X"), "{}", ended.stdout);
    worker.expect_log("session");
}

#[test]
fn try_finds_a_broken_installation() {
    let folder = tempfile::tempdir().unwrap();
    let missing = finish(command(&["try"]).env("HIP_REMOTE_LIB_DIR", folder.path()));
    assert!(
        !missing.status.success() && missing.stderr.contains("libamdhip64.so.* not found"),
        "{missing:?}"
    );
    std::fs::write(folder.path().join("libamdhip64.so.7"), "not a library").unwrap();
    let broken = finish(command(&["try"]).env("HIP_REMOTE_LIB_DIR", folder.path()));
    assert!(!broken.status.success(), "{broken:?}");
    for part in ["libamdhip64.so.7", "remora doctor"] {
        assert!(broken.stderr.contains(part), "{part}: {}", broken.stderr);
    }
    // The library of another machine's architecture or an old version lacks functions.
    let old = folder.path().join("libamdhip64.so.7");
    std::fs::copy("/lib/x86_64-linux-gnu/libm.so.6", &old).unwrap();
    let incomplete = finish(command(&["try"]).env("HIP_REMOTE_LIB_DIR", folder.path()));
    assert!(incomplete.stderr.contains("does not export hip"), "{incomplete:?}");
}

#[test]
fn new_writes_a_program_whose_printed_commands_build_and_run_it() {
    let folder = tempfile::tempdir().unwrap();
    let new = || {
        let mut command = command(&["new", "kernel.hip"]);
        command.current_dir(folder.path()).env("REMORA_TOOLCHAIN", toolchain_folder());
        finish(command.env("HIP_REMOTE_LIB_DIR", library_folder()))
    };
    let written = new();
    written.expect_silent_success();
    let (_, printed) = written.stdout.split_once("build it:\n").unwrap();
    let (build, run) = printed.split_once("run it without a GPU:\n").unwrap();
    let shell = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-ec", script]).current_dir(folder.path()).env("REMORA_CONFIG", "off");
        finish(command.env_remove("REMORA_WORKER").env_remove("TF_WORKER_HOST").env_remove("LD_LIBRARY_PATH"))
    };
    shell(build).expect_silent_success();
    let ran = shell(&run.replace("remora ", &format!("{} ", remora().display())));
    ran.expect_silent_success();
    ran.expect_line("right: 100000 sums");
    // A second time it refuses, and the file is unchanged.
    std::fs::write(folder.path().join("kernel.hip"), "mine").unwrap();
    let refused = new();
    assert!(!refused.status.success() && refused.stderr.contains("kernel.hip exists"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(folder.path().join("kernel.hip")).unwrap(), "mine");
}

#[test]
fn new_in_a_folder_that_is_not_there_says_so() {
    let ended = finish(&mut command(&["new", "/no/such/folder/kernel.hip"]));
    assert!(
        !ended.status.success() && ended.stderr.contains("cannot create /no/such/folder/kernel.hip"),
        "{ended:?}"
    );
    let ended = finish(&mut command(&["new", "kernel"]));
    assert!(!ended.status.success() && ended.stderr.contains("extension"), "{ended:?}");
}

#[test]
fn a_missing_compiler_is_reported_before_it_is_needed() {
    let empty = tempfile::tempdir().unwrap();
    let without = |arguments: &[&str]| {
        let mut command = command(arguments);
        command.env("REMORA_TOOLCHAIN", empty.path()).env("XDG_DATA_HOME", empty.path());
        command
    };
    for arguments in [&["doctor"][..], &["devices"]] {
        let ended = finish(&mut without(arguments));
        let said = ended.stdout + &ended.stderr;
        assert!(said.contains("not found") && said.contains("cargo xtask setup"), "{arguments:?}: {said}");
    }
    for arguments in [
        &["serve", "--listen", "127.0.0.1:0", "--ready"][..],
        &["worker", "--listen", "127.0.0.1:0", "--ready", "--no-upload-cache"],
    ] {
        let running = Running::start(&mut without(arguments));
        running.wait_for_line("listening on ");
        running.signal(libc::SIGTERM);
        let said = running.finish().stderr;
        let line = said.lines().find(|line| line.contains("no kernel compiler"));
        assert!(
            line.is_some_and(|line| line.contains("WARN") && line.contains("cargo xtask setup")),
            "{said}"
        );
        // With a compiler there is no warning.
        let running = Running::start(without(arguments).env("REMORA_TOOLCHAIN", toolchain_folder()));
        running.wait_for_line("listening on ");
        running.signal(libc::SIGTERM);
        let said = running.finish().stderr;
        assert!(!said.contains("no kernel compiler"), "{said}");
    }
}

#[test]
fn scripts_get_json_from_doctor_devices_version_and_config() {
    let doctor = json(&finish(command(&["doctor", "--json"]).env("REMORA_TOOLCHAIN", "/no/such/folder")));
    let parts = doctor["parts"].as_array().unwrap();
    let state = |name: &str| parts.iter().find(|part| part["name"] == name).map(|part| part["state"].clone());
    assert_eq!(state("libamdhip64.so.7"), Some("ok".into()), "{doctor}");
    assert_eq!(state("hiprtc compiler"), Some("absent".into()), "{doctor}");
    assert_eq!(doctor["missing"], 0);
    let devices = json(&finish(command(&["devices", "--json"]).env("REMORA_TOOLCHAIN", "/no/such/folder")));
    assert_eq!(devices["warnings"].as_array().map(Vec::len), Some(1), "{devices}");
    let version = json(&finish(&mut command(&["version", "--json"])));
    assert!(version["version"].is_string() && version["protocol"].is_number(), "{version}");
    let settings = json(&finish(command(&["config", "--json"]).env("REMORA_WORKER", "gpu1:5")));
    let worker = settings.as_array().unwrap().iter().find(|it| it["key"] == "worker").unwrap();
    assert_eq!((&worker["value"], &worker["source"]), (&"gpu1:5".into(), &"REMORA_WORKER".into()));
}

#[test]
fn json_logs_are_one_object_per_line() {
    let options = WorkerOptions {
        environment: vec![("REMORA_LOG_FORMAT".into(), "json".into())],
        ..WorkerOptions::default()
    };
    let worker = Worker::start_with(&options);
    finish(&mut command(&["try", "--worker", &worker.endpoint().to_string()])).expect_silent_success();
    worker.expect_log("session");
    let ended = worker.stop();
    assert!(ended.stderr.lines().count() >= 2, "{}", ended.stderr);
    for line in ended.stderr.lines() {
        let record: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(record["level"].is_string() && record["timestamp"].is_string(), "{line}");
    }
    let unknown = finish(command(&["devices"]).env("REMORA_LOG_FORMAT", "xml"));
    unknown.expect_success();
    assert!(unknown.stderr.contains("log format \"xml\" is unknown"), "{}", unknown.stderr);
}

#[test]
fn a_configuration_file_sets_up_a_worker_and_its_client() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    let text = "[worker]\nlisten = ['127.0.0.1:0']\ndevice = ['mi210']\nno-upload-cache = true\n";
    std::fs::write(&file, text).unwrap();
    let with_file = |arguments: &[&str], file: &Path| {
        let mut command = command(arguments);
        command.env("REMORA_CONFIG", file);
        command
    };
    let worker = Running::start(&mut with_file(&["worker", "--ready"], &file));
    let endpoint = worker.wait_for_line("listening on ").split_whitespace().nth(2).unwrap().to_owned();
    std::fs::write(&file, format!("[client]\nworker = '{endpoint}'\n")).unwrap();
    let devices = finish(&mut with_file(&["devices"], &file));
    devices.expect_success();
    assert!(devices.stdout.contains("MI210") && devices.stdout.contains(&endpoint), "{}", devices.stdout);
    let shown = finish(&mut with_file(&["config"], &file));
    let line = shown.stdout.lines().find(|line| line.contains(&endpoint)).unwrap_or_default();
    assert!(line.contains("worker") && line.contains("config.toml"), "{}", shown.stdout);
    // The command line and the environment come before it.
    let flag = finish(&mut with_file(&["devices", "--worker", "127.0.0.1:1"], &file));
    assert!(flag.stderr.contains("127.0.0.1:1"), "{flag:?}");
    let variable = finish(with_file(&["devices"], &file).env("REMORA_WORKER", "127.0.0.1:2"));
    assert!(variable.stderr.contains("127.0.0.1:2"), "{variable:?}");
    // A mistake is named, whatever the command.
    std::fs::write(&file, "[client]\nworkers = 'x'\n").unwrap();
    let wrong = finish(&mut with_file(&["devices"], &file));
    assert!(!wrong.status.success() && wrong.stderr.contains("did you mean worker?"), "{wrong:?}");
    std::fs::write(&file, "[worker]\nmemory = 'lots'\n").unwrap();
    let wrong = finish(&mut with_file(&["worker"], &file));
    assert!(!wrong.status.success(), "{wrong:?}");
    for part in ["config.toml", "--memory", "lots"] {
        assert!(wrong.stderr.contains(part), "{part}: {}", wrong.stderr);
    }
}

#[test]
fn a_long_upload_shows_its_progress_on_a_terminal_and_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("upload.hip");
    let text = r#"#include <hip/hip_runtime.h>
#include <vector>
int main() {
  std::vector<unsigned> words(8 << 20);
  unsigned state = 1;
  for (unsigned &word : words)
    word = state = state * 1664525u + 1013904223u;
  void *memory;
  if (hipMalloc(&memory, words.size() * 4) != hipSuccess)
    return 1;
  return hipMemcpy(memory, words.data(), words.size() * 4, hipMemcpyHostToDevice);
}
"#;
    std::fs::write(&source, text).unwrap();
    let program = Recipe::file(&source).build();
    let worker = Worker::start();
    let mut impair = command(&["impair", "--bandwidth", "14M", "--to", &worker.endpoint().to_string()]);
    let impair = Running::start(&mut impair);
    let line = impair.wait_for_line("listening on ");
    let address = line.split_whitespace().nth(2).unwrap();
    let run = format!("{} run --worker {address} -- {}", remora().display(), program.path().display());
    let shell = |command: &mut Command| {
        command.env("REMORA_CONFIG", "off").env_remove("REMORA_WORKER").env_remove("TF_WORKER_HOST");
        // The machine may be busy.
        finish(command.env("REMORA_CONNECT_TIMEOUT", "50"))
    };
    // `script` runs a command on a terminal of its own and prints what appears there.
    let on_terminal = shell(Command::new("script").args(["-qec", &run, "/dev/null"]));
    on_terminal.expect_success();
    assert!(on_terminal.stdout.contains("remora: uploading, "), "{on_terminal:?}");
    assert!(on_terminal.stdout.contains(" of 32.0 MiB ("), "{on_terminal:?}");
    let last = on_terminal.stdout.rsplit("remora: uploading, ").next().unwrap_or_default();
    assert!(last.contains("\r\x1b[K"), "the line is removed: {on_terminal:?}");
    let elsewhere = shell(Command::new("sh").args(["-c", &run]));
    elsewhere.expect_success();
    assert!(!elsewhere.stderr.contains("uploading"), "{elsewhere:?}");
}
