//! Tests of the timing of commands.

use std::time::Instant;

use crate::rig::{Note, Rig, arguments, copy, fill, launch};
use backend::{Command, Scope, Span, Task};

const STREAM: u64 = 0x300;

/// Spans are reported for commands that were queued while timing was on.
pub fn commands_are_timed_while_someone_wants_to_know(rig: Rig) {
    let (buffer, other) = (rig.alloc(1 << 20), rig.alloc(1 << 20));
    let stream = rig.stream(STREAM, true);
    let fill = || fill(buffer, 1, 4, 1 << 10);
    let run = |tag, command| rig.device.enqueue(stream, tag, command).expect("queued");
    run(1, fill());
    rig.wait(Scope::Stream(stream)).unwrap();
    let start = Instant::now();
    rig.device.record_spans(true);
    run(2, fill());
    run(3, launch(1, 64, arguments(buffer, &[64])));
    rig.device.create_event(0x900, 0, 0).unwrap();
    run(4, Command::RecordEvent(0x900));
    run(5, copy(other, buffer, 4096));
    run(6, Command::write_flat(other, vec![0; 100]));
    rig.wait(Scope::Stream(stream)).unwrap();
    rig.device.record_spans(false);
    let stop = Instant::now();
    run(7, fill());
    rig.wait(Scope::Stream(stream)).unwrap();
    let spans: Vec<Span> = rig
        .notes
        .try_iter()
        .map(|note| match note {
            Note::Spent(span) => span,
            other => panic!("{other:?}"),
        })
        .collect();
    let tags: Vec<u64> = spans.iter().map(|span| span.tag).collect();
    assert_eq!(tags, [2, 3, 5, 6], "only commands that were queued while timing was on and do work");
    assert_eq!(spans[0].task, Task::Fill { bytes: 4096 });
    assert!(matches!(spans[1].task, Task::Kernel { function: 1, work_items: 64 }));
    assert_eq!(spans[2].task, Task::Copy { bytes: 4096 });
    assert_eq!(spans[3].task, Task::Write { bytes: 100 });
    let mut before = start;
    for span in &spans {
        assert_eq!((span.stream, span.device), (stream, 0));
        assert!(before <= span.begin && span.begin <= span.end && span.end <= stop, "{spans:?}");
        before = span.end;
    }
}
