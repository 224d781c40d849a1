//! Effects of operations on memory, in one place. Both sides use them to decide which memory has to be synchronised or kept.
//!
//! The match has no default arm: a new operation must state its effect.

use crate::Opcode;

/// Effect of a request on memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Does not access memory.
    None,
    /// Reads memory.
    Reads,
    /// Allocates, frees, maps or synchronises memory; submits no work.
    ManagesMemory,
    /// Writes memory, and reads nothing but the data in the request.
    Writes,
    /// Submits work that may read and write memory.
    SubmitsWork,
}

impl Effect {
    /// Whether the request submits work in stream order.
    pub const fn is_work(self) -> bool {
        matches!(self, Effect::Writes | Effect::SubmitsWork)
    }

    /// Whether memory may have changed after the request was processed.
    pub const fn may_change(self) -> bool {
        !matches!(self, Effect::None | Effect::Reads)
    }
}

impl Opcode {
    /// Whether the content of a reply follows from the requests before it. Times, free memory and the progress of work do not.
    pub const fn reply_is_reproducible(self) -> bool {
        !matches!(
            self,
            Opcode::MemoryInfo
                | Opcode::QueryStream
                | Opcode::QueryEvent
                | Opcode::QueryWatched
                | Opcode::QueryEventWatched
                | Opcode::ElapsedTime
                | Opcode::ReadClock
                | Opcode::EndCounting
                | Opcode::WriteKnown
        )
    }

    /// Effect of the request on memory.
    pub const fn effect(self) -> Effect {
        match self {
            Opcode::Hello
            | Opcode::Challenge
            | Opcode::Proof
            | Opcode::Welcome
            | Opcode::Reject
            | Opcode::Ack
            | Opcode::Ping
            | Opcode::Pong
            | Opcode::Status
            | Opcode::Joined
            | Opcode::Spread
            | Opcode::ReportMirrors
            | Opcode::Checkpointed
            | Opcode::Snapshot
            | Opcode::Resume
            | Opcode::SnapshotChunk
            | Opcode::SnapshotEnd
            | Opcode::FinishMove
            | Opcode::Redirect
            | Opcode::Done
            | Opcode::ResumeFor
            | Opcode::StoreCheckpoint
            | Opcode::DiscardCheckpoint
            | Opcode::RenewCheckpoints
            | Opcode::OpenElsewhere
            | Opcode::Observe
            | Opcode::Measure
            | Opcode::Measured
            | Opcode::ReadClock
            | Opcode::RecordSpans
            | Opcode::Spans
            | Opcode::BeginCounting
            | Opcode::EndCounting
            | Opcode::MemoryInfo
            | Opcode::QueryLink
            | Opcode::Link
            | Opcode::CreateStream
            | Opcode::DestroyStream
            | Opcode::SynchronizeStream
            | Opcode::QueryStream
            | Opcode::SynchronizeDevice
            | Opcode::HostFunctionDone
            | Opcode::CreateEvent
            | Opcode::DestroyEvent
            | Opcode::RecordEvent
            | Opcode::WaitEvent
            | Opcode::SynchronizeEvent
            | Opcode::QueryEvent
            | Opcode::ElapsedTime
            | Opcode::ModuleGlobal
            | Opcode::DefineFunction
            | Opcode::Compile
            | Opcode::DefineGraph
            | Opcode::AddGraphNodes
            | Opcode::UpdateGraphNodes
            | Opcode::DestroyGraph
            | Opcode::RecordWatched
            | Opcode::QueryWatched
            | Opcode::QueryEventWatched
            | Opcode::Reach
            | Opcode::Deliver
            | Opcode::Output
            | Opcode::Callback
            | Opcode::LateError
            | Opcode::Translating
            | Opcode::MirrorChanged
            | Opcode::MirrorState
            | Opcode::EventReached
            | Opcode::StreamReached => Effect::None,

            Opcode::Read | Opcode::ReadLater | Opcode::ReadRect | Opcode::ReadBox => Effect::Reads,

            Opcode::Goodbye
            | Opcode::Allocate
            | Opcode::Release
            | Opcode::Adopt
            | Opcode::MirrorWrite
            | Opcode::LoadModule
            | Opcode::UnloadModule
            | Opcode::ResetDevice
            | Opcode::SetLimit
            | Opcode::CreateMemory
            | Opcode::ReleaseMemory
            | Opcode::MapMemory
            | Opcode::UnmapMemory
            | Opcode::SetAccess
            | Opcode::ShareMemory
            | Opcode::ShareAllocation
            | Opcode::OpenMemory => Effect::ManagesMemory,

            Opcode::Write
            | Opcode::WriteKept
            | Opcode::WriteKnown
            | Opcode::Packed
            | Opcode::WriteRect
            | Opcode::WriteBox
            | Opcode::Fill
            | Opcode::FillRect
            | Opcode::FillBox => Effect::Writes,

            Opcode::Copy
            | Opcode::CopyRect
            | Opcode::CopyBox
            | Opcode::WaitValue
            | Opcode::HostFunction
            | Opcode::Launch
            | Opcode::LaunchGraph => Effect::SubmitsWork,
        }
    }
}
