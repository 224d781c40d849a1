//! Handlers by encoding format. The files of the scalar formats share `scalar.rs`.

pub(crate) mod ds;
pub(crate) mod flat;
mod fork;
mod mfma;
pub(crate) mod mubuf;
pub(crate) mod scalar;
pub(crate) mod smem;
pub(crate) mod sop1;
pub(crate) mod sop2;
pub(crate) mod sopc;
pub(crate) mod sopk;
pub(crate) mod sopp;
pub(crate) mod typed_buffer;
pub(crate) mod vop1;
pub(crate) mod vop2;
pub(crate) mod vop3;
pub(crate) mod vop3p;
pub(crate) mod vopc;
