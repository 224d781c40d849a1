//! Kernels compiled from HIP by the real compiler produce the same results as the CPU.

#[path = "cases/kernels.rs"]
mod cases;
mod rig;
