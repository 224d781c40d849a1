//! A worker on the same machine: large copies bypass the socket, with the same results.

use e2e::{Ended, Program, Running, Worker, WorkerOptions};

fn on(worker: &Worker, program: &Program) -> Ended {
    let mut command = program.command();
    command.env("REMORA_WORKER", worker.endpoint().to_string()).env("REMORA_STATS", "1");
    let ended = Running::start(&mut command).finish();
    ended.expect_success();
    ended
}

/// Sum of bytes sent and received, from the statistics line of REMORA_STATS=1.
fn moved(ended: &Ended) -> u64 {
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
    let program = Program::own("bulk");
    let apart = on(&Worker::start(), &program);
    let together = on(&over_unix(&folder), &program);
    assert_eq!(together.stdout, apart.stdout);
    // Prefetched data still comes over the socket: a third of all.
    assert!(moved(&together) < moved(&apart) / 2, "{} of {}", moved(&together), moved(&apart));
}

#[test]
fn large_copies_keep_their_place_in_every_stream() {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::own("copies_in_order");
    for worker in [Worker::start(), over_unix(&folder)] {
        on(&worker, &program).expect_line("PASS copies_in_order");
    }
}
