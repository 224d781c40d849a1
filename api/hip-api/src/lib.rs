//! HIP as data: the table of every function, the C types in their signatures, status texts and device properties.
//!
//! Does no I/O, starts nothing and holds no state. Everything that must agree about HIP (exports, opcodes, version
//! scripts, the coverage page) derives from the rows in [`table`].

#![warn(missing_docs)]

mod coverage;
pub mod ctype;
pub mod dll;
pub mod error;
pub mod meta;
pub mod properties;
pub mod refusal;
pub mod signature;
pub mod table;
pub mod types;

pub use error::HipError;
pub use meta::{Class, HipFn, Soname, TABLE};
pub use types::{hipError_t, hiprtcResult};
