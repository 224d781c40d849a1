//! LLVM's llvm-mc as the judge of decoding and disassembly, both ways, over every opcode with random operands.

mod tool;
mod words;

use std::collections::BTreeMap;

use isa::{Arch, DecodeError, Inst, decode, disassemble};
use words::Random;

/// Where llvm-mc disassembles and we refuse on purpose: which of its texts, and why. It assembles none of them.
const DELIBERATE: &[(fn(&str) -> bool, &str)] = &[
    (|text| text.contains("null"), "operand 125 is reserved before GFX10"),
    (|text| text.starts_with("image_atomic"), "image atomics have masks of 1, 2 or 4 components"),
    (|text| text.starts_with("v_mfma") && text.contains(", src_"), "matrices are vector registers"),
    (|text| text.starts_with("v_cmp") && text.contains(" src_"), "a lane mask goes to scalar registers"),
];

/// Words on which llvm-mc 19 crashes: SDWA selections that do not exist.
fn crashes_llvm(words: &[u32; 3]) -> bool {
    let sdwa = words[0] >> 31 == 0 && words[0] & 0x1ff == 249;
    let selection = |low: u32| words[1] >> low & 7 == 7;
    sdwa && (selection(8) || selection(16) || selection(24) || words[1] >> 11 & 3 == 3)
}

fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Our text without the comment on branch targets, spaces as llvm-mc's are normalised.
fn text_of(arch: Arch, inst: &Inst) -> String {
    let text = disassemble(arch, inst, 0);
    let text = text.split(" ;").next().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[derive(Default)]
struct Report {
    same: usize,
    unknown: usize,
    crashers: usize,
    deliberate: usize,
    differences: Vec<String>,
}

fn compare_disassembly(arch: Arch, cases: &[[u32; 3]]) -> (Report, Vec<(Inst, Vec<u8>)>) {
    let mut report = Report::default();
    let mut valid = Vec::new();
    let cases: Vec<_> = cases.iter().filter(|words| !crashes_llvm(words)).collect();
    for batch in cases.chunks(20_000) {
        let ours: Vec<_> = batch.iter().map(|words| decode(arch, &bytes_of(*words))).collect();
        // What we decode is given in its exact size, so that llvm-mc must find one instruction and no more.
        let groups: Vec<Vec<u8>> = batch
            .iter()
            .zip(&ours)
            .map(|(words, inst)| match inst {
                Ok(inst) => bytes_of(*words)[..inst.size.into()].to_vec(),
                Err(_) => bytes_of(*words),
            })
            .collect();
        let theirs = tool::disassemble(arch, &groups);
        for ((bytes, ours), theirs) in groups.into_iter().zip(ours).zip(theirs) {
            // Comments mark operands that the instruction cannot have.
            let first = theirs.first().filter(|text| !text.contains("/*"));
            match (ours, first) {
                (Err(DecodeError::Unknown { .. }), None) => report.unknown += 1,
                (Ok(inst), Some(text)) if theirs.len() == 1 && *text == text_of(arch, &inst) => {
                    report.same += 1;
                    valid.push((inst, bytes));
                }
                (Err(_), Some(text)) if DELIBERATE.iter().any(|(applies, _)| applies(text)) => {
                    report.deliberate += 1;
                }
                (ours, _) => {
                    let ours = ours.map_or_else(|error| error.to_string(), |inst| text_of(arch, &inst));
                    report.differences.push(format!("{bytes:02x?}\n  ours:  {ours}\n  llvm: {theirs:?}"));
                }
            }
        }
    }
    report.crashers = 0;
    (report, valid)
}

fn every_case(arch: Arch) -> Vec<[u32; 3]> {
    let mut random = Random::seeded(arch);
    let mut cases = words::every_opcode(&mut random, 160);
    cases.extend(words::every_selection(&mut random, 240));
    cases
}

fn both_architectures(judge: impl Fn(Arch) + Sync) {
    std::thread::scope(|scope| {
        for arch in [Arch::Gfx90a, Arch::Gfx942] {
            let judge = &judge;
            scope.spawn(move || judge(arch));
        }
    });
}

#[test]
fn every_opcode_disassembles_as_llvm_mc_does_and_assembles_back() {
    both_architectures(|arch| {
        let cases = every_case(arch);
        let (report, valid) = compare_disassembly(arch, &cases);
        let operations = valid.iter().map(|(inst, _)| inst.op).collect::<std::collections::BTreeSet<_>>().len();
        println!(
            "{arch:?}: {} words: {} instructions of {operations} operations the same, {} unknown to both, {} deliberate, {} differences",
            cases.len(),
            report.same,
            report.unknown,
            report.deliberate,
            report.differences.len(),
        );
        if !report.differences.is_empty() {
            let sample: Vec<&String> = report.differences.iter().step_by(1 + report.differences.len() / 60).collect();
            for difference in sample {
                println!("{arch:?} {difference}");
            }
        }
        let texts: Vec<String> = valid.iter().map(|(inst, _)| text_of(arch, inst)).collect();
        let mut identical = 0;
        let mut canonical = 0;
        let mut refused: BTreeMap<String, (usize, String)> = BTreeMap::new();
        let mut wrong = Vec::new();
        for (chunk, texts) in valid.chunks(40_000).zip(texts.chunks(40_000)) {
            for (((_, bytes), text), assembled) in chunk.iter().zip(texts).zip(tool::assemble(arch, texts)) {
                match assembled {
                    Ok(theirs) if theirs == *bytes => identical += 1,
                    Ok(theirs) => match decode(arch, &theirs) {
                        Ok(again) if text_of(arch, &again) == *text => canonical += 1,
                        again => wrong.push(format!("{text}\n  {bytes:02x?}\n  {theirs:02x?}\n  {again:?}")),
                    },
                    Err(message) => {
                        let entry = refused.entry(message).or_insert((0, text.clone()));
                        entry.0 += 1;
                    }
                }
            }
        }
        println!("{arch:?}: assembled back: {identical} to the same bytes, {canonical} to a shorter spelling, {} wrong", wrong.len());
        for (message, (count, example)) in &refused {
            println!("{arch:?}: refused {count}: {message}, as in `{example}`");
        }
        for text in wrong.iter().take(20) {
            println!("{arch:?} wrong: {text}");
        }
        assert!(report.differences.is_empty(), "{} differences", report.differences.len());
        assert!(wrong.is_empty(), "{} assembled wrongly", wrong.len());
    });
}
