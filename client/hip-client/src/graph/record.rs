//! Captures as calls use them: work of a capturing stream becomes a node.

use std::sync::Arc;

use hip_api::types::*;

use super::Graph;
use super::node::Work;
use crate::state::Status;
use crate::state::runtime::Runtime;
use crate::state::stream::StreamRef;

impl Runtime {
    /// Adds work of a capturing stream as a node; `None` if the stream is not capturing and the work must be executed.
    #[inline]
    pub fn record(&self, at: StreamRef, work: impl FnOnce() -> Result<Work, hipError_t>) -> Option<Status> {
        if self.captures.is_idle() {
            return None;
        }
        self.captures.add(&self.graphs, &self.tables.streams, at, work)
    }

    /// Ends the capture that began on a stream.
    pub fn end_capture(&self, at: StreamRef) -> Result<Arc<Graph>, hipError_t> {
        self.captures.end(&self.graphs, at).inspect_err(|_| self.sweep_graph_memory())
    }

    /// Ends the capture of a stream that is destroyed.
    pub fn abandon_capture(&self, stream: u64) {
        if !self.captures.is_idle() {
            self.captures.abandon(&self.graphs, stream);
            self.sweep_graph_memory();
        }
    }

    /// Destroys a graph, its nodes, its child graphs, and memory that only they used.
    pub fn destroy_graph(&self, graph: u64) -> Status {
        self.graphs.destroy(graph)?;
        self.sweep_graph_memory();
        Ok(())
    }
}
