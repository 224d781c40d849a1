//! `cargo xtask tidy`: checks that the compiler does not make. Generated pages, dependencies between crates, manifests, file
//! sizes, markers of unfinished work, access to the environment; then rustfmt, clippy and rustdoc.

mod manifests;
mod structure;

use crate::codegen;
use crate::echo::Skipped;
use crate::repo::Repo;
use crate::step;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Allowed dependencies between our own crates. Anything else is an error; tests may use more.
const ARROWS: &[(&str, &[&str])] = &[
    ("hip-api", &[]),
    ("wire", &["hip-api"]),
    ("worker-status", &["wire"]),
    ("transport", &["wire"]),
    ("worker-client", &["transport", "wire", "worker-status"]),
    ("mirror", &["wire"]),
    ("session", &["transport", "mirror", "wire"]),
    ("hip-client", &["session", "transport", "wire", "hip-api", "code-object"]),
    ("loader-audit", &[]),
    ("code-object", &[]),
    ("isa", &[]),
    ("isa-reference", &["isa"]),
    ("emulator", &["isa", "code-object"]),
    ("lift", &["isa", "isa-reference", "code-object"]),
    ("ptx", &["isa", "lift"]),
    ("limits", &["worker-status"]),
    ("backend", &["hip-api"]),
    ("backend-suite", &["backend", "hip-api"]),
    ("backend-emulator", &["backend", "limits", "hip-api", "emulator", "isa", "code-object"]),
    ("backend-hip", &["backend", "limits", "hip-api"]),
    (
        "backend-cuda",
        &[
            "backend",
            "backend-emulator",
            "limits",
            "hip-api",
            "emulator",
            "isa",
            "code-object",
            "lift",
            "ptx",
        ],
    ),
    (
        "worker",
        &[
            "transport",
            "worker-client",
            "worker-status",
            "mirror",
            "wire",
            "hip-api",
            "code-object",
            "toolchain",
            "limits",
            "sandbox",
            "backend",
            "backend-emulator",
            "backend-hip",
            "backend-cuda",
        ],
    ),
    ("toolchain", &[]),
    ("provider", &[]),
    ("agent", &["http-serve", "limits", "sandbox", "transport", "wire", "worker-client", "worker-status"]),
    ("http-serve", &[]),
    ("board-contract", &[]),
    ("board-client", &["board-contract"]),
    ("board-problems", &[]),
    ("sandbox", &[]),
    (
        "board-judge",
        &[
            "board-contract",
            "board-problems",
            "sandbox",
            "toolchain",
            "code-object",
            "isa",
            "transport",
            "wire",
            "worker-client",
        ],
    ),
    ("board-server", &["board-contract", "board-problems", "board-judge", "http-serve"]),
    ("tensor-linalg", &[]),
    ("tensor-core", &["tensor-linalg"]),
    ("tensor-cpu", &["tensor-core"]),
    ("tensor-rocm", &["tensor-core", "hip-api"]),
    ("pyflame", &["tensor-core", "tensor-cpu", "tensor-rocm"]),
    (
        "remora",
        &[
            "worker",
            "worker-client",
            "worker-status",
            "transport",
            "wire",
            "hip-api",
            "code-object",
            "backend-emulator",
            "backend-hip",
            "backend-cuda",
            "agent",
            "provider",
            "board-contract",
            "board-client",
            "board-problems",
            "board-judge",
            "board-server",
        ],
    ),
    ("e2e", &["transport", "wire", "tensor-core", "tensor-cpu", "tensor-rocm"]),
    ("xtask", &["hip-api", "provider"]),
];

/// Forbidden crates: the client has no async runtime, and so neither has anything it shares code with.
const REFUSED: &[&str] = &["tokio", "async-std", "smol", "openssl"];

/// Services and the board's client, which share no code with the client library; they may use tokio.
const SERVICES: &[&str] = &["board-server", "board-client", "agent", "http-serve"];

/// The longest file; a longer one has more than one subject.
const LINES: usize = 1000;

/// Tables have one subject however long.
const TABLES: &[&str] = &["api/hip-api/src/table.rs"];

/// Text that must not be in a finished file, split so that this file passes.
const WORDS: &[&str] = &[
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("dbg", "!("),
    concat!("FIX", "ME"),
    concat!("TO", "DO:"),
    concat!("#[ign", "ore"),
    concat!("index", "-url"),
    concat!("://deb", "."),
];

/// The allowed dependencies as a Markdown table, for ARCHITECTURE.md.
pub fn dependency_table() -> String {
    let code = |names: &[&str]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let (users, independent): (Vec<_>, Vec<_>) = ARROWS.iter().partition(|(_, uses)| !uses.is_empty());
    let independent: Vec<&str> = independent.iter().map(|(name, _)| *name).collect();
    let rows: String = users.iter().map(|(name, uses)| format!("| `{name}` | {} |\n", code(uses))).collect();
    format!("| crate | may use |\n|---|---|\n{rows}\nThe others use none: {}.\n", code(&independent))
}

/// Runs all checks; returns those that this Rust toolchain cannot make.
pub fn run(repo: &Repo) -> Result<Vec<Skipped>> {
    let mut complaints = codegen::stale(repo)?;
    let packages = packages(repo)?;
    complaints.extend(arrows(&packages));
    complaints.extend(manifests::check(&packages)?);
    let files = files(&repo.root)?;
    for folder in structure::FOLDERS {
        complaints.extend(structure::check(&repo.root, folder, &files)?);
    }
    for path in files {
        let name = path.strip_prefix(&repo.root).unwrap_or(&path).to_string_lossy().into_owned();
        let Ok(text) = fs::read_to_string(&path) else { continue };
        complaints.extend(words(&name, &text));
        if name.ends_with(".rs") {
            complaints.extend(length(&name, &text));
            complaints.extend(environment(&name, &text));
        }
    }
    if !complaints.is_empty() {
        bail!("problems found: {}\n  {}", complaints.len(), complaints.join("\n  "));
    }
    step::progress("dependencies, file sizes, unfinished work: no problems");
    let mut skipped = Vec::new();
    if available(repo, "fmt", &mut skipped) {
        step::run_forwarded("cargo fmt --check", repo.cargo().args(["fmt", "--all", "--check"]))?;
    }
    if available(repo, "clippy", &mut skipped) {
        let mut clippy = repo.cargo();
        clippy.args([
            "clippy",
            "--release",
            "--workspace",
            "--all-targets",
            "--quiet",
            "--",
            "--deny",
            "warnings",
        ]);
        step::run_forwarded("cargo clippy", &mut clippy)?;
    }
    let mut doc = repo.cargo();
    doc.args(["doc", "--release", "--workspace", "--lib", "--no-deps", "--quiet"]);
    // Broken links and invalid markup. Comments may link to private items: their readers read the source.
    doc.env("RUSTDOCFLAGS", "--deny warnings --allow rustdoc::private_intra_doc_links");
    step::run_forwarded("cargo doc", &mut doc)?;
    Ok(skipped)
}

/// Whether this Rust toolchain has the component; without rustup it may be missing.
fn available(repo: &Repo, component: &str, skipped: &mut Vec<Skipped>) -> bool {
    let found =
        repo.cargo().args([component, "--version"]).output().is_ok_and(|output| output.status.success());
    if !found {
        let reason = "this Rust toolchain does not have it".to_owned();
        step::progress(&format!("skipped cargo {component}: {reason}"));
        skipped.push(Skipped { name: format!("cargo {component}"), reason });
    }
    found
}

/// The crates of the workspace, as `cargo metadata` describes them.
fn packages(repo: &Repo) -> Result<Vec<Value>> {
    let text = step::output(repo.cargo().args(["metadata", "--no-deps", "--format-version", "1"]))?;
    let mut metadata: Value =
        serde_json::from_str(&text).context("cannot parse the output of cargo metadata")?;
    match metadata["packages"].take() {
        Value::Array(packages) => Ok(packages),
        _ => bail!("cargo metadata lists no packages"),
    }
}

fn arrows(packages: &[Value]) -> Vec<String> {
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    let mut complaints = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let Some(may_use) = allowed.get(name) else {
            complaints.push(format!(
                "crate {name} has no row in the table of allowed dependencies (ARROWS) in xtask/src/tidy.rs"
            ));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let used = dependency["name"].as_str().unwrap_or_default();
            let service = SERVICES.contains(&name) && used == "tokio";
            if REFUSED.contains(&used) && !service {
                complaints.push(format!("{name} uses {used}, which is forbidden in this project"));
            }
            let for_tests_only = dependency["kind"].as_str() == Some("dev");
            if allowed.contains_key(used) && !for_tests_only && !may_use.contains(&used) {
                complaints.push(format!("{name} uses {used}, which ARROWS does not allow"));
            }
        }
    }
    complaints
}

fn length(name: &str, text: &str) -> Option<String> {
    let lines = text.lines().count();
    let too_long = lines > LINES && !TABLES.contains(&name) && !text.starts_with("// @generated");
    too_long.then(|| format!("{name} has {lines} lines; the limit is {LINES}"))
}

fn words(name: &str, text: &str) -> Vec<String> {
    let found = |line: &str| WORDS.iter().find(|word| line.contains(**word)).copied();
    text.lines()
        .enumerate()
        .filter_map(|(index, line)| found(line).map(|word| format!("{name}:{}: `{word}`", index + 1)))
        .collect()
}

/// Only `main.rs` and `env.rs` of a crate, and tests, may read the environment.
fn environment(name: &str, text: &str) -> Vec<String> {
    let exempt = |suffix: &str| name.ends_with(suffix);
    if !name.contains("/src/") || exempt("/main.rs") || exempt("/env.rs") || exempt("/tests.rs") {
        return Vec::new();
    }
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    code.lines()
        .enumerate()
        .filter(|(_, line)| {
            line.contains("env::var(") || line.contains("env::var_os(") || line.contains("env::vars(")
        })
        .map(|(index, _)| format!("{name}:{}: the environment is read outside main.rs and env.rs", index + 1))
        .collect()
}

/// Returns every hand-written file of the working tree.
fn files(root: &Path) -> Result<Vec<PathBuf>> {
    const SKIPPED: &[&str] = &[
        "target",
        ".git",
        "corpus",
        "artifacts",
        "__pycache__",
        "node_modules",
        "LICENSE-APACHE",
        "Cargo.lock",
    ];
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let entry = entry?;
            if SKIPPED.contains(&entry.file_name().to_string_lossy().as_ref())
                || entry.path() == root.join("board/ui/dist")
            {
                continue;
            }
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The complaints about one crate with one dependency.
    fn complaints(name: &str, dependency: &str, kind: Option<&str>) -> Vec<String> {
        arrows(&[serde_json::json!({ "name": name, "dependencies": [{ "name": dependency, "kind": kind }] })])
    }

    #[test]
    fn an_arrow_that_is_not_in_the_table_is_refused() {
        assert_eq!(complaints("isa", "hip-api", None), ["isa uses hip-api, which ARROWS does not allow"]);
        assert!(complaints("emulator", "isa", None).is_empty());
    }

    #[test]
    fn tests_may_use_any_of_our_crates_but_no_async_runtime() {
        assert!(complaints("transport", "worker", Some("dev")).is_empty());
        assert_eq!(complaints("transport", "tokio", Some("dev")).len(), 1);
    }

    #[test]
    fn a_crate_without_a_row_is_refused() {
        assert_eq!(complaints("newcomer", "libc", None).len(), 1);
    }

    #[test]
    fn the_environment_is_read_only_where_it_may_be() {
        let line = "let x = std::env::var(\"X\");\n";
        assert_eq!(environment("cli/src/run.rs", line).len(), 1);
        assert!(environment("cli/src/env.rs", line).is_empty());
        assert!(environment("cli/src/run.rs", &format!("#[cfg(test)]\n{line}")).is_empty());
        assert!(environment("cli/tests/run.rs", line).is_empty());
    }

    #[test]
    fn long_files_and_unfinished_work_are_found() {
        assert!(length("a.rs", &"\n".repeat(LINES + 1)).is_some());
        assert!(length("a.rs", &"\n".repeat(LINES)).is_none());
        assert_eq!(words("a.rs", concat!("fn f() {\n    todo", "!()\n}\n")).len(), 1);
    }

    #[test]
    fn every_arrow_names_a_crate_of_the_table() {
        for (_, uses) in ARROWS {
            for used in *uses {
                assert!(ARROWS.iter().any(|(name, _)| name == used), "{used}");
            }
        }
    }
}
