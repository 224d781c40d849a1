//! The kernels of the software GPU's own tests, lifted, optimised and evaluated, produce the same results as the CPU.

#[path = "../../emulator/tests/cases/kernels.rs"]
mod cases;
mod rig;
