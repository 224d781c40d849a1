//! Tests of `remora emulate`: the program runs as usual, and the trace, profile or check of its kernels is reported separately.

use std::process::Command;

use e2e::{Ended, Marker, Program, Recipe, Running, remora};

/// `remora emulate options -- program arguments`, which leaves nothing behind.
fn emulate(options: &[&str], program: &Program, arguments: &[&str]) -> Ended {
    let marker = Marker::new();
    let mut command = Command::new(remora());
    command.arg("emulate").args(options).arg("--").arg(program.path()).args(arguments);
    command.env(Marker::NAME, marker.value());
    // `remora emulate` must ignore REMORA_WORKER.
    command.env("REMORA_WORKER", "127.0.0.1:1").env_remove("LD_LIBRARY_PATH").env_remove("REMORA_LOG");
    let ended = Running::start(&mut command).finish();
    assert_eq!(marker.processes(), [], "remora emulate left processes behind");
    ended
}

fn refused(options: &[&str]) -> String {
    let ended = Running::start(Command::new(remora()).arg("emulate").args(options)).finish();
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    ended.stderr
}

/// saxpy with debug information.
fn saxpy() -> Program {
    Recipe::example("saxpy").with_flag("-g").build()
}

#[test]
fn a_trace_goes_to_standard_error_and_leaves_the_programs_output_alone() {
    let ended = emulate(&["--trace", "--kernel", "axpy<double>", "--limit", "12"], &saxpy(), &[]);
    ended.expect_success();
    assert_eq!(ended.stdout, "PASS saxpy\n");
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(lines[0], "== void axpy<double>(double, double const*, double*, int)", "{}", ended.stderr);
    assert!(lines[1].starts_with("== launch 0, workgroup 0,0,0, wave 0 of 2"), "{}", ended.stderr);
    assert_eq!(lines.iter().filter(|line| line.starts_with('+')).count(), 12, "{}", ended.stderr);
    assert!(lines.contains(&"; saxpy.hip:8"), "the source line is named:\n{}", ended.stderr);
}

#[test]
fn a_trace_goes_to_a_file_and_the_exit_code_is_the_programs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.txt");
    let option = format!("--trace={}", file.display());
    let program = Program::test("outcome");
    let ended = emulate(&[&option], &program, &["exit", "7"]);
    assert_eq!(ended.status.code(), Some(7), "{ended:?}");
    let ended = emulate(&[&option], &Program::test("device_count"), &[]);
    ended.expect_success();
    assert!(ended.stderr.contains("no wave was traced: the program launched no kernel"), "{}", ended.stderr);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "", "the file is truncated");
    let ended = emulate(&[&option, "--workgroup", "3", "--wave", "1", "--launch", "2"], &saxpy(), &[]);
    ended.expect_silent_success();
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("== launch 2, workgroup 3,0,0, wave 1 of 2"), "{text}");
    assert!(text.contains("s_endpgm"), "{text}");
}

#[test]
fn a_wave_that_does_not_exist_is_said_to_be_missing() {
    let ended = emulate(&["--trace", "--workgroup", "40"], &saxpy(), &[]);
    ended.expect_success();
    let wanted = "none of 6 launches was launch 0 with workgroup 40,0,0 and wave 0";
    assert!(ended.stderr.contains(wanted), "{}", ended.stderr);
}

#[test]
fn bad_options_are_refused_with_a_reason() {
    for (options, reason) in [
        (vec!["--workgroup", "1,x", "--trace", "--", "true"], "is not a workgroup ID"),
        (vec!["--lane", "64", "--trace", "--", "true"], "64 is not in 0..64"),
        (vec!["--wave", "1", "--", "true"], "--trace"),
        (vec!["--trace"], "PROGRAM"),
    ] {
        let said = refused(&options);
        assert!(said.contains(reason), "{options:?}:\n{said}");
    }
    let ended = emulate(&["--json", "x.json"], &saxpy(), &[]);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("--json needs --profile, --model or --check"), "{}", ended.stderr);
    let ended = emulate(&["--trace=/no/such/folder/trace"], &saxpy(), &[]);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("cannot write /no/such/folder/trace"), "{}", ended.stderr);
}

#[test]
fn the_help_shows_what_can_be_asked_for() {
    let ended = Running::start(Command::new(remora()).args(["emulate", "--help"])).finish();
    ended.expect_silent_success();
    for word in [
        "--trace[=<FILE>]",
        "--profile[=<FILE>]",
        "--model[=<FILE>]",
        "--check[=<FILE>]",
        "--json <FILE>",
        "--kernel",
        "--workgroup <X[,Y[,Z]]>",
        "--limit",
        "Examples:",
    ] {
        assert!(ended.stdout.contains(word), "{word} is missing:\n{}", ended.stdout);
    }
}

fn race() -> Program {
    Recipe::test("race").with_flag("-g").build()
}

#[test]
fn a_race_is_found_and_changes_the_exit_code() {
    let ended = emulate(&["--check"], &race(), &["racy"]);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert_eq!(ended.stdout, "PASS race\n", "the program itself passes");
    for word in
        ["race on local memory in void sum<false>(int const*, int*)", "ds_read", "ds_write", "race.hip:15"]
    {
        assert!(ended.stderr.contains(word), "{word} is missing:\n{}", ended.stderr);
    }
    let ended = emulate(&["--check"], &race(), &["fixed"]);
    ended.expect_success();
    assert_eq!(ended.stderr, "== check: nothing found\n");
}

#[test]
fn an_access_out_of_bounds_is_placed_beside_the_allocation_it_missed() {
    let program = Recipe::test("faults").with_flag("-g").build();
    let ended = emulate(&["--check"], &program, &["overrun"]);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert_eq!(ended.value("synchronize"), "hipErrorIllegalAddress");
    let address = ended.value("address");
    let source = include_str!("../programs/faults.hip").lines();
    let line = source.take_while(|line| !line.contains("void write_out_of_bounds")).count() + 1;
    for word in [
        "fault in write_out_of_bounds(int*, long long)",
        "global_store_dword",
        &format!("faults.hip:{line}\n"),
        "work-item 0,0,0",
        &format!("write of address {address}"),
        "right behind the 4096 bytes at",
    ] {
        assert!(ended.stderr.contains(word), "{word} is missing:\n{}", ended.stderr);
    }
}

#[test]
fn a_profile_is_told_as_text_and_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let (text, json) = (folder.path().join("profile.txt"), folder.path().join("profile.json"));
    let option = format!("--profile={}", text.display());
    let options = [&option, "--json", json.to_str().unwrap(), "--kernel", "axpy<float>"];
    emulate(&options, &saxpy(), &[]).expect_silent_success();
    let text = std::fs::read_to_string(text).unwrap();
    assert!(text.starts_with("== profile: void axpy<float>(float, float const*, float*, int)\n"), "{text}");
    assert!(text.contains("== 3 launches, 120 workgroups, 240 waves, "), "{text}");
    for word in ["v_fmac_f32", "global memory", "hot block 1", "saxpy.hip:9"] {
        assert!(text.contains(word), "{word} is missing:\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let json: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    let profile = &json["sessions"][0]["profile"][0];
    assert_eq!(profile["waves"], 240);
    // Each of three launches writes 65543 floats and reads twice as many.
    assert_eq!(profile["global_stores"]["bytes"], 3 * 65543 * 4);
    assert_eq!(profile["global_loads"]["bytes"], 2 * 3 * 65543 * 4);
    let classes = profile["classes"].as_array().unwrap();
    let sum: u64 = classes.iter().map(|class| class["instructions"].as_u64().unwrap()).sum();
    assert_eq!(profile["instructions"], sum);
}

#[test]
fn estimates_of_the_performance_model_are_told_as_text_and_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let (text, json) = (folder.path().join("model.txt"), folder.path().join("model.json"));
    let option = format!("--model={}", text.display());
    let options =
        [&option, "--json", json.to_str().unwrap(), "--kernel", "axpy<float>", "--device", "mi325x"];
    emulate(&options, &saxpy(), &[]).expect_silent_success();
    let text = std::fs::read_to_string(text).unwrap();
    assert!(text.starts_with("== model: void axpy<float>(float, float const*, float*, int)\n"), "{text}");
    assert!(text.contains("== AMD Instinct MI325X, 3 launches, 120 workgroups, 240 waves"), "{text}");
    for word in ["estimated time", "limited by", "HBM bandwidth", "vector memory", "saxpy.hip:9"] {
        assert!(text.contains(word), "{word} is missing:\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let json: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    let estimate = &json["sessions"][0]["model"][0];
    assert_eq!(estimate["launches"], 3);
    // Each launch takes at least its start and end, and reads at least its two arrays from HBM or a cache.
    let times: Vec<f64> = estimate["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["time_ns"].as_f64().unwrap())
        .collect();
    let total = estimate["time_ns"].as_f64().unwrap();
    assert!(times.iter().all(|time| *time <= total) && total > 0.0, "{times:?} {total}");
    assert!(estimate["l1"]["accesses"].as_u64().unwrap() > 0);
}
