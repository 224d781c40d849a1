//! The drop-in HIP runtime: every HIP function, served by a worker in another process.

pub mod connection;
pub mod env;
pub mod trace;

mod barrier;
mod callback;
mod exit;
mod incoming;
mod mirrors;
mod neighbour;
mod outgoing;
mod output;
mod progress;
mod reattach;
mod reserve;
mod ring;
mod strands;
pub mod upload;

mod advice;
mod arena;
mod calls;
mod capture;
mod credit;
mod descriptor;
pub mod exports;
mod fence;
mod graph;
mod handles;
mod include;
mod kernarg;
mod linker;
mod memory;
mod module;
mod occupancy;
mod registry;
mod report;
mod runtime;
mod soname;
mod texture;
mod thread;
mod unseen;
mod variables;
mod virtual_memory;
