//! The back-end interface: the [`Device`] trait through which a worker uses GPUs, and the types in its signatures.
//!
//! Defines the contract: order of work, null-stream rules, sticky faults. The tests that every back end must pass are in
//! `backend-suite`. Does not depend on frames, sockets or HIP handles: the caller assigns the IDs of all objects.

#![warn(missing_docs)]

mod command;
mod counters;
mod device;
mod error;
mod info;
mod region;
mod snapshot;
mod span;
mod virtual_memory;

pub use command::{
    Command, Comparison, EventId, FunctionId, Launch, ModuleId, ReadSink, StreamId, Tag, ValueWait,
};
pub use counters::Counters;
pub use device::{Arena, Capabilities, Completion, Device, MemoryKind, MemoryUse, Notifier, Scope};
pub use error::DeviceError;
pub use info::DeviceInfo;
pub use region::{Extent, Region};
pub use snapshot::{
    AccessRecord, AllocationRecord, EventRecord, FunctionRecord, HeapRecord, Holding, Inventory,
    MappingRecord, MemoryRecord, ModuleRecord, PieceRecord, Snapshot, StreamRecord,
};
pub use span::{Span, Task};
pub use virtual_memory::{
    MemoryAccess, MemoryId, PHYSICAL_GRANULARITY, Shareable, SharedMemory, Sharing, VirtualMemory,
};
