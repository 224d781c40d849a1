//! Profile by source line.

use std::collections::HashMap;

use serde::Serialize;

use super::count::Count;
use super::profile::{LocalTraffic, MemoryCount, Traffic};

/// Maximum number of lines of a report.
const MAX_LINES: usize = 1000;

/// What the instructions of one source line did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LineProfile {
    /// `FILE:LINE`; `None` for code without debug information.
    pub source: Option<String>,
    /// Executed instructions, counted once per wave.
    pub instructions: u64,
    /// Active lanes, summed over executions.
    pub lanes: u64,
    /// Accesses to global memory.
    pub global: Traffic,
    /// Accesses to LDS.
    pub local: LocalTraffic,
}

/// Lines of a kernel, by source.
#[derive(Debug, Default)]
pub(crate) struct Lines(HashMap<Option<String>, LineProfile>);

impl Lines {
    /// Adds an instruction.
    pub fn add(&mut self, source: Option<String>, count: &Count, memory: Option<&MemoryCount>) {
        let line = self.0.entry(source).or_default();
        line.instructions += count.executions;
        line.lanes += count.lanes;
        if let Some(memory) = memory {
            line.global.add(&memory.global);
            line.local.add(&memory.local);
        }
    }

    /// Returns the lines with the most executed instructions first.
    pub fn report(self) -> Vec<LineProfile> {
        let named = |(source, line)| LineProfile { source, ..line };
        let mut lines: Vec<LineProfile> = self.0.into_iter().map(named).collect();
        lines.sort_by(|a, b| b.instructions.cmp(&a.instructions).then_with(|| a.source.cmp(&b.source)));
        lines.truncate(MAX_LINES);
        lines
    }
}
