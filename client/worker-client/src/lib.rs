//! A client of a worker that runs no program: requests its status, and moves sessions between workers.

#![warn(missing_docs)]

mod address;
mod administration;
mod chunks;
mod observer;

pub use address::{InspectError, WorkerAddress};
pub use administration::{
    Departing, MoveError, StoppedSession, discard_checkpoint, give, give_written, in_new_processes, migrate,
    open_elsewhere, redirect, renew_checkpoints, resume, resume_for, snapshot, store_checkpoint,
};
pub use chunks::{ChunkReader, ChunkWriter};
pub use observer::Observer;
