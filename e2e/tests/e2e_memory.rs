//! Memory that host and device both see is the same on both sides whenever HIP says so.

use e2e::{Program, Worker};

#[test]
fn mapped_memory_is_the_same_on_both_sides_at_every_synchronisation() {
    let worker = Worker::start();
    Program::own("mapped").run(&worker, &[]).expect_silent_success().expect_line("PASS mapped");
}
