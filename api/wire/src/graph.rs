//! Nodes of an executable graph, as sent by AddGraphNodes and UpdateGraphNodes.
//!
//! A node consists of steps of device work and the nodes that it depends on. A step that accesses the program's own memory has a
//! slot: a launch assigns a token to every slot, and its body contains the bytes of the graph's writes.

#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use crate::WireError;
use crate::codec::{Bytes, Field, Reader, Sink, record};

/// Maximum number of nodes in a graph.
pub const MAX_GRAPH_NODES: usize = 1 << 18;
/// Maximum size of the nodes or updates in one frame; a large graph is sent in several frames.
pub const MAX_GRAPH_PIECE: u64 = 2 << 20;
/// Maximum number of slots in a graph, which is the number of tokens that one launch uses.
pub const MAX_GRAPH_SLOTS: u32 = 1 << 20;

record! {
    /// A node of a graph. It runs after its dependencies, all of which precede it in the list.
    pub struct GraphNode {
        device: u32,
        dependencies: Vec<u32>,
        /// Run in this order; empty for a node that only joins others, or that is disabled.
        steps: Vec<GraphStep>,
    }
}

record! {
    /// Replaces the steps of a node; its dependencies stay.
    pub struct GraphUpdate {
        node: u32,
        steps: Vec<GraphStep>,
    }
}

/// Declares the kinds of steps: variants with their fields and permanent tags.
macro_rules! steps {
    ($($(#[$meta:meta])* $tag:literal $name:ident { $($(#[$fmeta:meta])* $field:ident: $type:ty),* $(,)? })*) => {
        /// One step of device work.
        #[derive(Clone, PartialEq, Debug)]
        #[allow(missing_docs, reason = "steps and fields have the names of the operations that do the same")]
        pub enum GraphStep {
            $($(#[$meta])* $name { $($(#[$fmeta])* $field: $type),* }),*
        }

        impl Field for GraphStep {
            /// A tag and the fields of the smallest step.
            const MIN_BYTES: usize = 5;
            const FIXED_BYTES: Option<usize> = None;

            fn size(&self) -> usize {
                1 + match self {
                    $(GraphStep::$name { $($field),* } => 0 $(+ $field.size())*),*
                }
            }

            fn put(&self, sink: &mut impl Sink) {
                match self {
                    $(GraphStep::$name { $($field),* } => {
                        sink.put(&[$tag]);
                        $($field.put(sink);)*
                    })*
                }
            }

            fn take(reader: &mut Reader<'_>) -> Result<Self, WireError> {
                match u8::take(reader)? {
                    $($tag => Ok(GraphStep::$name { $($field: Field::take(reader)?),* }),)*
                    value => Err(WireError::Value { what: "kind of graph step", value: value.into() }),
                }
            }
        }

        #[doc(hidden)]
        #[macro_export]
        macro_rules! for_each_graph_step {
            ($callback:ident) => {
                $callback! { $($name { $($field: $type),* })* }
            };
        }
    };
}

steps! {
    /// Like the operation Launch.
    0 Launch {
        function: u64,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: u32,
        flags: u32,
        start_event: u64,
        stop_event: u64,
        arguments: Bytes,
    }
    1 Copy { destination: u64, source: u64, bytes: u64 }
    2 Fill { destination: u64, value: u32, width: u32, count: u64 }
    3 CopyRect {
        destination: u64,
        destination_pitch: u64,
        source: u64,
        source_pitch: u64,
        width: u64,
        height: u64,
    }
    4 FillRect { destination: u64, pitch: u64, value: u32, width: u64, height: u64 }
    /// Writes rows from the program's memory, packed in the body of the launch. If the launch has `WRITES_LATER` set, calls the
    /// program back instead, which then writes them itself.
    5 Write { slot: u32, destination: u64, pitch: u64, width: u64, height: u64 }
    /// Reads rows, which are returned packed in Deliver pushes.
    6 Read { slot: u32, source: u64, pitch: u64, width: u64, height: u64 }
    /// Calls a host function of the program.
    7 Host { slot: u32 }
    8 RecordEvent { event: u64 }
    9 WaitEvent { event: u64 }
}

impl GraphStep {
    /// Slot of the step, if it has one.
    pub fn slot(&self) -> Option<u32> {
        match self {
            GraphStep::Write { slot, .. } | GraphStep::Read { slot, .. } | GraphStep::Host { slot } => {
                Some(*slot)
            }
            _ => None,
        }
    }
}

/// Bits of `LaunchGraph::flags`.
pub mod graph_launch {
    /// Writes call the program back: their bytes are not known at launch time.
    pub const WRITES_LATER: u32 = 1;
}
