//! Streams, and how calls refer to them.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::credit::Credit;

/// A stream of the program.
#[derive(Debug)]
pub struct Stream {
    pub id: u64,
    pub device: usize,
    pub flags: u32,
    pub priority: i32,
    pub cu_mask: Vec<u32>,
    /// Values set by hipStreamSetAttribute, by attribute.
    pub attributes: Mutex<HashMap<u32, [std::ffi::c_char; 64]>>,
    pub credit: Credit,
}

/// A resolved stream argument.
#[derive(Clone, Copy, Debug)]
pub struct StreamRef {
    /// Its number on the wire.
    pub id: u64,
    /// Index of the visible device it belongs to.
    pub device: usize,
}
