//! Measurements on a device that the tests play: it computes with the reference, and notes what the judge asks for.

use std::collections::HashMap;
use std::os::unix::net::UnixStream;

use board_problems::{Dtype, Generator, Place, Problem, Set, find};

use super::*;
use crate::channel::Channel;
use crate::message::{self, Call, CallReport, DONE, Preparation, Request, Slot};
use crate::session::Late;
use crate::times::Times;

/// A device. Its buffers have the numbers that the judge gives them: that of the argument, and 256 for each set.
struct Device<'a> {
    problem: &'static Problem,
    case: &'static Case,
    generators: Vec<Option<Generator>>,
    times: Arc<Times>,
    memory: HashMap<u32, Vec<u8>>,
    calls: usize,
    /// Milliseconds of a call, and whether its outputs are wrong.
    behaviour: &'a (dyn Fn(usize) -> (f64, bool) + Sync),
}

impl Device<'_> {
    fn serve(mut self, mut stream: UnixStream) {
        let mut frame = Vec::new();
        while message::receive_into(&mut stream, &mut frame).is_ok() {
            let mut reply = vec![DONE];
            self.answer(Request::decode(&frame).expect("a request"), &mut reply);
            if message::send(&mut stream, &reply).is_err() {
                return;
            }
        }
    }

    fn answer(&mut self, request: Request, reply: &mut Vec<u8>) {
        match request {
            Request::Allocate { buffer, bytes, .. } => {
                self.memory.insert(buffer, vec![0; bytes as usize]);
            }
            Request::Free { buffer } => drop(self.memory.remove(&buffer)),
            Request::Write { buffer, offset, bytes } => {
                self.part(buffer, offset, bytes.len()).copy_from_slice(&bytes)
            }
            Request::Read { buffer, offset, bytes } => {
                reply.extend_from_slice(self.part(buffer, offset, bytes as usize));
            }
            Request::Fill(fills) | Request::Prepare(Preparation { fills, .. }) => {
                for fill in fills {
                    let words = self.part(fill.buffer, fill.offset, 4 * fill.words as usize);
                    words
                        .chunks_exact_mut(4)
                        .for_each(|word| word.copy_from_slice(&fill.pattern.to_le_bytes()));
                }
            }
            Request::Generate(it) => {
                self.times.note("generate");
                let generator = self.generators[it.buffer as usize % 256].expect("an input");
                let elements = generator.elements(it.seed);
                self.part(it.buffer, it.offset, elements.len()).copy_from_slice(&elements);
            }
            Request::Call(call) => {
                self.times.note("call");
                self.call(&call, reply);
            }
            Request::Reload => {}
            other => panic!("{other:?} is not expected in a measurement"),
        }
    }

    fn part(&mut self, buffer: u32, offset: u64, bytes: usize) -> &mut [u8] {
        let all = self.memory.get_mut(&buffer).expect("a buffer");
        &mut all[offset as usize..][..bytes]
    }

    fn call(&mut self, call: &Call, reply: &mut Vec<u8>) {
        let (device_ms, is_wrong) = (self.behaviour)(self.calls);
        self.calls += 1;
        let mut arguments = self.problem.outline(self.case, Dtype::Float32);
        let place = |slot: &Slot| match slot {
            Slot::Buffer { buffer, offset } => Some((*buffer, *offset)),
            Slot::Scalar { .. } => None,
        };
        for (argument, slot) in arguments.arguments.iter_mut().zip(&call.slots) {
            let size = argument.value.size();
            if let Some((buffer, offset)) = place(slot) {
                argument.value.set_bytes(self.part(buffer, offset, size).to_vec());
            }
        }
        let expected = self.problem.expected(self.case, Dtype::Float32, &arguments);
        let outputs = arguments.arguments.iter().zip(&call.slots);
        let outputs =
            outputs.filter(|(argument, _)| matches!(argument.value, board_problems::Value::Output { .. }));
        for ((_, slot), expected) in outputs.zip(expected) {
            let mut bytes = expected.values.encode(expected.element);
            if is_wrong {
                // Only the first element, which rows seldom include.
                bytes[..4].copy_from_slice(&f32::NAN.to_le_bytes());
            }
            let (buffer, offset) = place(slot).expect("a buffer");
            self.part(buffer, offset, bytes.len()).copy_from_slice(&bytes);
        }
        CallReport { device_ms, host_ms: device_ms, counts: None }.encode(reply);
    }
}

/// Calls before the first sample.
const BEFORE: usize = 1 + WARM_UPS as usize;

/// Measures the first small case of a problem on a device that behaves so in each call. Returns what happened, in order.
fn measure(
    slug: &str,
    seed: u64,
    most_flops: f64,
    behaviour: &(dyn Fn(usize) -> (f64, bool) + Sync),
) -> (Result<Measured, MeasureError>, Vec<&'static str>) {
    let problem = find(slug).unwrap();
    let case = problem.cases(Set::Bench, Place::Emulated).next().unwrap();
    let spec = CheckSpec { problem, dtype: Dtype::Float32, seed };
    let gpu = Gpu::find("MI300X").unwrap();
    let launch = problem.launch_of(case, "").unwrap();
    let (time, test_id) = (Duration::from_secs(600), 1);
    let measurement = Measurement { spec, gpu, emulated: false, case, launch, test_id, time, most_flops };
    let (channel, theirs) = Channel::new(time).unwrap();
    let mut session = Session::of(channel);
    let times = Arc::clone(session.times());
    let generators = problem.generators(case, Dtype::Float32).unwrap_or_default();
    let device = Device {
        problem,
        case,
        generators,
        times: Arc::clone(&times),
        memory: HashMap::new(),
        calls: 0,
        behaviour,
    };
    std::thread::scope(|scope| {
        scope.spawn(|| device.serve(theirs.into()));
        let measured = measurement.run(&mut session);
        // The device ends with the connection.
        drop(session);
        let mut events = times.noted();
        // Rows of some samples are in fewer parts than those of others.
        events.dedup();
        (measured, events)
    })
}

/// Splits events at the calls. Returns what follows each sample's call: the end of that sample and the begin of the next one. After the
/// last one it is the begin of the two calls that must agree.
fn after_calls<'e>(events: &'e [&'static str]) -> Vec<&'e [&'static str]> {
    let parts: Vec<_> = events.split(|event| *event == "call").collect();
    parts[BEFORE + 1..parts.len() - 2].to_vec()
}

/// Whether the outputs of a sample were read whole after its call.
fn is_whole(events: &[&str]) -> bool {
    events.contains(&"Guards")
}

/// A device on which 200 samples are needed.
fn unsteady(call: usize) -> (f64, bool) {
    (0.5 + (call % 2) as f64 * 0.1, false)
}

/// A device on which ten samples suffice.
fn steady(_: usize) -> (f64, bool) {
    (25.0, false)
}

#[test]
fn what_happens_before_a_call_does_not_depend_on_whether_it_is_verified() {
    // The device generates the inputs of the first two; the host makes those of the third. Only the first has rows.
    for slug in ["softmax", "running-sum-1d", "cholesky"] {
        let (measured, events) = measure(slug, 7, 2e10, &unsteady);
        assert!(measured.is_ok(), "{slug}");
        let mut between = after_calls(&events);
        between.pop();
        let (whole, plain): (Vec<_>, Vec<_>) = between.into_iter().partition(|events| is_whole(events));
        assert!(plain.len() > 20 && whole.len() > 5, "{slug}: {} {}", plain.len(), whole.len());
        // After a call that is not verified whole, the same precedes the next one, which is verified or not.
        let usual = plain[0];
        assert!(plain.iter().all(|events| *events == usual), "{slug}: {plain:?}");
        // A verification comes right after its call. The same follows it as else.
        for events in whole {
            let more = events.len() - usual.len();
            let is_inserted = |at: usize| events[..at] == usual[..at] && events[at + more..] == usual[at..];
            assert!((0..=usual.len()).any(is_inserted), "{slug}: {events:?} {usual:?}");
            // The host computes inputs that the device generates after the call, and never before one.
            let next = events.iter().rposition(|event| *event == "generate").unwrap_or(events.len());
            assert!(!events[next..].contains(&"Inputs"), "{slug}: {events:?}");
        }
    }
}

#[test]
fn at_least_one_sample_of_every_case_is_verified_whole() {
    for seed in 0..25 {
        let (measured, events) = measure("softmax", seed, 2e10, &steady);
        assert!(measured.is_ok_and(|it| it.result.samples_ms.len() == LEAST_SAMPLES));
        let after = after_calls(&events);
        assert_eq!(after.len(), LEAST_SAMPLES);
        assert!(after.iter().any(|events| is_whole(events)), "seed {seed}");
    }
}

#[test]
fn without_rows_a_solution_that_is_wrong_in_most_samples_is_rejected() {
    // Correct as long as every sample is verified for sure, and then wrong.
    let cheat = |call: usize| (25.0, (BEFORE + SURELY_VERIFIED..BEFORE + LEAST_SAMPLES).contains(&call));
    let is_rejected = |seed: &u64| {
        matches!(measure("running-sum-1d", *seed, 2e10, &cheat).0, Err(MeasureError::Inconsistent(_)))
    };
    let rejected = (0..20).filter(is_rejected).count();
    assert!(rejected >= 18, "{rejected} of 20");
    // One that is wrong in a sample that is verified for sure.
    for wrong in [BEFORE, BEFORE + SURELY_VERIFIED - 1] {
        let measured = measure("running-sum-1d", 1, 2e10, &|call| (25.0, call == wrong)).0;
        assert!(matches!(measured, Err(MeasureError::Inconsistent(_))), "{wrong}");
    }
}

#[test]
fn what_cannot_be_verified_is_not_measured() {
    // The reference is too slow, and there are no rows.
    let (measured, events) = measure("running-sum-1d", 1, 0.0, &steady);
    assert!(matches!(measured, Err(MeasureError::Unverifiable(text)) if text.contains("rows")));
    assert!(events.is_empty(), "{events:?}");
    assert!(measure("softmax", 1, 0.0, &steady).0.is_ok());
}

#[test]
fn requests_of_the_judge_take_the_solution_no_time() {
    let problem = find("softmax").unwrap();
    let case = problem.cases(Set::Sample, Place::Emulated).next().unwrap();
    let spec = CheckSpec { problem, dtype: Dtype::Float32, seed: 1 };
    let launch = problem.launch_of(case, "").unwrap();
    let (channel, theirs) = Channel::new(Duration::from_secs(600)).unwrap();
    let mut session = Session::of(channel);
    let times = Arc::clone(session.times());
    let generators = problem.generators(case, Dtype::Float32).unwrap();
    let device =
        Device { problem, case, generators, times, memory: HashMap::new(), calls: 0, behaviour: &steady };
    std::thread::scope(|scope| {
        scope.spawn(|| device.serve(theirs.into()));
        // No time is left, but the judge can place its buffers and read them.
        session.allow(Duration::ZERO);
        let mut placed = PlacedCase::new(&mut session, spec, case, launch, 0, 0).unwrap();
        placed.buffers.outputs(&mut session, &placed.prepared).unwrap();
        assert_eq!(session.used(), Duration::ZERO);
        // A call needs some.
        let late = placed.call(&mut session, 0, 0, false).unwrap_err();
        assert_eq!(late, Fault::Time(Late::Solution));
        session.allow(Duration::from_secs(60));
        placed.call(&mut session, 0, 0, false).unwrap();
        assert!(session.used() > Duration::ZERO);
        drop(session);
    });
}
