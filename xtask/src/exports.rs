//! Checks the exports of the shared libraries, as read by `readelf`, against AMD's libraries and the function table.

#![cfg(test)]

use crate::step;
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Symbol to version node; an unversioned symbol has an empty node.
type Exports = BTreeMap<String, String>;

/// Functions of AMD's libraries that ours do not export: library, function, reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[];

fn exports_of(library: &Path) -> Result<Exports> {
    let text =
        step::output(Command::new("readelf").args(["--dyn-syms", "--wide"]).arg(library).env("LC_ALL", "C"))?;
    Ok(parse(&text))
}

/// Lines are `number: value size type binding visibility section name@@node`.
fn parse(text: &str) -> Exports {
    let mut exports = Exports::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, _, _, kind, binding, _, section, name, ..] = fields[..] else { continue };
        // The version nodes themselves are absolute symbols.
        if section == "UND" || section == "ABS" || binding == "LOCAL" || !matches!(kind, "FUNC" | "OBJECT") {
            continue;
        }
        let (symbol, node) = name.split_once('@').unwrap_or((name, ""));
        exports.insert(symbol.to_owned(), node.trim_start_matches('@').to_owned());
    }
    exports
}

/// The symbols of `wanted` that `found` lacks or has with another node.
fn missing(library: &str, wanted: &Exports, found: &Exports) -> Vec<String> {
    let excused = |symbol: &str| EXCEPTIONS.iter().any(|(of, name, _)| *of == library && *name == symbol);
    wanted
        .iter()
        .filter(|(symbol, _)| !excused(symbol))
        .filter_map(|(symbol, node)| match found.get(symbol) {
            None => Some(format!("{symbol} is missing")),
            Some(other) if other != node => Some(format!("{symbol} is in `{other}`, not in `{node}`")),
            Some(_) => None,
        })
        .collect()
}

mod tests {
    use super::*;
    use crate::client_libs::SONAMES;
    use crate::repo::Repo;
    use crate::toolchain::vendor_folder;

    fn ours(soname: &str) -> Exports {
        let path = Repo::find().unwrap().lib().join(soname);
        assert!(path.exists(), "{} is not built; run `cargo xtask build` first", path.display());
        exports_of(&path).unwrap()
    }

    fn amds(soname: &str) -> Exports {
        let path = vendor_folder(&Repo::find().unwrap()).join(soname);
        assert!(path.exists(), "{} is not unpacked; run `cargo xtask setup` first", path.display());
        exports_of(&path).unwrap()
    }

    #[test]
    fn every_function_of_amds_libraries_is_exported_with_the_same_version() {
        for (soname, at_least) in [
            ("libamdhip64.so.5", 390),
            ("libamdhip64.so.6", 480),
            ("libamdhip64.so.7", 480),
            ("libhiprtc.so.7", 18),
        ] {
            let amds = amds(soname);
            assert!(amds.len() >= at_least, "{soname}: only {} functions were read", amds.len());
            let missing = missing(soname, &amds, &ours(soname));
            assert!(missing.is_empty(), "{soname}: {missing:#?}");
        }
    }

    #[test]
    fn exactly_the_table_is_exported() {
        for soname in SONAMES {
            let table: Exports = hip_api::meta::exports(soname)
                .into_iter()
                .map(|(symbol, node)| (symbol.to_owned(), node.to_owned()))
                .collect();
            assert!(!table.is_empty(), "the table has no functions for {soname}");
            let (ours, absent) = (ours(soname), missing(soname, &table, &ours(soname)));
            assert!(absent.is_empty(), "{soname}: {absent:#?}");
            let surplus: Vec<&String> = ours.keys().filter(|symbol| !table.contains_key(*symbol)).collect();
            assert!(surplus.is_empty(), "{soname}: {surplus:#?}");
        }
    }

    #[test]
    fn exceptions_are_real() {
        for (soname, symbol, reason) in EXCEPTIONS {
            assert!(amds(soname).contains_key(*symbol), "{soname} has no {symbol}");
            assert!(!ours(soname).contains_key(*symbol), "{symbol} is exported after all");
            assert!(!reason.is_empty());
        }
    }

    #[test]
    fn versions_are_read_and_nodes_and_imports_are_not() {
        let text = "\
Symbol table '.dynsym' contains 4 entries:
   Num:    Value          Size Type    Bind   Vis      Ndx Name
     0: 0000000000000000     0 NOTYPE  LOCAL  DEFAULT  UND
     1: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND malloc@GLIBC_2.2.5 (2)
     2: 0000000000000000     0 OBJECT  GLOBAL DEFAULT  ABS hip_4.2
     3: 0000000000001000    10 FUNC    GLOBAL DEFAULT   12 hipInit@@hip_4.2
     4: 0000000000001010    10 FUNC    GLOBAL DEFAULT   12 hiprtcVersion
";
        let exports = parse(text);
        assert_eq!(exports.len(), 2);
        assert_eq!(exports["hipInit"], "hip_4.2");
        assert_eq!(exports["hiprtcVersion"], "");
    }

    #[test]
    fn a_wrong_version_counts_as_missing() {
        let wanted =
            Exports::from([("hipInit".into(), "hip_4.2".into()), ("hipFree".into(), "hip_4.2".into())]);
        let found = Exports::from([("hipInit".into(), "hip_5.0".into())]);
        assert_eq!(missing("x", &wanted, &found).len(), 2);
    }
}
