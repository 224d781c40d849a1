//! Pins what must not change: opcodes, and the exports of AMD's libraries.
//!
//! `data/amd_exports.tsv` lists the exports of AMD's libraries as packaged by Debian (5.2.3, 6.4.3, 7.2.4): symbol, then its
//! version node in libamdhip64.so.5, .6 and .7, empty where it is not exported.

use std::collections::BTreeMap;
use std::path::Path;

use hip_api::{Soname, TABLE, meta};

const AMD_EXPORTS: &str = include_str!("data/amd_exports.tsv");
const OPCODES: &str = include_str!("data/opcodes.txt");

/// Opcodes are part of the protocol of every worker and client ever built: lines may be added but never changed.
#[test]
fn opcodes_are_pinned() {
    let mut rows: Vec<_> = TABLE.iter().collect();
    rows.sort_by_key(|row| row.number);
    let table: String = rows.iter().map(|row| format!("{:#06x} {}\n", row.number, row.name)).collect();
    for (line, (pinned, now)) in OPCODES.lines().zip(table.lines()).enumerate() {
        assert_eq!(pinned, now, "tests/data/opcodes.txt, line {}", line + 1);
    }
    assert_eq!(
        OPCODES.lines().count(),
        TABLE.len(),
        "a new function also gets a line in tests/data/opcodes.txt"
    );
}

/// Version node of functions that AMD's library does not have.
const OWN_NODE: &str = "remora_1";

#[test]
fn every_symbol_and_node_of_amds_libraries_is_exported() {
    for (column, soname) in Soname::ALL.into_iter().enumerate() {
        let amds = amd_exports(column);
        let mut ours: BTreeMap<&str, &str> = meta::exports(soname.library()).into_iter().collect();
        // Remora's own functions have a separate node, so that they cannot be confused with AMD's.
        ours.retain(|symbol, node| !(symbol.starts_with("remora") && *node == OWN_NODE));
        assert_eq!(ours, amds, "{}", soname.library());
    }
    assert_eq!(amd_exports(2).len(), 525, "the facts are complete");
}

#[test]
fn every_node_of_amds_libraries_is_defined() {
    for soname in Soname::ALL {
        let script = meta::version_script(soname.library());
        for node in soname.nodes() {
            assert!(script.contains(&format!("{node} {{")), "{} lacks {node}", soname.library());
        }
        for (symbol, node) in meta::exports(soname.library()) {
            let known = soname.nodes().contains(&node) || node == OWN_NODE;
            assert!(known, "{symbol} has node {node} in {}", soname.library());
        }
    }
}

#[test]
fn the_coverage_page_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/hip-coverage.md");
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(page == meta::coverage_page(), "docs/hip-coverage.md is out of date: run `cargo xtask codegen`");
}

fn amd_exports(column: usize) -> BTreeMap<&'static str, &'static str> {
    let lines = AMD_EXPORTS.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.split('\t').collect::<Vec<_>>())
        .filter(|fields| !fields[column + 1].is_empty())
        .map(|fields| (fields[0], fields[column + 1]))
        .collect()
}
