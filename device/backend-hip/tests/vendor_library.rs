//! Loads AMD's libamdhip64, as packaged by Debian, on a machine that may have no AMD GPU.
//!
//! Each library is loaded in a separate process: two versions of the runtime conflict, and a crash must fail only one case.

use std::path::{Path, PathBuf};
use std::process::Command;

const CHILD: &str = "REMORA_TEST_VENDOR_LIBRARY";

/// Every vendor library of this machine: unpacked in the target folder, or installed.
fn libraries() -> Vec<PathBuf> {
    let unpacked =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/toolchain/vendor/usr/lib/x86_64-linux-gnu");
    let folders = [unpacked, "/usr/lib/x86_64-linux-gnu".into(), "/opt/rocm/lib".into()];
    let names = ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"];
    let all = folders.iter().flat_map(|dir| names.iter().map(move |name| dir.join(name)));
    all.filter(|path| path.is_file()).collect()
}

fn run_child(library: &Path) -> (bool, String) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_opens_the_library_it_is_told", "--nocapture", "--test-threads=1"])
        .env(CHILD, library)
        .output()
        .unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.success(), text)
}

/// Child process of the other tests in this file; does nothing if run directly.
#[test]
fn child_opens_the_library_it_is_told() {
    let Some(library) = std::env::var_os(CHILD) else { return };
    let path = Path::new(&library);
    match backend_hip::Functions::load(Some(path)) {
        Err(error) => {
            // A dependency of the library is missing or too old; the loader's error names it.
            println!("unloadable: {error}: {}", std::error::Error::source(&error).unwrap());
            return;
        }
        Ok(functions) => println!("functions: {}", functions.count()),
    }
    match backend_hip::Hip::open(Some(path), None, None) {
        Ok(hip) => println!("opened: {hip:?}"),
        Err(error) => println!("status: {} text: {}", error.code.0, error.text),
    }
}

#[test]
fn a_vendor_library_without_a_gpu_reports_its_own_no_device() {
    let has_gpu = Path::new("/dev/kfd").exists();
    let mut loaded = 0;
    for library in libraries() {
        let (succeeded, text) = run_child(&library);
        eprintln!("{}: {text}", library.display());
        if text.contains("unloadable: ") {
            continue;
        }
        loaded += 1;
        assert!(succeeded, "{} crashed:\n{text}", library.display());
        let count = text.split("functions: ").nth(1).and_then(|rest| rest.split_whitespace().next());
        let count: usize =
            count.and_then(|count| count.parse().ok()).expect("the child prints the number of functions");
        assert!(count > 250, "{} has only {count} functions of the table", library.display());
        if has_gpu {
            continue;
        }
        assert!(text.contains("status: 100 "), "not hipErrorNoDevice from {}:\n{text}", library.display());
        assert!(text.contains("hipErrorNoDevice"), "the text names the error:\n{text}");
    }
    eprintln!("{loaded} vendor libraries loaded");
}

#[test]
fn a_library_that_is_not_there_is_named_in_the_error() {
    let error = backend_hip::Hip::open(Some(Path::new("/nowhere/libamdhip64.so.7")), None, None).unwrap_err();
    assert!(error.text.contains("/nowhere/libamdhip64.so.7"), "{error}");
}
