//! The compiled crates, as reported by cargo.

use crate::repo::Repo;
use crate::step;
use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::Path;

/// A crate with the fields that the policy checks.
#[derive(Debug, Clone, Deserialize)]
pub struct Crate {
    pub name: String,
    pub version: String,
    pub license: Option<String>,
    /// The registry or repository; `None` for a crate of this repository.
    pub source: Option<String>,
    #[serde(default)]
    pub dependencies: Vec<Dependency>,
}

/// A dependency in a crate's manifest.
#[derive(Debug, Clone, Deserialize)]
pub struct Dependency {
    pub name: String,
    pub req: String,
    pub path: Option<String>,
}

#[derive(Debug, Default)]
pub struct Graph {
    pub crates: Vec<Crate>,
}

impl Graph {
    /// Reads the graph of the workspace in a folder, for some targets. Its lock file must be up to date.
    pub fn read(repo: &Repo, folder: &Path, targets: &[String]) -> Result<Graph> {
        let cargo = |command: &str| {
            let mut cargo = repo.cargo();
            cargo.current_dir(folder).args([command, "--locked"]);
            cargo
        };
        let (mut tree, mut metadata) = (cargo("tree"), cargo("metadata"));
        tree.args(["--workspace", "--edges", "normal,build,dev", "--prefix", "none", "--format", "{p}"]);
        metadata.args(["--format-version", "1"]);
        for target in targets {
            tree.args(["--target", target]);
            metadata.args(["--filter-platform", target]);
        }
        Graph::join(&step::output(&mut tree)?, &step::output(&mut metadata)?)
    }

    /// `cargo metadata` describes crates, but also lists some that no feature enables. `cargo tree` lists what is compiled.
    fn join(tree: &str, metadata: &str) -> Result<Graph> {
        #[derive(Deserialize)]
        struct Metadata {
            packages: Vec<Crate>,
        }
        let metadata: Metadata =
            serde_json::from_str(metadata).context("cannot parse the output of cargo metadata")?;
        let compiled = compiled(tree);
        let is_compiled = |it: &Crate| compiled.contains(&(it.name.as_str(), it.version.as_str()));
        Ok(Graph { crates: metadata.packages.into_iter().filter(is_compiled).collect() })
    }
}

/// Names and versions of the crates that `cargo tree` lists.
pub fn compiled(tree: &str) -> BTreeSet<(&str, &str)> {
    tree.lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some((words.next()?, words.next()?.strip_prefix('v')?))
        })
        .collect()
}

/// Whether cargo failed because the lock file does not match the manifests.
pub fn is_outdated_lock(error: &anyhow::Error) -> bool {
    error.to_string().contains("--locked was passed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_crates_that_are_compiled_are_in_the_graph() {
        let metadata = r#"{"packages":[
            {"name":"libc","version":"0.2.1","license":"MIT","source":"registry+x","dependencies":[]},
            {"name":"rsa","version":"0.9.0","license":"MIT","source":"registry+x","dependencies":[]},
            {"name":"ours","version":"0.1.0","license":"MIT","source":null,"dependencies":[]}]}"#;
        let tree = "ours v0.1.0 (/here)\nlibc v0.2.1\nlibc v0.2.1 (*)\n\n";
        let graph = Graph::join(tree, metadata).unwrap();
        let names: Vec<&str> = graph.crates.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["libc", "ours"]);
    }
}
