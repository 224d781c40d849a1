//! Tests of the server as users and operators see it. They are one program, because linking takes longer than running.

mod community;
mod dstack;
mod events;
mod login;
mod observed;
mod queue;
mod refusals;
mod rig;
mod site;
mod store;
