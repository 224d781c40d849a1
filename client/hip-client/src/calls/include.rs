//! Collects headers of run-time compiled programs from include folders of this machine (`-I`), and sends them with the
//! source.
//!
//! The compiler runs on the worker and cannot read this machine's files. So the source is scanned for `#include` lines,
//! headers found in the given folders are scanned in turn, and each folder becomes a folder of the request. Includes
//! whose name is a macro are not found. Headers of HIP, of the C and C++ libraries and of a compiler are left to the
//! worker, because they must match its compiler: programs query `hipcc` for all its folders and pass them on.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

/// The limit of a request is 16 MiB in total.
const MAX_BYTES: usize = 12 << 20;
const MAX_FILES: usize = 4096;

/// Options with local folders replaced by folders of the request, and the headers found there.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    pub options: Vec<String>,
    pub headers: Vec<(String, String)>,
}

/// Collects the headers that `texts` include.
pub fn gather(options: &[String], texts: &[&str]) -> Gathered {
    let mut search = Search::default();
    let mut rest = options.iter();
    while let Some(option) = rest.next() {
        let folder = match option.trim() {
            "-I" | "--include-path" | "-isystem" => rest.next().map(String::as_str),
            word => ["--include-path=", "-isystem", "-I"].iter().find_map(|start| word.strip_prefix(start)),
        };
        match folder {
            None => search.found.options.push(option.clone()),
            Some(folder) => {
                let path = Path::new(folder);
                if path.is_dir() && !is_of_a_compiler(path) {
                    search.add(path);
                }
                // It may also be a folder among the headers that the program passed.
                if !path.is_absolute() {
                    search.found.options.push(format!("-I{folder}"));
                }
            }
        }
    }
    if !search.folders.is_empty() {
        texts.iter().for_each(|text| search.read(text, None));
        // A work list instead of recursion: the include depth is not limited.
        while let Some((folder, path, text)) = search.unread.pop() {
            search.read(&text, Some((folder, &path)));
        }
    }
    search.found
}

#[derive(Debug, Default)]
struct Search {
    folders: Vec<PathBuf>,
    seen: HashSet<(usize, PathBuf)>,
    bytes: usize,
    /// Collected, but not yet scanned for includes.
    unread: Vec<(usize, PathBuf, String)>,
    found: Gathered,
}

impl Search {
    fn add(&mut self, folder: &Path) {
        self.found.options.push(format!("-I{}", place(self.folders.len())));
        self.folders.push(folder.to_owned());
    }

    /// Scans a text for includes. `inside`: the folder and path of the header that the text comes from.
    fn read(&mut self, text: &str, inside: Option<(usize, &Path)>) {
        for include in text.lines().filter_map(include) {
            let beside = inside
                .filter(|_| include.quoted)
                .and_then(|(folder, path)| Some((folder, flat(&path.parent()?.join(include.name))?)));
            let name = flat(Path::new(include.name));
            let places = (0..self.folders.len()).filter_map(|folder| Some((folder, name.clone()?)));
            for (folder, path) in beside.into_iter().chain(places) {
                if self.take(folder, &path) {
                    break;
                }
            }
        }
    }

    /// Collects a header; returns false if it does not exist or cannot be sent.
    fn take(&mut self, folder: usize, path: &Path) -> bool {
        if path.starts_with("hip") {
            return false;
        }
        if self.seen.contains(&(folder, path.to_owned())) {
            return true;
        }
        let file = self.folders[folder].join(path);
        let Ok(data) = file.metadata() else { return false };
        let room = MAX_BYTES - self.bytes;
        if !data.is_file() || self.found.headers.len() >= MAX_FILES || data.len() > room as u64 {
            return false;
        }
        let Ok(bytes) = std::fs::read(&file) else { return false };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        // The file has grown, or is longer after conversion to UTF-8.
        if text.len() > room {
            return false;
        }
        self.bytes += text.len();
        self.seen.insert((folder, path.to_owned()));
        self.found.headers.push((format!("{}/{}", place(folder), path.display()), text.clone()));
        self.unread.push((folder, path.to_owned(), text));
        true
    }
}

/// Whether a folder contains the C or C++ library, or a compiler's own headers.
fn is_of_a_compiler(folder: &Path) -> bool {
    ["stddef.h", "stdlib.h", "cstdlib", "bits"].iter().any(|name| folder.join(name).exists())
}

/// The name of a folder in the request.
fn place(index: usize) -> String {
    format!("remora-include-{index}")
}

struct Include<'a> {
    name: &'a str,
    quoted: bool,
}

fn include(line: &str) -> Option<Include<'_>> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?;
    let rest = rest.strip_prefix("_next").unwrap_or(rest).trim_start();
    if let Some(rest) = rest.strip_prefix('"') {
        return Some(Include { name: rest.split_once('"')?.0, quoted: true });
    }
    Some(Include { name: rest.strip_prefix('<')?.split_once('>')?.0, quoted: false })
}

/// Normalizes `.` and `..`; `None` if the path leaves its starting folder.
fn flat(path: &Path) -> Option<PathBuf> {
    let mut result = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => result.push(name),
            Component::CurDir => {}
            Component::ParentDir if result.pop() => {}
            _ => return None,
        }
    }
    (!result.as_os_str().is_empty()).then_some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    fn gathered(options: &[&str], source: &str) -> (Vec<String>, Vec<String>) {
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        let Gathered { options, headers } = gather(&options, &[source]);
        (options, headers.into_iter().map(|(name, _)| name).collect())
    }

    #[test]
    fn what_a_source_includes_is_found_with_all_that_it_includes_in_turn() {
        let first = folder(&[
            ("a/one.h", "#include \"two.h\"\n# include <three.h>\n#include \"../up.h\""),
            ("a/two.h", "#include \"../a/one.h\"\n"),
            ("up.h", "#include MACRO\n"),
            ("unused.h", ""),
        ]);
        let second = folder(&[("three.h", "#include <cmath>\n"), ("a/two.h", "")]);
        let first = format!("-I{}", first.path().display());
        let second = second.path().to_str().unwrap();
        let (options, mut headers) = gathered(&["-O2", &first, "-I", second, "-DX"], "#include <a/one.h>\n");
        assert_eq!(options, ["-O2", "-Iremora-include-0", "-Iremora-include-1", "-DX"]);
        headers.sort();
        assert_eq!(
            headers,
            [
                "remora-include-0/a/one.h",
                "remora-include-0/a/two.h",
                "remora-include-0/up.h",
                "remora-include-1/three.h"
            ]
        );
    }

    #[test]
    fn nothing_outside_the_named_folders_is_read() {
        let outside = folder(&[("secret.h", "s"), ("in/plain.h", "p")]);
        let inside = format!("-I{}", outside.path().join("in").display());
        let secret = outside.path().join("secret.h");
        let source =
            format!("#include \"../secret.h\"\n#include <{}>\n#include <plain.h>\n", secret.display());
        assert_eq!(gathered(&[&inside], &source).1, ["remora-include-0/plain.h"]);
    }

    #[test]
    fn headers_of_hip_are_left_to_the_worker() {
        let rocm = folder(&[("hip/hip_runtime.h", ""), ("rocrand/rocrand.h", "#include <hip/hip_fp16.h>\n")]);
        let rocm = format!("-I{}", rocm.path().display());
        let source = "#include <hip/hip_runtime.h>\n#include <rocrand/rocrand.h>\n";
        assert_eq!(gathered(&[&rocm], source).1, ["remora-include-0/rocrand/rocrand.h"]);
    }

    #[test]
    fn headers_of_another_compiler_are_left_alone() {
        let c = folder(&[("stdlib.h", ""), ("a.h", "")]);
        let cxx = folder(&[("cstdlib", ""), ("b.h", "")]);
        let options = [c.path(), cxx.path()].map(|path| format!("-I{}", path.display()));
        let (options, headers) = gathered(&[&options[0], &options[1]], "#include <a.h>\n#include <b.h>\n");
        assert!(options.is_empty() && headers.is_empty(), "{options:?} {headers:?}");
    }

    #[test]
    fn only_folders_that_a_program_may_have_sent_are_left_as_they_were_named() {
        let (options, headers) = gathered(&["-Isent/headers", "--include-path=/no/such"], "#include <x.h>\n");
        assert_eq!(options, ["-Isent/headers"]);
        assert!(headers.is_empty());
    }

    #[test]
    fn a_header_that_is_too_large_is_not_sent() {
        let large = "x".repeat(MAX_BYTES + 1);
        let folder = folder(&[("large.h", &large), ("small.h", "")]);
        let option = format!("-I{}", folder.path().display());
        assert_eq!(
            gathered(&[&option], "#include <large.h>\n#include <small.h>\n").1,
            ["remora-include-0/small.h"]
        );
    }
}
