//! Checks of the client's crates: large import cycles between files, and structs with many public fields. Both were there once.

use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The source folders that are checked.
pub const FOLDERS: &[&str] = &["client/hip-client/src", "client/session/src"];
const MAX_CYCLE: usize = 5;
const MAX_PUBLIC_FIELDS: usize = 12;

type Imports = BTreeMap<String, BTreeSet<String>>;

/// Checks one folder, given the files of the repository.
pub fn check(root: &Path, folder: &str, files: &[PathBuf]) -> Result<Vec<String>> {
    let (mut complaints, mut texts) = (Vec::new(), BTreeMap::new());
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs")) {
        let Ok(name) = file.strip_prefix(root.join(folder)) else { continue };
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        complaints.extend(
            wide_structs(&text, MAX_PUBLIC_FIELDS)
                .map(|found| format!("{folder}/{}: {found}", name.display())),
        );
        let module = name.with_extension("").to_string_lossy().trim_end_matches("/mod").replace('/', "::");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        texts.insert(module, code.lines().filter(|line| !line.trim_start().starts_with("//")).collect());
    }
    for cycle in cycles(&imports(&texts)).into_iter().filter(|cycle| cycle.len() > MAX_CYCLE) {
        let names = Vec::from_iter(cycle).join(", ");
        complaints.push(format!("{folder}: an import cycle of more than {MAX_CYCLE} files: {names}"));
    }
    Ok(complaints)
}

fn wide_structs(text: &str, limit: usize) -> impl Iterator<Item = String> {
    text.split("\npub").filter_map(move |item| {
        let (_, rest) = item.split_once("struct ").filter(|(visibility, _)| visibility.trim().len() <= 7)?;
        let body = rest.split("\n}").next().unwrap_or_default();
        let count = body.lines().filter(|line| line.starts_with("    pub")).count();
        let name: String = rest.chars().take_while(|letter| letter.is_alphanumeric()).collect();
        (count > limit).then(|| format!("{name} has {count} public fields; the limit is {limit}"))
    })
}

/// The files that each file names in paths. The root of the crate, which names all modules, does not count.
fn imports(texts: &BTreeMap<String, String>) -> Imports {
    let known = |path: &[String]| {
        let prefixes = (1..=path.len()).rev().map(|length| path[..length].join("::"));
        prefixes.into_iter().find(|prefix| texts.contains_key(prefix))
    };
    let of = |module: &String| {
        let parent = module.rsplit_once("::").map_or("", |(parent, _)| parent);
        let text = texts[module].replace("super::", &format!("crate::{parent}::"));
        let mut paths = Vec::new();
        text.match_indices("crate::").for_each(|(at, start)| {
            expand(&mut Vec::new(), &text[at + start.len()..], &mut paths);
        });
        paths.iter().filter_map(|path| known(path)).filter(|used| used != module && used != "lib").collect()
    };
    texts.keys().map(|module| (module.clone(), of(module))).collect()
}

/// Reads a path such as `a::{b::C, d}` into the list of its paths; returns the rest of the text.
fn expand<'a>(prefix: &mut Vec<String>, text: &'a str, paths: &mut Vec<Vec<String>>) -> &'a str {
    let text = text.trim_start().trim_start_matches("::").trim_start();
    if let Some(mut list) = text.strip_prefix('{') {
        while !list.trim_start().is_empty() && !list.trim_start().starts_with('}') {
            let rest = expand(&mut prefix.clone(), list, paths).trim_start();
            let Some(next) = rest.strip_prefix(',') else {
                return rest.strip_prefix('}').unwrap_or_default();
            };
            list = next;
        }
        return list.trim_start().strip_prefix('}').unwrap_or_default();
    }
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(text.len());
    prefix.push(text[..end].to_owned());
    if end > 0 && text[end..].starts_with("::") {
        return expand(prefix, &text[end..], paths);
    }
    paths.push(prefix.clone());
    &text[end..]
}

/// Sets of files that reach each other.
fn cycles(imports: &Imports) -> BTreeSet<BTreeSet<&str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|file| (file.as_str(), reach(imports, file))).collect();
    let cycle =
        |file: &&str| reached[file].iter().copied().filter(|used| reached[used].contains(file)).collect();
    reached.keys().map(cycle).collect()
}

fn reach<'a>(imports: &'a Imports, from: &'a str) -> BTreeSet<&'a str> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(next) = open.pop() {
        open.extend(imports[next].iter().map(String::as_str).filter(|used| seen.insert(*used)));
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_name_each_other_are_a_cycle() {
        let text = |text: &str| text.to_owned();
        let texts = BTreeMap::from([
            (text("a"), text("use crate::{b::{self, X}, c::Y};")),
            (text("b"), text("use crate::c::d::Z;")),
            (text("c"), text("struct Y;")),
            (text("c::d"), text("use super::Y; fn f() -> crate::a::W {}")),
        ]);
        let found = imports(&texts);
        assert_eq!(found["a"], BTreeSet::from([text("b"), text("c")]));
        assert_eq!(found["c::d"], BTreeSet::from([text("c"), text("a")]));
        let largest = cycles(&found).into_iter().map(|cycle| cycle.len()).max();
        assert_eq!(largest, Some(3), "a, b and c::d");
    }

    #[test]
    fn public_fields_are_counted() {
        let fields = "    pub(crate) a: u8,\n".repeat(13);
        assert_eq!(wide_structs(&format!("\npub struct Wide<T> {{\n{fields}}}\n"), 12).count(), 1);
        assert_eq!(wide_structs(&format!("\npub struct Narrow {{\n{}}}\n", &fields[22..]), 12).count(), 0);
    }
}
