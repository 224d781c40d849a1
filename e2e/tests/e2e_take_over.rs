//! `remora run` makes programs load our libamdhip64, wherever they search for one, and reports it if that fails.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::{Ended, Recipe, Running, library_folder, remora};

/// Source of another library: it prints that it was loaded, and has no HIP functions.
const OTHER: &str = "
#include <stdio.h>
__attribute__((constructor)) static void loaded(void) { puts(\"another library was loaded\"); }
int hipGetDeviceCount(int *count) { *count = -7; return 1; }
";

fn compile(command: &mut Command) {
    let output = command.output().expect("cc is installed");
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// Compiles that library into a folder.
fn place_other(folder: &Path, name: &str, soname: &str) -> PathBuf {
    std::fs::create_dir_all(folder).unwrap();
    let scratch = tempfile::tempdir_in(folder).unwrap();
    let (source, made, path) =
        (scratch.path().join("other.c"), scratch.path().join("other.so"), folder.join(name));
    std::fs::write(&source, OTHER).unwrap();
    compile(
        Command::new("cc")
            .args(["-shared", "-fPIC", &format!("-Wl,-soname,{soname}"), "-o"])
            .arg(&made)
            .arg(&source),
    );
    std::fs::rename(&made, &path).unwrap();
    path
}

fn run(options: &[&str], program: &Path, arguments: &[&str]) -> Ended {
    let mut command = Command::new(remora());
    command.arg("run").args(options).arg("--").arg(program).args(arguments);
    for variable in ["LD_LIBRARY_PATH", "LD_AUDIT", "TF_WORKER_HOST", "REMORA_WORKER"] {
        command.env_remove(variable);
    }
    Running::start(&mut command).finish()
}

/// The program that opens libraries.
fn opener(folder: &Path) -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/open_library.c");
    let program = folder.join("open_library");
    compile(Command::new("cc").arg(source).arg("-o").arg(&program).arg("-ldl"));
    program
}

#[test]
fn programs_with_an_rpath_or_runpath_to_another_library_get_ours() {
    for tags in ["--disable-new-dtags", "--enable-new-dtags"] {
        let program = Recipe::test("outcome")
            .with_link_flag("-Wl,-rpath,$ORIGIN/other")
            .with_link_flag(&format!("-Wl,{tags}"))
            .build();
        let folder = program.path().parent().unwrap().join("other");
        place_other(&folder, "libamdhip64.so.6", "libamdhip64.so.6");
        let ended = run(&[], program.path(), &["architecture"]);
        ended.expect_silent_success();
        assert!(ended.value("architecture").starts_with("gfx942"), "{}", ended.stdout);
        assert!(!ended.stdout.contains("another library"), "{}", ended.stdout);
    }
}

#[test]
fn a_program_with_an_rpath_to_a_library_without_a_number_gets_ours() {
    let folder = tempfile::tempdir().unwrap();
    let wheel = place_other(folder.path(), "libamdhip64.so", "libamdhip64.so");
    let program = folder.path().join("linked");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/open_library.c");
    compile(
        Command::new("cc")
            .args([
                source,
                "-ldl",
                "-Wl,--no-as-needed",
                "-Wl,--disable-new-dtags",
                "-Wl,-rpath,$ORIGIN",
                "-o",
            ])
            .args([&program, &wheel]),
    );
    let ended = run(&[], &program, &["call:libamdhip64.so.6"]);
    ended.expect_silent_success().expect_line("devices=1 status=0");
    assert!(!ended.stdout.contains("another library"), "{}", ended.stdout);
}

#[test]
fn a_library_opened_by_its_path_is_ours_in_the_generation_that_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let program = opener(folder.path());
    let numbered = place_other(folder.path(), "libamdhip64.so.6", "libamdhip64.so.6");
    let wheel = place_other(&folder.path().join("wheel"), "libamdhip64.so", "libamdhip64.so.7");
    let (called, wheel) = (format!("call:{}", numbered.display()), wheel.to_string_lossy().into_owned());
    let ended = run(&[], &program, &[&called, &wheel, "libamdhip64.so.5"]);
    ended.expect_silent_success().expect_line("devices=1 status=0");
    let ours = library_folder().canonicalize().unwrap();
    for (at, version) in [("1", 6), ("2", 7), ("3", 5)] {
        assert_eq!(Path::new(ended.value(at)), ours.join(format!("libamdhip64.so.{version}")));
    }
    // Child processes of the program get our library too.
    let command = format!("{} {}; exit 3", program.display(), numbered.display());
    let ended = run(&[], "/bin/sh".as_ref(), &["-c", &command]);
    assert_eq!((ended.status.code(), ended.status.signal()), (Some(3), None), "{ended:?}");
    assert_eq!(Path::new(ended.value("1")), ours.join("libamdhip64.so.6"));
}

#[test]
fn another_library_that_was_loaded_all_the_same_is_reported_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let program = opener(folder.path());
    let renamed = place_other(folder.path(), "renamed.so", "libamdhip64.so.6");
    let unknown = place_other(folder.path(), "libamdhip64.so.4", "libamdhip64.so.4");
    for other in [&renamed, &unknown] {
        let ended = run(&[], &program, &[&other.to_string_lossy()]);
        ended.expect_success().expect_line("another library was loaded");
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        for part in [&*other.to_string_lossy(), "not Remora's", "libamdhip64.so.5"] {
            assert!(ended.stderr.contains(part), "{part} in {}", ended.stderr);
        }
    }
    // With --no-audit, programs load the library they name.
    let numbered = place_other(folder.path(), "libamdhip64.so.6", "libamdhip64.so.6");
    let ended = run(&["--no-audit"], &program, &[&numbered.to_string_lossy()]);
    ended.expect_silent_success().expect_line("another library was loaded");
    assert_eq!(Path::new(ended.value("1")), numbered);
}

#[test]
fn programs_that_have_nothing_to_do_with_hip_notice_nothing() {
    let ended = run(&[], "/bin/sh".as_ref(), &["-c", "echo fine; /bin/true"]);
    ended.expect_silent_success().expect_line("fine");
}
