//! The service as its users and operators meet it. One program, because linking it takes longer than running it.

mod dstack;
mod events;
mod queue;
mod refusals;
mod rig;
mod site;
mod store;
