//! What requests do to memory: known in one place, since both sides decide by it what has to be brought up to date, or kept.
//!
//! No request is left to a default here: one that is added has to say what it does.

use crate::Opcode;

/// What a request does to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Leaves it alone.
    None,
    /// Looks at it.
    Looks,
    /// Puts it in place, takes it away, or brings mirrors up to date; asks for no work.
    Manages,
    /// Changes it, and looks at none but what it brings along.
    Fills,
    /// Work that may look at it and change it.
    Works,
}

impl Effect {
    /// Whether work is asked for, in the order of a stream.
    pub const fn is_work(self) -> bool {
        matches!(self, Effect::Fills | Effect::Works)
    }

    /// Whether memory may be other than before once the request was handled.
    pub const fn may_change(self) -> bool {
        !matches!(self, Effect::None | Effect::Looks)
    }
}

impl Opcode {
    /// What a request does to memory.
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
            | Opcode::Snapshot
            | Opcode::Resume
            | Opcode::Piece
            | Opcode::Whole
            | Opcode::Decide
            | Opcode::Redirect
            | Opcode::Done
            | Opcode::ResumeFor
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
            | Opcode::MirrorChanged
            | Opcode::EventReached
            | Opcode::StreamReached => Effect::None,

            Opcode::Read | Opcode::ReadLater | Opcode::ReadRect | Opcode::ReadBox => Effect::Looks,

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
            | Opcode::OpenMemory => Effect::Manages,

            Opcode::Write
            | Opcode::WriteKept
            | Opcode::WriteKnown
            | Opcode::Packed
            | Opcode::WriteRect
            | Opcode::WriteBox
            | Opcode::Fill
            | Opcode::FillRect
            | Opcode::FillBox => Effect::Fills,

            Opcode::Copy
            | Opcode::CopyRect
            | Opcode::CopyBox
            | Opcode::WaitValue
            | Opcode::HostFunction
            | Opcode::Launch
            | Opcode::LaunchGraph => Effect::Works,
        }
    }
}
