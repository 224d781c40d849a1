//! `cargo xtask audit`: checks the dependencies of the workspace and of `fuzz/` against the policy in `deny.toml`.
//!
//! Licences, bans and sources are checked here, from cargo's metadata of the compiled crates, without network access. Published
//! vulnerabilities are checked by cargo-audit, which needs a copy of the RustSec advisory database; without one that part is
//! skipped, and the result says so. Only `--fetch` uses the network.

mod advisories;
pub mod graph;
mod policy;

use crate::repo::Repo;
use crate::step;
use anyhow::{Context, Result, bail};
use graph::Graph;
use policy::Policy;
use std::fs;
use std::path::PathBuf;

#[derive(Debug, Default, clap::Args)]
pub struct Arguments {
    /// Folder with a copy of the RustSec advisory database; by default $CARGO_HOME/advisory-db, else the copy downloaded by
    /// --fetch
    #[arg(long, value_name = "FOLDER")]
    db: Option<PathBuf>,
    /// Fetch the advisory database unless the copy is less than a day old
    #[arg(long, conflicts_with = "db")]
    fetch: bool,
}

/// Runs the audit; returns a one-line summary.
pub fn run(repo: &Repo, arguments: &Arguments) -> Result<String> {
    let path = repo.root.join("deny.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let policy = Policy::parse(&text).with_context(|| format!("cannot use {}", path.display()))?;
    let mut complaints = Vec::new();
    let mut notes = Vec::new();
    let graph = Graph::read(repo, &repo.root, &policy.graph.targets)?;
    notes.push(format!("{} crates", graph.crates.len()));
    complaints.extend(policy.check(&graph)?);
    match Graph::read(repo, &repo.root.join("fuzz"), &policy.graph.targets) {
        // Duplicate versions are not checked for fuzz/: it is not part of the shipped program.
        Ok(graph) => complaints.extend(policy.check_one_by_one(&graph)?.into_iter().map(in_fuzz)),
        Err(error) if graph::is_outdated_lock(&error) => complaints.push(
            "fuzz/Cargo.lock is out of date; run `cargo update --workspace --manifest-path fuzz/Cargo.toml` and commit it".to_owned(),
        ),
        Err(error) => {
            step::progress(&format!("skipped fuzz/: {error:#}"));
            notes.push("fuzz/ skipped: its crates could not be downloaded".to_owned());
        }
    }
    let locks = ["Cargo.lock", "fuzz/Cargo.lock"].map(|name| repo.root.join(name));
    let ignored: Vec<&str> = policy.advisories.ignore.iter().map(|entry| entry.id.as_str()).collect();
    match advisories::database(repo, arguments.db.as_deref(), arguments.fetch)? {
        Ok(database) => {
            complaints.extend(advisories::check(repo, &database, &locks, &ignored)?);
            notes.push(format!("advisories of {}", database.display()));
        }
        Err(reason) => {
            step::progress(&format!("skipped advisories: {reason}"));
            notes.push(format!("advisories skipped: {reason}"));
        }
    }
    if !complaints.is_empty() {
        bail!("{} violations of deny.toml\n  {}", complaints.len(), complaints.join("\n  "));
    }
    Ok(notes.join("; "))
}

fn in_fuzz(complaint: String) -> String {
    format!("in fuzz/: {complaint}")
}
