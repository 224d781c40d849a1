//! Every instruction found in real libraries is in the tables, with the encoding in which it was found.

use isa::{Arch, ENCODINGS, Flags, Format, Op};

const CENSUS: &str = include_str!("data/census.tsv");

fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    CENSUS.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('\t'))
}

/// Operation of a mnemonic, and the suffix of its encoding.
fn parse(mnemonic: &str) -> (Option<Op>, &str) {
    for suffix in ["_e32", "_e64", "_sdwa", "_dpp"] {
        if let Some(name) = mnemonic.strip_suffix(suffix) {
            return (Op::from_name(name), suffix);
        }
    }
    (Op::from_name(mnemonic), "")
}

#[test]
fn every_mnemonic_of_the_census_has_an_operation_and_its_encoding() {
    let formats = [
        ("SOP1", Format::Sop1),
        ("SOP2", Format::Sop2),
        ("SOPC", Format::Sopc),
        ("SOPK", Format::Sopk),
        ("SOPP", Format::Sopp),
        ("SMEM", Format::Smem),
        ("VOP1", Format::Vop1),
        ("VOP2", Format::Vop2),
        ("VOPC", Format::Vopc),
        ("VOP3", Format::Vop3),
        ("VOP3P", Format::Vop3p),
        ("DS", Format::Ds),
        ("FLAT", Format::Flat),
        ("GLOBAL", Format::Global),
        ("SCRATCH", Format::Scratch),
        ("MUBUF", Format::Mubuf),
    ];
    let mut count = 0;
    for (encoding, mnemonic) in rows() {
        let (op, suffix) = parse(mnemonic);
        let row = op.unwrap_or_else(|| panic!("{mnemonic} is not a known operation")).encoding();
        let (_, format) = formats.iter().find(|(name, _)| *name == encoding).expect("a known encoding");
        let has_form = match suffix {
            "_e64" => *format == Format::Vop3 && !row.flags.has(Flags::NO_E64),
            "_sdwa" => row.flags.has(Flags::SDWA),
            "_dpp" => row.flags.has(Flags::DPP),
            _ => row.format == *format,
        };
        assert!(has_form, "{mnemonic} has no {encoding} form");
        assert!(row.opcode(Arch::Gfx90a).or(row.opcode(Arch::Gfx942)).is_some());
        count += 1;
    }
    assert!(count > 600, "the census has {count} lines");
}

#[test]
fn every_operation_exists_somewhere_and_names_are_found() {
    for row in ENCODINGS {
        assert!(row.opcode(Arch::Gfx90a).or(row.opcode(Arch::Gfx942)).is_some(), "{}", row.op.name());
        assert_eq!(Op::from_name(row.op.name()), Some(row.op));
    }
    assert_eq!(Op::ALL.len(), ENCODINGS.len());
}
