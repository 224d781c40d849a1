//! Tests of events: the order they give, and their times.

use std::time::Instant;

use backend::{Command, Scope};
use hip_api::types::{hipErrorInvalidHandle, hipErrorNotReady};

use crate::rig::{Rig, SLOW, arguments, launch};

/// A stream that waits for an event runs after the work before the event.
pub fn an_event_orders_two_streams(rig: Rig) {
    let (first, second) = (rig.stream(0x100, true), rig.stream(0x101, true));
    let a = rig.alloc(64);
    rig.device.create_event(0x200, 0, 0).unwrap();
    rig.hold(first);
    rig.slow_store(first, a, 5);
    rig.run(first, Command::RecordEvent(0x200));
    assert!(!rig.device.query(Scope::Event(0x200)).unwrap());
    rig.run(second, Command::WaitEvent(0x200));
    rig.kernel(second, 1, 1, arguments(a, &[1]));
    rig.release();
    assert_eq!(rig.word(second, a), 6);
    assert!(rig.device.query(Scope::Event(0x200)).unwrap());
    rig.wait(Scope::Event(0x200)).unwrap();
    rig.device.destroy_event(0x200).unwrap();
    assert_eq!(rig.device.destroy_event(0x200).unwrap_err().code, hipErrorInvalidHandle);
}

/// The time between two events is that of the work between them.
pub fn elapsed_time_covers_the_work_between_two_events(rig: Rig) {
    let a = rig.alloc(64);
    rig.device.create_event(0x200, 0, 0).unwrap();
    rig.device.create_event(0x201, 0, 0).unwrap();
    rig.run(0, Command::RecordEvent(0x200));
    let begin = Instant::now();
    rig.slow_store(0, a, 1);
    rig.run(0, Command::RecordEvent(0x201));
    rig.wait(Scope::Event(0x201)).unwrap();
    let wall = begin.elapsed().as_secs_f32() * 1000.0;
    let elapsed = rig.device.elapsed(0x200, 0x201).unwrap();
    assert!(elapsed > 0.0 && elapsed < wall * 1.5 + 5.0, "{elapsed} ms by events, {wall} ms by the clock");
    assert!(rig.device.elapsed(0x201, 0x200).unwrap() < 0.0, "the reverse order gives a negative time");
}

/// Events that are not recorded or not reached have no elapsed time.
pub fn elapsed_time_of_unfinished_or_unrecorded_events_is_refused(rig: Rig) {
    let a = rig.alloc(64);
    rig.device.create_event(0x200, 0, 0).unwrap();
    rig.device.create_event(0x201, 0, 0).unwrap();
    assert_eq!(rig.device.elapsed(0x200, 0x201).unwrap_err().code, hipErrorInvalidHandle);
    rig.run(0, Command::RecordEvent(0x200));
    rig.hold(0);
    rig.slow_store(0, a, 1);
    rig.run(0, Command::RecordEvent(0x201));
    assert_eq!(rig.device.elapsed(0x200, 0x201).unwrap_err().code, hipErrorNotReady);
    rig.release();
    rig.wait(Scope::Device(0)).unwrap();
    rig.device.elapsed(0x200, 0x201).unwrap();
}

/// The events of a launch are recorded at its start and its end.
pub fn launch_events_enclose_the_kernel(rig: Rig) {
    let a = rig.alloc(64);
    rig.device.create_event(0x200, 0, 0).unwrap();
    rig.device.create_event(0x201, 0, 0).unwrap();
    let Command::Launch(mut it) = launch(2, 1, arguments(a, &[1, SLOW])) else {
        unreachable!("a launch is a launch")
    };
    (it.start_event, it.stop_event) = (0x200, 0x201);
    rig.run(0, Command::Launch(it));
    rig.wait(Scope::Event(0x201)).unwrap();
    assert!(rig.device.elapsed(0x200, 0x201).unwrap() > 0.0);
}
