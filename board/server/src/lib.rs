//! The board's server: HTTP interface, event streams, queue, accounts and billing, and the devices where kernels run.
//!
//! Each submission is judged by a separate process.

#![warn(missing_docs)]

pub mod accounts;
pub mod admin;
mod app;
pub mod config;
mod devices;
mod error;
mod example;
mod histogram;
mod http;
mod hub;
mod judge;
mod login;
mod markdown;
mod metrics;
mod queue;
mod ranking;
mod scheduler;
mod serve;
mod statement;
pub mod store;
mod stream;
mod submit;

pub use login::LoginConfigError;
pub use serve::{ServeError, Server, serve};
