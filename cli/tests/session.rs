//! Tests of sessions with a real worker and real session processes.

mod raw;

use std::time::{Duration, Instant};

use raw::{Client, MIB, Worker};
use wire::Flags;

/// HIP status codes by number, because this client does not depend on the HIP API crate.
const INVALID_VALUE: i32 = 1;
const OUT_OF_MEMORY: i32 = 2;
const INVALID_IMAGE: i32 = 200;
const ILLEGAL_ADDRESS: i32 = 700;
const LAUNCH_TIME_OUT: i32 = 702;
const NOT_SUPPORTED: i32 = 801;

#[test]
fn memory_is_written_computed_on_and_read_back() {
    let worker = Worker::start(&[]);
    let mut client = worker.client();
    let device = &client.welcome.devices[0];
    assert_eq!((device.isa.as_str(), device.quota), ("gfx942:sramecc+:xnack-", 2 << 30));
    assert_eq!(&device.properties.0[..19], b"AMD Instinct MI300X");
    let a = client.arena() + 16 * MIB;
    client.load_kernels();
    client.allocate(a, 4 * MIB);
    let data: Vec<u8> = (0..4 * MIB).map(|at| (at * 7 % 251) as u8).collect();
    client.post(&wire::Write { stream: 0, destination: a }, &data);
    assert_eq!(client.read(a, 4 * MIB).unwrap(), data, "bulk data is read back unchanged");
    client.post(&wire::Fill { stream: 0, destination: a, value: 41, width: 4, count: 16 }, &[]);
    client.launch(1, 0, a, &[1]);
    assert_eq!(client.word(a), 42);
    assert_eq!(client.word(a + 4), 41);
    let free = client.call(&wire::MemoryInfo { device: 0 }, &[]).unwrap().0;
    assert!(free.total == 2 << 30 && free.free < free.total);
    client.call(&wire::Goodbye {}, &[]).unwrap();
    worker.wait_until("without sessions", |status| status.sessions.is_empty());
}

#[test]
fn a_read_later_is_a_snapshot_delivered_before_the_next_synchronisation() {
    let worker = Worker::start(&[]);
    let mut client = worker.client();
    let a = client.arena() + 16 * MIB;
    client.allocate(a, 16 * MIB);
    client.post(&wire::Fill { stream: 0, destination: a, value: 1, width: 1, count: 10 * MIB }, &[]);
    client.post(&wire::ReadLater { stream: 0, source: a, bytes: 10 * MIB, token: 0xbeef }, &[]);
    client.post(&wire::Fill { stream: 0, destination: a, value: 2, width: 1, count: 10 * MIB }, &[]);
    client.synchronize().unwrap();
    let mut got = 0;
    for frame in client.pushes.drain(..) {
        let (deliver, body) = wire::decode_request::<wire::Deliver>(&frame.payload).unwrap();
        assert_eq!((deliver.token, deliver.offset), (0xbeef, got));
        assert!(body.iter().all(|byte| *byte == 1), "the bytes are those at the time of the read");
        assert!(body.len() as u64 <= wire::MAX_DELIVER_PIECE);
        got += body.len() as u64;
    }
    assert_eq!(got, 10 * MIB, "all data had arrived when the synchronisation returned");
}

#[test]
fn a_wait_of_one_thread_does_not_hold_up_the_calls_of_another() {
    let worker = Worker::start(&[]);
    let mut client = worker.client();
    let a = client.arena() + 16 * MIB;
    client.load_kernels();
    client.allocate(a, 4096);
    client.post(&wire::CreateStream { device: 0, stream: 0x100, flags: 1, priority: 0 }, &[]);
    client.launch(4, 0x100, a, &[]);
    let wait = client.send(&wire::SynchronizeStream { stream: 0x100 }, &[], Flags::NONE);
    let begin = Instant::now();
    client.call(&wire::MemoryInfo { device: 0 }, &[]).unwrap();
    let done = client.call(&wire::QueryStream { stream: 0x100 }, &[]).unwrap().0.done;
    assert!(!done, "the kernel still runs");
    assert!(begin.elapsed() < Duration::from_secs(5));
    client.post(&wire::CreateStream { device: 0, stream: 0x101, flags: 1, priority: 0 }, &[]);
    client.post(&wire::Fill { stream: 0x101, destination: a, value: 1, width: 4, count: 1 }, &[]);
    client.reply::<wire::SynchronizeStream>(wait).unwrap();
}

#[test]
fn faults_of_a_kernel_are_errors_of_its_session_alone() {
    let worker = Worker::start(&["--watchdog", "0.3"]);
    let mut good = worker.client();
    let address = good.arena() + 16 * MIB;
    good.load_kernels();
    good.allocate(address, 4096);
    for (function, target, expected) in
        [(3, 0, ILLEGAL_ADDRESS), (3, 1 << 40, ILLEGAL_ADDRESS), (4, u64::MAX, LAUNCH_TIME_OUT)]
    {
        let mut bad = worker.client();
        let own = bad.arena() + 16 * MIB;
        bad.load_kernels();
        bad.allocate(own, 4096);
        let request = bad.launch(function, 0, if target == u64::MAX { own } else { target }, &[]);
        let failure = bad.synchronize().unwrap_err();
        assert_eq!(failure.status, expected, "{failure:?}");
        let (late, _) = bad.push::<wire::LateError>();
        assert_eq!((late.request_id, late.function, late.code), (request, 0x77, expected));
        let kernel = if function == 3 { "write_through" } else { "forever" };
        assert!(late.text.contains(kernel), "the text names the kernel: {}", late.text);
        assert_eq!(bad.read(own, 4).unwrap_err().status, expected, "the fault is sticky");
        good.launch(1, 0, address, &[1]);
    }
    assert_eq!(good.word(address), 3, "the other session continues");
}

#[test]
fn what_is_not_a_code_object_is_refused_and_the_session_goes_on() {
    let worker = Worker::start(&[]);
    let mut client = worker.client();
    let base = client.arena();
    let junk = b"\x7fELF but nothing else".to_vec();
    let hash = *blake3::hash(&junk).as_bytes();
    let failure = client.call(&wire::LoadModule { module: 1, device: 0, base, hash }, &junk).unwrap_err();
    assert_eq!(failure.status, INVALID_IMAGE);
    let failure =
        client.call(&wire::LoadModule { module: 1, device: 0, base, hash: [9; 32] }, &junk).unwrap_err();
    assert_eq!(failure.status, INVALID_IMAGE, "the hash is checked");
    let failure =
        client.call(&wire::LoadModule { module: 1, device: 0, base, hash: [8; 32] }, &[]).unwrap_err();
    assert_eq!(failure.status, INVALID_IMAGE, "an unknown hash is rejected");
    client.load_kernels();
    let hash = *blake3::hash(raw::KERNELS).as_bytes();
    client
        .call(&wire::LoadModule { module: 2, device: 0, base: base + MIB, hash }, &[])
        .expect("the hash of a known code object is accepted");
}

#[test]
fn errors_of_calls_are_replies_and_errors_of_posts_come_late() {
    let worker = Worker::start(&[]);
    let mut client = worker.client();
    let a = client.arena() + 16 * MIB;
    let failure =
        client.call(&wire::Allocate { device: 0, kind: 0, address: a, bytes: 3 << 30 }, &[]).unwrap_err();
    assert_eq!(failure.status, OUT_OF_MEMORY);
    let failure = client.read(a, 16).unwrap_err();
    assert_eq!(failure.status, INVALID_VALUE, "{failure:?}");
    let request = client.post(&wire::Write { stream: 0, destination: 0x1000 }, &[0; 100]);
    let (late, _) = client.push::<wire::LateError>();
    assert_eq!((late.request_id, late.code), (request, INVALID_VALUE));
    let request = client.post(&wire::Write { stream: 0, destination: 0x1000 }, &vec![0; 3 << 20]);
    let (late, _) = client.push::<wire::LateError>();
    assert_eq!((late.request_id, late.code), (request, INVALID_VALUE), "a bulk body is skipped");
    client.synchronize().expect("none of this is a fault");
}

#[test]
fn unknown_operations_and_malformed_fields_are_answered_and_the_session_goes_on() {
    let worker = Worker::start(&[]);
    let mut client = worker.client();
    let id = client.send_raw(0xeeee, Flags::NONE, b"what is this");
    assert_eq!(client.any_reply(id).payload[..4], NOT_SUPPORTED.to_le_bytes(), "the reply is a failure");
    let id2 = client.send_raw(0xeeef, Flags::POSTED, &[]);
    let (late, _) = client.push::<wire::LateError>();
    assert_eq!((late.request_id, late.code), (id2, NOT_SUPPORTED));
    let short = client.send_raw(wire::Opcode::SynchronizeStream.number(), Flags::NONE, &[1, 2, 3]);
    assert_eq!(client.reply::<wire::SynchronizeStream>(short).unwrap_err().status, INVALID_VALUE);
    let short = client.send_raw(wire::Opcode::Write.number(), Flags::NONE, &[1, 2, 3]);
    assert_eq!(client.reply::<wire::Write>(short).unwrap_err().status, INVALID_VALUE);
    let push = client.send_raw(wire::Opcode::Deliver.number(), Flags::POSTED, &[0; 16]);
    let (late, _) = client.push::<wire::LateError>();
    assert_eq!((late.request_id, late.code), (push, NOT_SUPPORTED), "a push is not a request");
    client.synchronize().unwrap();
}

#[test]
fn a_session_continues_after_its_connection_was_cut() {
    let worker = Worker::start(&[]);
    let mut client = worker.client();
    let a = client.arena() + 16 * MIB;
    client.load_kernels();
    client.allocate(a, 4096);
    for round in 0..5 {
        for _ in 0..200 {
            client.launch(1, 0, a, &[1]);
        }
        // Cut the connection without notice: frames in flight may be lost.
        client.link.shutdown();
        for _ in 0..100 {
            client.launch(1, 0, a, &[1]);
        }
        client.reattach(worker.connect()).unwrap();
        assert_eq!(client.word(a), (round + 1) * 300, "every launch ran exactly once");
    }
    worker.wait_for_log("continues");
}

#[test]
fn replies_that_were_lost_are_sent_again() {
    let worker = Worker::start(&[]);
    let mut client = worker.client();
    let a = client.arena() + 16 * MIB;
    client.load_kernels();
    client.allocate(a, 8 * MIB);
    client.post(&wire::Fill { stream: 0, destination: a, value: 7, width: 1, count: 8 * MIB }, &[]);
    let small = client.send(&wire::Read { stream: 0, source: a, bytes: 100 }, &[], Flags::NONE);
    let large = client.send(&wire::Read { stream: 0, source: a, bytes: 8 * MIB }, &[], Flags::NONE);
    let slow = {
        client.launch(2, 0, a, &[5, 20_000]);
        client.send(&wire::SynchronizeDevice { device: 0 }, &[], Flags::NONE)
    };
    std::thread::sleep(Duration::from_millis(100));
    client.link.shutdown();
    std::thread::sleep(Duration::from_millis(50));
    client.reattach(worker.connect()).unwrap();
    assert_eq!(client.reply::<wire::Read>(small).unwrap().1, [7; 100]);
    let bytes = client.reply::<wire::Read>(large).unwrap().1;
    assert!(bytes.len() as u64 == 8 * MIB && bytes[8..].iter().all(|byte| *byte == 7));
    client.reply::<wire::SynchronizeDevice>(slow).unwrap();
    assert_eq!(client.word(a), 5);
}

#[test]
fn a_bulk_write_cut_in_the_middle_is_written_whole_after_reattachment() {
    let worker = Worker::start(&[]);
    let mut client = worker.client();
    let a = client.arena() + 16 * MIB;
    client.allocate(a, 64 * MIB);
    client.synchronize().unwrap();
    let data: Vec<u8> = (0..32 * MIB).map(|at| (at % 253) as u8).collect();
    let cutter = client.link.clone();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(5));
        cutter.shutdown();
    });
    client.post(&wire::Write { stream: 0, destination: a }, &data);
    thread.join().unwrap();
    client.reattach(worker.connect()).unwrap();
    assert_eq!(client.read(a, 32 * MIB).unwrap(), data);
}

#[test]
fn a_client_that_vanishes_frees_its_memory_and_disturbs_nobody() {
    let worker = Worker::start(&["--grace-closed", "0.5"]);
    let mut other = worker.client();
    let b = other.arena() + 16 * MIB;
    other.load_kernels();
    other.allocate(b, MIB);
    other.synchronize().unwrap();
    let mut victim = worker.client();
    let a = victim.arena() + 16 * MIB;
    victim.load_kernels();
    victim.allocate(a, 256 * MIB);
    victim.launch(4, 0, a, &[]);
    victim.call(&wire::MemoryInfo { device: 0 }, &[]).unwrap();
    worker.wait_until("two sessions with memory", |status| {
        status.sessions.len() == 2 && status.devices[0].memory_used > 256 * MIB
    });
    drop(victim);
    let took = worker.wait_until("the victim is gone", |status| {
        status.sessions.len() == 1 && status.devices[0].memory_used < 16 * MIB
    });
    assert!(took < Duration::from_secs(5), "{took:?}");
    other.launch(1, 0, b, &[1]);
    assert_eq!(other.word(b), 1);
}

#[test]
fn two_sessions_do_not_see_each_other() {
    let worker = Worker::start(&[]);
    let mut clients: Vec<Client> = (0..2).map(|_| worker.client()).collect();
    let addresses: Vec<u64> = clients.iter().map(|client| client.arena() + 16 * MIB).collect();
    for (at, client) in clients.iter_mut().enumerate() {
        client.allocate(addresses[at], 4096);
        let value = at as u32 + 1;
        client.post(&wire::Fill { stream: 0, destination: addresses[at], value, width: 4, count: 4 }, &[]);
    }
    assert_eq!((clients[0].word(addresses[0]), clients[1].word(addresses[1])), (1, 2));
    assert_ne!(clients[0].welcome.session_secret, clients[1].welcome.session_secret);
    let mut thief = clients.remove(0);
    thief.welcome.session_id = clients[0].welcome.session_id;
    assert!(thief.reattach(worker.connect()).is_err(), "another session's id is not enough");
}

#[test]
fn kernels_compile_at_run_time_and_their_names_are_found() {
    let toolchain = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/toolchain");
    let headers = std::path::Path::new(toolchain).join("hip");
    assert!(headers.is_dir(), "{} is missing: run cargo xtask setup", headers.display());
    let cache = tempfile::tempdir().unwrap();
    let worker =
        Worker::start(&["--toolchain", toolchain, "--compile-cache", cache.path().to_str().unwrap()]);
    let mut client = worker.client();
    assert_ne!(client.welcome.capabilities & wire::capability::COMPILE, 0);
    let request = wire::Compile {
        isa: "gfx942:sramecc+:xnack-".to_owned(),
        name: "add.hip".to_owned(),
        source: "#include \"scale.h\"\n\
                 template <typename T> __global__ void add(T* p) { p[threadIdx.x] += T(SCALE * STEP); }\n\
                 namespace deep { __constant__ float table[4]; }\n"
            .to_owned(),
        headers: vec![("scale.h".to_owned(), "#define SCALE 3".to_owned())],
        options: vec!["-DSTEP=2".to_owned(), "-O2".to_owned()],
        expressions: vec!["add<int>".to_owned(), "&deep::table".to_owned(), "add<float>".to_owned()],
    };
    let reply = client.call(&request, &[]).unwrap().0;
    assert_eq!(reply.status, 0, "{}", reply.log);
    assert_eq!(reply.lowered, ["_Z3addIiEvPT_", "_ZN4deep5tableE", "_Z3addIfEvPT_"]);
    let a = client.arena() + 16 * MIB;
    client.allocate(a, 4096);
    let hash = *blake3::hash(&reply.code.0).as_bytes();
    client.post(&wire::LoadModule { module: 9, device: 0, base: client.arena() + MIB, hash }, &reply.code.0);
    client.post(&wire::DefineFunction { function: 90, module: 9, name: reply.lowered[0].clone() }, &[]);
    client.launch(90, 0, a, &[]);
    assert_eq!(client.word(a), 6);
    let kept = || -> Vec<_> {
        let entries = std::fs::read_dir(cache.path()).unwrap().map(|entry| entry.unwrap());
        entries.map(|entry| (entry.path(), entry.metadata().unwrap().modified().unwrap())).collect()
    };
    let before = kept();
    assert!(!before.is_empty(), "the result is cached on disk");
    assert_eq!(client.call(&request, &[]).unwrap().0.code, reply.code);
    assert_eq!(kept(), before, "a cached result is not compiled again");

    let broken =
        wire::Compile { source: "__global__ void f( {".to_owned(), expressions: vec![], ..request.clone() };
    let reply = client.call(&broken, &[]).unwrap().0;
    assert_eq!(reply.status, 6, "HIPRTC_ERROR_COMPILATION");
    assert!(reply.log.contains("add.hip:1"), "{}", reply.log);
    let evil = wire::Compile { options: vec!["-fplugin=/tmp/x.so".to_owned()], ..request };
    assert_eq!(client.call(&evil, &[]).unwrap().0.status, 5, "HIPRTC_ERROR_INVALID_OPTION");
}
