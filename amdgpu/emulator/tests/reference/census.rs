//! Every instruction that real libraries use compiles to a handler.

use emulator::compile::Compiler;
use emulator::{Level, exec};
use isa::{Arch, Op};

use super::words::{self, Form};
use isa_reference::random::Random;

/// Every encoding and mnemonic of the gfx90a and gfx942 code in a set of real libraries and compiled kernels.
const CENSUS: &str = include_str!("../../../isa/tests/data/census.tsv");

#[test]
fn everything_in_the_census_compiles_to_a_handler() {
    let mut refused = Vec::new();
    let mut compiled = 0;
    for (_, mnemonic) in
        CENSUS.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('\t'))
    {
        let suffixes =
            [("_e32", Form::Short), ("_e64", Form::Long), ("_sdwa", Form::Sdwa), ("_dpp", Form::Dpp)];
        let found = suffixes.iter().find_map(|(suffix, form)| Some((mnemonic.strip_suffix(suffix)?, *form)));
        let (name, form) = found.unwrap_or((mnemonic, Form::Short));
        let op = Op::from_name(name).unwrap_or_else(|| panic!("{mnemonic} is no operation"));
        let row = op.encoding();
        for arch in [Arch::Gfx90a, Arch::Gfx942].into_iter().filter(|arch| row.opcode(*arch).is_some()) {
            // An operation that has only the long form is generated from its own table.
            let form = if form == Form::Long && !words::has(row, Form::Long) { Form::Short } else { form };
            let mut random = Random::new(op as u64);
            for _ in 0..20 {
                let Some((inst, _)) = words::draw(&mut random, arch, row, form) else {
                    refused.push(format!("{arch:?} {mnemonic}: no operands found"));
                    break;
                };
                let mut compiler = Compiler::new(arch, Level::Base, 256, 512, 0);
                compiler.insts.push(inst);
                // Instructions without effect on an in-order device have no handler.
                if exec::is_dropped(op) {
                    break;
                }
                if let Err(error) = exec::compile(&mut compiler, &inst, 0) {
                    let text = isa::disassemble(arch, &inst, 0);
                    refused.push(format!("{arch:?} {mnemonic}: {error} (`{text}`)"));
                    break;
                }
            }
            compiled += 1;
        }
    }
    assert!(compiled > 1000, "{compiled} forms");
    assert!(refused.is_empty(), "{refused:#?}");
}
