//! Upload cache: uploads are cached by content hash, so the next run of a program sends hashes. Other tenants cannot use the cached data,
//! and missing data is sent again.

use e2e::{Ended, Program, Running, Worker, WorkerOptions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use transport::impair::{Impair, Impairment};

fn worker(folder: &Path, more: &[&str]) -> Worker {
    let folder = folder.to_str().unwrap();
    Worker::start_with(&WorkerOptions::with(&[&["--upload-cache", folder], more].concat()))
}

fn run(worker: &Worker, variables: &[(&str, &str)]) -> Ended {
    let mut command = Program::test("weights").on(worker);
    command.env("REMORA_STATS", "1").env("REMORA_UPLOAD_CACHE", "always").envs(variables.iter().copied());
    let ended = Running::start(&mut command).finish();
    ended.expect_success().expect_line("PASS weights");
    ended
}

/// The number of bytes sent, from the statistics line of REMORA_STATS=1.
fn sent(ended: &Ended) -> u64 {
    let count = ended.stderr.lines().find_map(|line| {
        let (before, _) = line.strip_prefix("remora: ")?.split_once(" bytes sent")?;
        before.rsplit(' ').next()?.parse().ok()
    });
    count.unwrap_or_else(|| panic!("no counters in\n{}", ended.stderr))
}

#[test]
fn the_second_run_sends_hashes_even_to_a_worker_started_anew() {
    let folder = tempfile::tempdir().unwrap();
    // Like a home folder, which the user IDs of sessions may not enter.
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let first_worker = worker(folder.path(), &[]);
    let first = sent(&run(&first_worker, &[]));
    assert!(first > 14 << 20, "the first run sends its tensors: {first}");
    assert!(first < 19 << 20, "repeated tensors are sent only once: {first}");
    let second = sent(&run(&first_worker, &[]));
    assert!(second * 20 <= first, "{second} bytes again after {first}");
    first_worker.stop();
    let third = sent(&run(&worker(folder.path(), &[]), &[]));
    assert!(third * 20 <= first, "{third} bytes again after {first}");
}

#[test]
fn what_one_token_uploaded_no_other_token_has() {
    let folder = tempfile::tempdir().unwrap();
    let mut amounts = Vec::new();
    for token in ["one-0123456789-abcdef", "two-0123456789-abcdef"] {
        let file = folder.path().join(token);
        transport::token::write_new(&file, token).unwrap();
        let worker = worker(&folder.path().join("store"), &["--token-file", file.to_str().unwrap()]);
        amounts.push(sent(&run(&worker, &[("REMORA_TOKEN", token)])));
    }
    assert!(amounts[1] > 14 << 20, "{amounts:?}");
    assert_eq!(std::fs::read_dir(folder.path().join("store")).unwrap().count(), 2);
}

#[test]
fn tensors_that_were_lost_meanwhile_are_sent_again() {
    let folder = tempfile::tempdir().unwrap();
    let worker = worker(folder.path(), &[]);
    let first = sent(&run(&worker, &[]));
    let tenant = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let mut damaged = 0;
    for entry in std::fs::read_dir(tenant).unwrap() {
        let entry = entry.unwrap();
        // Only files that are large enough to be part of a tensor, not the program's code.
        if entry.metadata().unwrap().len() >= 1 << 20 {
            std::fs::write(entry.path(), b"no longer what it was").unwrap();
            damaged += 1;
        }
    }
    assert!(damaged >= 4);
    let again = sent(&run(&worker, &[]));
    assert!(again > 14 << 20 && again < first + (1 << 20), "{again} after {first}");
    let third = sent(&run(&worker, &[]));
    assert!(third * 20 <= first, "{third} bytes after everything was cached again");
}

#[test]
fn what_shrinks_is_packed_whatever_is_cut_and_what_does_not_is_not() {
    let worker = Worker::start();
    let run = |compression: &str, arguments: &[&str], cuts: Vec<u64>| {
        let impairment = Impairment { cuts, ..Impairment::default() };
        let proxy = Impair::start(worker.endpoint().clone(), impairment).unwrap();
        let mut command = Program::test("weights").command();
        command.env("REMORA_WORKER", proxy.endpoint().to_string()).args(arguments);
        command.env("REMORA_STATS", "1").env("REMORA_COMPRESSION", compression);
        let ended = Running::start(&mut command).finish();
        ended.expect_success().expect_line("PASS weights");
        sent(&ended)
    };
    let plain = run("never", &["shrinks"], vec![]);
    assert!(run("always", &["shrinks"], vec![]) < plain / 2);
    run("always", &["shrinks"], vec![1_000_001, 500_009, 3_000_017]);
    let (noise, tried) = (run("never", &[], vec![]), run("always", &[], vec![]));
    // The program's code is compressible, and the number of acknowledgements varies.
    assert!(tried.abs_diff(noise) < 1 << 20, "{tried} bytes, and {noise} without trying");
}

#[test]
fn cuts_change_nothing_about_uploads_known_or_not() {
    let folder = tempfile::tempdir().unwrap();
    let worker = worker(folder.path(), &[]);
    for cuts in [vec![2_000_003, 3_333_333, 5_000_001], vec![70_001, 4_001, 60_007]] {
        let impairment = Impairment { cuts: cuts.clone(), ..Impairment::default() };
        let proxy = Impair::start(worker.endpoint().clone(), impairment).unwrap();
        let endpoint = proxy.endpoint().to_string();
        let ended = run(&worker, &[("REMORA_WORKER", &endpoint)]);
        assert!(!ended.stderr.contains(" 0 reconnects"), "{}", ended.stderr);
    }
}
