//! A worker on the same machine: large copies bypass the socket, with the same results.

use e2e::{Ended, Program, Running, Worker, WorkerOptions};

fn run_on(worker: &Worker, program: &Program) -> Ended {
    let mut command = program.command();
    command.env("REMORA_WORKER", worker.endpoint().to_string()).env("REMORA_STATS", "1");
    let ended = Running::start(&mut command).finish();
    ended.expect_success();
    ended
}

/// Sum of bytes sent and received, from the statistics line of REMORA_STATS=1.
fn bytes_on_socket(ended: &Ended) -> u64 {
    let count = |after: &str| {
        ended.stderr.lines().find_map(|line| {
            let (before, _) = line.strip_prefix("remora: ")?.split_once(after)?;
            before.rsplit(' ').next()?.parse::<u64>().ok()
        })
    };
    match (count(" bytes sent"), count(" received")) {
        (Some(sent), Some(received)) => sent + received,
        _ => panic!("no counters in\n{}", ended.stderr),
    }
}

fn over_unix(folder: &tempfile::TempDir) -> Worker {
    let listen = format!("unix:{}", folder.path().join("worker").display());
    Worker::start_with(&WorkerOptions { listen, ..WorkerOptions::default() })
}

#[test]
fn large_copies_leave_the_socket_and_bring_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::test("bulk");
    let apart = run_on(&Worker::start(), &program);
    let together = run_on(&over_unix(&folder), &program);
    assert_eq!(together.stdout, apart.stdout);
    // Prefetched data still comes over the socket: a third of all.
    assert!(
        bytes_on_socket(&together) < bytes_on_socket(&apart) / 2,
        "{} of {}",
        bytes_on_socket(&together),
        bytes_on_socket(&apart)
    );
}

#[test]
fn large_copies_keep_their_place_in_every_stream() {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::test("copies_in_order");
    for worker in [Worker::start(), over_unix(&folder)] {
        run_on(&worker, &program).expect_line("PASS copies_in_order");
    }
}
