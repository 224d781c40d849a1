//! A bad network delays results but never changes them; a missing network is reported at once, and only once.

use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use e2e::{Ended, Program, Running, Worker, WorkerOptions};
use transport::impair::{Impair, Impairment, Stall};

fn through(proxy: &Impair, program: &Program) -> Command {
    let mut command = program.command();
    command.env("REMORA_WORKER", proxy.endpoint().to_string());
    command
}

#[test]
fn a_connection_cut_again_and_again_leaves_ten_thousand_launches_bit_identical() {
    let worker = Worker::start();
    let program = Program::example("launch_storm");
    let uncut = program.run(&worker, &["10000"]);
    uncut.expect_silent_success().expect_line("PASS launch_storm");

    // Odd numbers, so that cuts fall inside headers, fields and bodies.
    let cuts = vec![20_001, 77_773, 150_011, 3_333, 200_003, 99_991];
    let proxy =
        Impair::start(worker.endpoint().clone(), Impairment { cuts: cuts.clone(), ..Impairment::default() })
            .unwrap();
    let cut = Running::start(through(&proxy, &program).arg("10000").env("REMORA_STATS", "1")).finish();
    cut.expect_success();
    assert_eq!(cut.stdout, uncut.stdout);
    assert_eq!(
        proxy.accepted() as usize,
        cuts.len() + 1,
        "the client reconnected after every cut\n{}",
        cut.stderr
    );
    assert!(cut.stderr.contains(&format!("{} reconnects", cuts.len())), "{}", cut.stderr);
}

/// Cuts connections at random offsets, some of them in the handshake of a reconnect.
fn cut_at_random(program: &Program, links: &str, seeds: std::ops::Range<u64>) {
    let worker = Worker::start();
    let carried = |program: &Program| {
        let proxy = Impair::start(worker.endpoint().clone(), Impairment::default()).unwrap();
        let ended = Running::start(through(&proxy, program).env("REMORA_LINKS", links)).finish();
        ended.expect_silent_success();
        (proxy.carried(), ended.stdout)
    };
    let (handshake, _) = carried(&Program::test("device_count"));
    let (total, uncut) = carried(program);
    let work = total - handshake;
    for seed in seeds {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut below = |limit: u64| random.u64(..limit);
        // The first connection must complete its handshake: without a session there is nothing to resume.
        let mut cuts = vec![handshake + below(work * 3 / 4)];
        cuts.extend((0..4).map(|_| below(handshake + work / 2)));
        let impairment = Impairment { cuts: cuts.clone(), ..Impairment::default() };
        let proxy = Impair::start(worker.endpoint().clone(), impairment).unwrap();
        let ended = Running::start(through(&proxy, program).env("REMORA_LINKS", links)).finish();
        assert_eq!(ended.stdout, uncut, "seed {seed}, cuts {cuts:?}\n{}", ended.stderr);
        ended.expect_silent_success();
        assert!(proxy.accepted() > 1, "seed {seed}: nothing was cut");
    }
    assert!(!worker.log().contains("panicked"), "{}", worker.log());
}

#[test]
fn what_kernels_print_arrives_once_and_in_order_whatever_is_cut() {
    cut_at_random(&Program::test("printf_order"), "1", 1..7);
}

#[test]
fn host_functions_run_once_and_in_order_whatever_is_cut() {
    cut_at_random(&Program::test("host_functions"), "1", 11..17);
}

#[test]
fn bulk_data_arrives_whole_whatever_is_cut() {
    cut_at_random(&Program::test("bulk"), "1", 21..27);
}

#[test]
fn bulk_data_spread_over_several_links_arrives_whole_whichever_is_cut() {
    cut_at_random(&Program::test("bulk"), "4", 31..37);
}

#[test]
fn large_copies_over_a_long_way_are_spread_over_several_links() {
    let worker = Worker::start();
    let program = Program::test("bulk");
    let direct = program.run(&worker, &[]);
    // A round trip of 6 ms, and a low bandwidth per connection.
    let impairment =
        Impairment { delay: Duration::from_millis(3), bandwidth: Some(100 << 20), ..Impairment::default() };
    let links = |links: Option<&str>| {
        let proxy = Impair::start(worker.endpoint().clone(), impairment.clone()).unwrap();
        let mut command = through(&proxy, &program);
        if let Some(links) = links {
            command.env("REMORA_LINKS", links);
        }
        let ended = Running::start(&mut command).finish();
        ended.expect_silent_success();
        assert_eq!(ended.stdout, direct.stdout);
        proxy.accepted()
    };
    assert_eq!(links(Some("1")), 1);
    assert_eq!(links(Some("3")), 3);
    assert!(links(None) > 1, "the latency alone makes the client open more links");
}

#[test]
fn a_worker_out_of_reach_for_a_while_is_waited_for() {
    let worker = Worker::start();
    let steady = Program::test("steady");
    let proxy = Impair::start(worker.endpoint().clone(), Impairment::default()).unwrap();
    let running = Running::start(&mut through(&proxy, &steady));
    running.wait_for_line("round 0");
    proxy.refuse(true);
    proxy.cut();
    let before = running.stdout_so_far().lines().count();
    std::thread::sleep(Duration::from_millis(700));
    proxy.refuse(false);
    e2e::eventually("the program continues", || running.stdout_so_far().lines().count() > before + 2);
    running.finish().expect_silent_success().expect_line("PASS steady");
}

/// Asserts the two lines on stderr: one with this start, and one that reports that the connection is restored.
fn expect_outage(ended: &Ended, first: &str, proxy: &Impair) {
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "one line for the outage and one for its end:\n{}", ended.stderr);
    let place = proxy.endpoint();
    assert!(lines[0].starts_with(&format!("remora: {first} {place} for ")), "{}", lines[0]);
    assert!(lines[0].contains("a call is waiting"), "{}", lines[0]);
    assert!(lines[1].starts_with(&format!("remora: connection to {place} restored after ")), "{}", lines[1]);
}

#[test]
fn a_call_on_a_link_that_falls_silent_gets_its_answer_over_a_new_one_and_two_lines_say_so() {
    let worker = Worker::start();
    let proxy = Impair::start(worker.endpoint().clone(), Impairment::default()).unwrap();
    let steady = Program::test("steady");
    let running = Running::start(through(&proxy, &steady).env("REMORA_SILENCE_TIMEOUT", "1"));
    running.wait_for_line("round 0");
    proxy.stall(Stall::Both);
    let before = running.stdout_so_far().lines().count();
    e2e::eventually("the program continues", || running.stdout_so_far().lines().count() > before + 2);
    let ended = running.finish();
    ended.expect_success().expect_line("PASS steady");
    expect_outage(&ended, "no answer from", &proxy);
    assert_eq!(proxy.accepted(), 2);
}

#[test]
fn a_link_that_falls_silent_while_the_program_is_idle_is_replaced_without_a_word() {
    let worker = Worker::start();
    let proxy = Impair::start(worker.endpoint().clone(), Impairment::default()).unwrap();
    let program = Program::test("hold_memory");
    let running = Running::start(through(&proxy, &program).arg("1").env("REMORA_SILENCE_TIMEOUT", "500ms"));
    running.wait_for_line("holding ");
    proxy.stall(Stall::Both);
    e2e::eventually("the program reconnects", || proxy.accepted() == 2);
    running.finish().expect_silent_success().expect_line("leaving");
}

#[test]
fn one_of_several_links_that_falls_silent_changes_no_byte() {
    let worker = Worker::start();
    let program = Program::test("bulk");
    let direct = program.run(&worker, &[]);
    let stalls = vec![u64::MAX, 2_000_003];
    let impairment = Impairment { stalls, ..Impairment::default() };
    let proxy = Impair::start(worker.endpoint().clone(), impairment).unwrap();
    let mut command = through(&proxy, &program);
    command.env("REMORA_LINKS", "3").env("REMORA_SILENCE_TIMEOUT", "1");
    let ended = Running::start(&mut command).finish();
    ended.expect_success();
    assert_eq!(ended.stdout, direct.stdout);
    expect_outage(&ended, "no answer from", &proxy);
    assert!(proxy.accepted() > 3, "{} connections", proxy.accepted());
}

#[test]
fn a_call_that_waits_long_for_a_broken_connection_says_so_once_and_again_when_it_is_back() {
    let worker = Worker::start();
    let proxy = Impair::start(worker.endpoint().clone(), Impairment::default()).unwrap();
    let steady = Program::test("steady");
    let running = Running::start(through(&proxy, &steady).env("REMORA_SILENCE_TIMEOUT", "1"));
    running.wait_for_line("round 0");
    proxy.refuse(true);
    proxy.cut();
    e2e::eventually("the outage is reported", || running.stderr_so_far().contains("no connection to"));
    proxy.refuse(false);
    let before = running.stdout_so_far().lines().count();
    e2e::eventually("the program continues", || running.stdout_so_far().lines().count() > before + 2);
    let ended = running.finish();
    ended.expect_success().expect_line("PASS steady");
    expect_outage(&ended, "no connection to", &proxy);
}

#[test]
fn a_long_kernel_on_a_worker_that_answers_is_no_silence() {
    let worker = Worker::start();
    let proxy = Impair::start(worker.endpoint().clone(), Impairment::default()).unwrap();
    let program = Program::test("waiting");
    let mut command = through(&proxy, &program);
    command.args(["kernel", "2.2"]).env("REMORA_SILENCE_TIMEOUT", "3");
    let ended = Running::start(&mut command).finish();
    ended.expect_silent_success().expect_line("PASS waiting");
    assert_eq!(proxy.accepted(), 1);
}

#[test]
fn a_slow_link_that_carries_one_large_frame_is_no_silence() {
    let worker = Worker::start();
    let impairment = Impairment { bandwidth: Some(2_000_000), ..Impairment::default() };
    let proxy = Impair::start(worker.endpoint().clone(), impairment).unwrap();
    let program = Program::test("waiting");
    let mut command = through(&proxy, &program);
    // One frame takes two seconds, longer than the timeout: a Ping waits behind it.
    command.args(["upload", "4194304"]).env("REMORA_SILENCE_TIMEOUT", "1.5");
    let ended = Running::start(&mut command).finish();
    ended.expect_silent_success().expect_line("PASS waiting");
    assert_eq!(proxy.accepted(), 1);
    assert!(ended.time > Duration::from_millis(1800), "the frame took {:?}", ended.time);
}

#[test]
fn a_program_that_was_stopped_for_longer_than_the_timeout_keeps_its_connection() {
    let worker = Worker::start();
    let proxy = Impair::start(worker.endpoint().clone(), Impairment::default()).unwrap();
    let steady = Program::test("steady");
    let running = Running::start(through(&proxy, &steady).env("REMORA_SILENCE_TIMEOUT", "1"));
    running.wait_for_line("round 0");
    running.signal(libc::SIGSTOP);
    std::thread::sleep(Duration::from_secs(2));
    running.signal(libc::SIGCONT);
    let before = running.stdout_so_far().lines().count();
    e2e::eventually("the program continues", || running.stdout_so_far().lines().count() > before + 2);
    running.finish().expect_silent_success().expect_line("PASS steady");
    assert_eq!(proxy.accepted(), 1);
}

#[test]
fn a_worker_that_starts_after_its_program_is_waited_for_and_one_line_says_so() {
    // A port on which nothing listens: it was bound and closed just before.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Program::test("device_count").command();
    command.env("TF_WORKER_HOST", "127.0.0.1").env("TF_WORKER_PORT", port.to_string());
    let running = Running::start(command.env("REMORA_CONNECT_TIMEOUT", "30"));
    e2e::eventually("the wait is reported", || running.stderr_so_far().ends_with(" s left\n"));
    let listen = format!("127.0.0.1:{port}");
    let _worker = Worker::start_with(&WorkerOptions { listen: listen.clone(), ..WorkerOptions::default() });
    let ended = running.finish();
    ended.expect_success();
    assert_eq!((ended.value("result0"), ended.value("count0")), ("hipSuccess", "1"));
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.starts_with("remora: waiting for a worker: ") && ended.stderr.contains(&listen));
}

#[test]
fn a_silence_timeout_that_makes_no_sense_is_an_error_that_says_what_may_be_there() {
    let mut command = Program::test("device_count").command();
    let ended = Running::start(command.env("REMORA_SILENCE_TIMEOUT", "soon")).finish();
    assert_eq!(ended.value("result0"), "hipErrorNoDevice");
    assert!(ended.stderr.contains("REMORA_SILENCE_TIMEOUT is \"soon\"; use off, or"), "{}", ended.stderr);
}

#[test]
fn without_a_worker_there_is_no_device_and_one_line_says_why() {
    // A port on which nothing listens: it was bound and closed just before.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let ended = query_devices(port);
    expect_no_device(&ended, port);
}

#[test]
fn a_port_that_never_answers_is_given_up_after_the_connect_timeout() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let ended = query_devices(port);
    expect_no_device(&ended, port);
}

#[test]
fn something_else_on_the_port_is_recognised() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            answer_like_a_web_server(stream);
        }
    });
    expect_no_device(&query_devices(port), port);
}

fn answer_like_a_web_server(mut stream: TcpStream) {
    use std::io::{Read, Write};
    let _ = stream.read(&mut [0; 512]);
    let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}

fn query_devices(port: u16) -> Ended {
    let mut command = Program::test("device_count").command();
    command.env("TF_WORKER_HOST", "127.0.0.1").env("TF_WORKER_PORT", port.to_string());
    command.env("REMORA_CONNECT_TIMEOUT", "1");
    Running::start(&mut command).finish()
}

fn expect_no_device(ended: &Ended, port: u16) {
    ended.expect_success();
    for time in 0..3 {
        assert_eq!(ended.value(&format!("result{time}")), "hipErrorNoDevice");
        assert_eq!(ended.value(&format!("count{time}")), "0");
    }
    assert_eq!(ended.value("malloc"), "hipErrorNoDevice");
    let took: u64 = ended.value("milliseconds0").parse().unwrap();
    assert!(took < 1500, "the time-out is one second, and it took {took} ms");
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "exactly one line:\n{}", ended.stderr);
    let address = format!("127.0.0.1:{port}");
    assert!(lines[0].starts_with("remora: ") && lines[0].contains(&address), "{}", lines[0]);
}
