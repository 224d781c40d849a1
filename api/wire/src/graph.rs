//! The nodes of an executable graph, as DefineGraph's relatives carry them.
//!
//! A node is a few steps of device work and the nodes it comes after. A step that has to do with the program's own memory
//! names a slot: a launch gives every slot a token, and the bytes of its writes ride along with it.

use crate::WireError;
use crate::codec::{Bytes, Field, Reader, Sink, record};

/// The most nodes of one graph.
pub const MAX_GRAPH_NODES: usize = 1 << 18;
/// The most bytes of nodes or updates in one frame; a large graph comes in several.
pub const MAX_GRAPH_PIECE: u64 = 2 << 20;
/// The most slots of one graph: tokens that one launch uses.
pub const MAX_GRAPH_SLOTS: u32 = 1 << 20;

record! {
    /// A node of a graph. It comes after the nodes it names, all of which come before it in the list.
    pub struct GraphNode {
        device: u32,
        dependencies: Vec<u32>,
        /// In this order; none for a node that only joins others, or that is switched off.
        steps: Vec<GraphStep>,
    }
}

record! {
    /// New steps for a node; its dependencies stay.
    pub struct GraphUpdate {
        node: u32,
        steps: Vec<GraphStep>,
    }
}

/// Declares the kinds of step: each a variant with its fields, its tag for ever.
macro_rules! steps {
    ($($(#[$meta:meta])* $tag:literal $name:ident { $($(#[$fmeta:meta])* $field:ident: $type:ty),* $(,)? })*) => {
        /// One piece of device work.
        #[derive(Clone, PartialEq, Debug)]
        pub enum GraphStep {
            $($(#[$meta])* $name { $($(#[$fmeta])* $field: $type),* }),*
        }

        impl Field for GraphStep {
            /// A tag and what the smallest step has.
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
    /// As the operation Launch.
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
    /// Rows of the program's memory, packed in the body of the launch; or, if the launch says so, a turn of the program,
    /// which then writes them itself.
    5 Write { slot: u32, destination: u64, pitch: u64, width: u64, height: u64 }
    /// Rows that come back packed, as deliveries.
    6 Read { slot: u32, source: u64, pitch: u64, width: u64, height: u64 }
    /// A turn of the program.
    7 Host { slot: u32 }
    8 RecordEvent { event: u64 }
    9 WaitEvent { event: u64 }
}

impl GraphStep {
    /// The slot it names.
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
    /// Writes are turns of the program: it cannot know their bytes yet.
    pub const WRITES_LATER: u32 = 1;
}
