//! The board's service: HTTP, live events, queue, accounts and money, and the places where kernels run.
//!
//! Judges nothing itself: each submission is judged by a process of its own.

pub mod accounts;
pub mod admin;
mod app;
pub mod client;
pub mod config;
mod error;
pub mod event;
mod http;
mod hub;
mod judge;
mod metrics;
pub mod places;
mod queue;
mod scheduler;
mod serve;
mod statement;
pub mod store;
mod stream;
mod submit;

pub use serve::{ServeError, Server, serve};
