//! Basic blocks of a program, and the selection of the hottest ones.

use serde::Serialize;

use super::count::Count;
use super::listing::Listing;
use crate::exec::format::sopp;
use crate::program::Program;
use isa::{Format, Op};

/// Maximum lines of a block's code in a report.
const MAX_LINES: usize = 32;
/// Maximum number of blocks reported per program.
const MAX_BLOCKS: usize = 5;

/// A basic block: entered at its first instruction and left after its last.
#[derive(Clone, Debug, Serialize)]
pub struct Block {
    /// Name of the function.
    pub function: String,
    /// Offset of the first instruction.
    pub offset: u64,
    /// Number of times the block was executed, by all waves.
    pub executions: u64,
    /// Number of instructions executed in it.
    pub instructions: u64,
    /// Instructions of the block.
    pub code: Vec<BlockLine>,
    /// Number of instructions missing at the end of `code`.
    pub omitted: usize,
}

/// One instruction of a block.
#[derive(Clone, Debug, Serialize)]
pub struct BlockLine {
    /// Offset from the start of the function in bytes.
    pub offset: u64,
    /// Disassembly.
    pub text: String,
    /// `FILE:LINE`, if the kernel was built with debug information.
    pub source: Option<String>,
}

/// Returns the hottest blocks of a program, among those that were entered.
pub(crate) fn hot(listing: &Listing, program: &Program, counts: &[Count]) -> Vec<Block> {
    let mut ranges = ranges(program);
    let executed =
        |range: &(usize, usize)| counts[range.0..range.1].iter().map(|count| count.executions).sum::<u64>();
    ranges.retain(|range| executed(range) > 0);
    ranges.sort_by_key(|range| (std::cmp::Reverse(executed(range)), range.0));
    ranges.truncate(MAX_BLOCKS);
    let block = |range: &(usize, usize)| {
        let whole: Vec<usize> = (range.0..range.1).filter(|at| program.is_whole(*at)).collect();
        let line = |at: &usize| {
            let address = program.address_of(*at);
            BlockLine {
                offset: address.wrapping_sub(program.base()),
                text: listing.text(program, *at),
                source: listing.source(address),
            }
        };
        Block {
            function: listing.function(program),
            offset: program.address_of(range.0).wrapping_sub(program.base()),
            executions: counts[range.0].executions,
            instructions: executed(range),
            code: whole.iter().take(MAX_LINES).map(line).collect(),
            omitted: whole.len().saturating_sub(MAX_LINES),
        }
    };
    ranges.iter().map(block).collect()
}

/// Returns all blocks, as ranges of micro-ops.
fn ranges(program: &Program) -> Vec<(usize, usize)> {
    let count = program.uops.len();
    let mut starts = vec![0];
    for at in (0..count).filter(|at| program.is_whole(*at)) {
        let Some(inst) = program.inst_of(at) else { continue };
        if sopp::is_branch(inst.op) {
            starts.extend(usize::try_from(program.uops[at].imm).ok().filter(|target| *target < count));
            starts.push(at + 1);
        } else if leaves(inst.op, inst.format) {
            starts.push(at + 1);
        }
    }
    starts.sort_unstable();
    starts.dedup();
    let ends = starts.iter().skip(1).copied().chain([count]);
    starts.iter().copied().zip(ends).filter(|(start, end)| start < end).collect()
}

/// Whether the instruction, other than a branch, transfers control elsewhere.
fn leaves(op: Op, format: Format) -> bool {
    let name = op.name();
    name.starts_with("s_endpgm")
        || format == Format::Sop1 && (name.starts_with("s_setpc") || name.starts_with("s_swappc"))
        || format == Format::Sopk && name.starts_with("s_call")
}
