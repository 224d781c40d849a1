//! Counts the instructions of a kernel's loop body, from the disassembly of its code object.

use crate::step;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

const DISASSEMBLER: &str = "/usr/lib/llvm-19/bin/llvm-objdump";

/// Instructions that only stall a pipeline and need no emulation.
const WAITING: &[&str] = &["s_nop", "s_waitcnt"];

/// Returns the number of instructions in one iteration of a kernel's only loop.
pub fn instructions(code_object: &Path, kernel: &str) -> Result<u64> {
    let mut command = Command::new(DISASSEMBLER);
    command.arg("-d").arg(format!("--disassemble-symbols={kernel}")).arg(code_object);
    count(&step::output(&mut command)?, kernel)
        .with_context(|| format!("{kernel} in {}", code_object.display()))
}

/// Parses lines such as `s_cbranch_scc1 65469 // 00000000345C: BF85FFBD <fma_loop+0x54>`.
fn count(disassembly: &str, kernel: &str) -> Result<u64> {
    let lines: Vec<(u64, &str, Option<u64>)> =
        disassembly.lines().filter_map(|line| instruction(line, kernel)).collect();
    let first = lines.first().context("the disassembly contains no instruction")?.0;
    let backward: Vec<(u64, u64)> = lines
        .iter()
        .filter_map(|&(address, _, target)| Some((first + target?, address)))
        .filter(|(target, address)| target <= address)
        .collect();
    let [(from, to)] = backward[..] else { bail!("the kernel has {} loops, not one", backward.len()) };
    let turn =
        lines.iter().filter(|(address, name, _)| (from..=to).contains(address) && !WAITING.contains(name));
    Ok(turn.count() as u64)
}

/// Returns the address, the mnemonic and, for a branch, the offset of its target in the kernel.
fn instruction<'a>(line: &'a str, kernel: &str) -> Option<(u64, &'a str, Option<u64>)> {
    let (text, comment) = line.split_once("//")?;
    let name = text.split_whitespace().next()?;
    let (address, rest) = comment.trim().split_once(':')?;
    let target = rest
        .split_once('<')
        .and_then(|(_, target)| target.trim().strip_suffix('>'))
        .and_then(|target| target.strip_prefix(kernel))
        .map(|offset| {
            offset.strip_prefix("+0x").map_or(Some(0), |digits| u64::from_str_radix(digits, 16).ok())
        });
    Some((u64::from_str_radix(address, 16).ok()?, name, target.flatten()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
0000000000001000 <k>:
\ts_waitcnt lgkmcnt(0)     // 000000001000: BF8CC07F
\ts_cbranch_scc1 5         // 000000001004: BF850044 <k+0x1c>
\tv_fma_f32 v1, v2, v3, v4 // 000000001008: D1CB0004 04260804
\ts_nop 0                  // 000000001010: BF800000
\ts_add_i32 s6, s6, -1     // 000000001014: 8106C106
\ts_cbranch_scc1 65532     // 000000001018: BF85FFFC <k+0x8>
\ts_endpgm                 // 00000000101C: BF810000
";

    #[test]
    fn a_turn_is_what_lies_between_a_backward_branch_and_its_target() {
        assert_eq!(count(TEXT, "k").unwrap(), 3);
    }

    #[test]
    fn a_kernel_without_a_loop_is_refused() {
        let straight: String =
            TEXT.lines().filter(|line| !line.contains("65532")).map(|line| format!("{line}\n")).collect();
        assert!(count(&straight, "k").is_err());
    }
}
