//! The third-party code in the packages: crates that are compiled into programs and libraries, and npm packages in the pages.

use crate::audit::graph::compiled;
use crate::repo::Repo;
use crate::step;
use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// The packages whose dependencies are shipped.
const ROOTS: &[&str] = &["remora", "hip-client", "provider", "loader-audit", "pyflame"];
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Everything that is shipped.
#[derive(Debug, Default)]
pub struct Shipped {
    /// In order of name and version, without the crates of this repository.
    pub components: Vec<Component>,
}

/// A crate or npm package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    pub kind: Registry,
    pub name: String,
    pub version: String,
    /// An SPDX expression.
    pub licence: Option<String>,
    /// SHA-256 of the crate's archive.
    pub sha256: Option<String>,
    /// The folder of its source, if it is on this machine.
    pub folder: Option<PathBuf>,
    /// Identifiers of its dependencies.
    pub uses: Vec<String>,
}

/// Where a component is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Registry {
    Cargo,
    Npm,
}

impl Component {
    /// The package URL, which identifies it.
    pub fn url(&self) -> String {
        url(self.kind, &self.name, &self.version)
    }
}

fn url(kind: Registry, name: &str, version: &str) -> String {
    let kind = match kind {
        Registry::Cargo => "cargo",
        Registry::Npm => "npm",
    };
    // The only special character in names is the @ of npm's scopes, in versions the + of build metadata.
    format!("pkg:{kind}/{}@{}", name.replace('@', "%40"), version.replace('+', "%2B"))
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
    manifest_path: PathBuf,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<EdgeKind>,
}

#[derive(Deserialize)]
struct EdgeKind {
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    checksum: Option<String>,
}

#[derive(Deserialize)]
struct NpmLock {
    packages: BTreeMap<String, NpmPackage>,
}

#[derive(Deserialize)]
struct NpmPackage {
    version: Option<String>,
    license: Option<String>,
    #[serde(default)]
    dev: bool,
}

impl Shipped {
    /// What is in the packages for Linux.
    pub fn read(repo: &Repo) -> Result<Shipped> {
        let mut components = compiled_crates(repo, ROOTS, TARGET)?;
        components.extend(npm(&read(repo, "board/ui/package-lock.json")?)?);
        Ok(Shipped::sorted(components))
    }

    /// What is in the programs and libraries of some packages for another target.
    pub fn of(repo: &Repo, roots: &[&str], target: &str) -> Result<Shipped> {
        compiled_crates(repo, roots, target).map(Shipped::sorted)
    }

    fn sorted(mut components: Vec<Component>) -> Shipped {
        components.sort_by(|a, b| (a.kind, &a.name, &a.version).cmp(&(b.kind, &b.name, &b.version)));
        Shipped { components }
    }
}

/// The crates that are compiled into some packages.
fn compiled_crates(repo: &Repo, roots: &[&str], target: &str) -> Result<Vec<Component>> {
    let mut cargo = repo.cargo();
    cargo.args(["metadata", "--locked", "--format-version", "1", "--filter-platform", target]);
    let metadata = step::output(&mut cargo)?;
    let mut tree = repo.cargo();
    tree.args(["tree", "--locked", "--edges", "normal", "--prefix", "none", "--format", "{p}"]);
    tree.args(["--target", target]).args(roots.iter().flat_map(|root| ["--package", root]));
    crates(&metadata, &step::output(&mut tree)?, &read(repo, "Cargo.lock")?)
}

fn read(repo: &Repo, path: &str) -> Result<String> {
    let path = repo.root.join(path);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// The crates in the output of `cargo tree`, described by `cargo metadata`, which also lists crates that no feature enables.
fn crates(metadata: &str, tree: &str, lock: &str) -> Result<Vec<Component>> {
    let metadata: Metadata =
        serde_json::from_str(metadata).context("cannot parse the output of cargo metadata")?;
    let lock: Lock = toml::from_str(lock).context("cannot parse Cargo.lock")?;
    let sums: BTreeMap<(&str, &str), &String> = lock
        .package
        .iter()
        .filter_map(|it| Some(((it.name.as_str(), it.version.as_str()), it.checksum.as_ref()?)))
        .collect();
    let compiled = compiled(tree);
    let shipped: BTreeMap<&str, &Package> = metadata
        .packages
        .iter()
        .filter(|it| it.source.is_some() && compiled.contains(&(it.name.as_str(), it.version.as_str())))
        .map(|it| (it.id.as_str(), it))
        .collect();
    let edges: BTreeMap<&str, &Vec<Edge>> =
        metadata.resolve.nodes.iter().map(|node| (node.id.as_str(), &node.deps)).collect();
    let component = |package: &&Package| {
        let edges = edges.get(package.id.as_str()).into_iter().flat_map(|edges| edges.iter());
        let normal = edges.filter(|edge| edge.dep_kinds.iter().any(|kind| kind.kind.is_none()));
        let mut uses: Vec<String> = normal
            .filter_map(|edge| shipped.get(edge.pkg.as_str()))
            .map(|it| url(Registry::Cargo, &it.name, &it.version))
            .collect();
        uses.sort();
        uses.dedup();
        Component {
            kind: Registry::Cargo,
            name: package.name.clone(),
            version: package.version.clone(),
            // The form that manifests had before SPDX expressions.
            licence: package.license.as_ref().map(|text| text.replace('/', " OR ").replace("  ", " ")),
            sha256: sums.get(&(package.name.as_str(), package.version.as_str())).map(|sum| sum.to_string()),
            folder: package.manifest_path.parent().map(PathBuf::from),
            uses,
        }
    };
    Ok(shipped.values().map(component).collect())
}

/// The npm packages that the pages are made from.
fn npm(lock: &str) -> Result<Vec<Component>> {
    let lock: NpmLock = serde_json::from_str(lock).context("cannot parse package-lock.json")?;
    let component = |(path, package): (String, NpmPackage)| {
        let (_, name) = path.rsplit_once("node_modules/")?;
        Some(Component {
            kind: Registry::Npm,
            name: name.to_owned(),
            version: package.version?,
            licence: package.license,
            sha256: None,
            folder: None,
            uses: Vec::new(),
        })
    };
    Ok(lock.packages.into_iter().filter(|(_, package)| !package.dev).filter_map(component).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_are_those_that_are_compiled_into_something_shipped() {
        let package = |name: &str, source: &str| {
            format!(
                r#"{{"id":"{name}","name":"{name}","version":"1.0.0","license":"MIT/Apache-2.0","source":{source},"manifest_path":"/r/{name}/Cargo.toml"}}"#
            )
        };
        let metadata = format!(
            r#"{{"packages":[{},{},{},{}],"resolve":{{"nodes":[{{"id":"a","deps":[
            {{"pkg":"b","dep_kinds":[{{"kind":null}}]}},{{"pkg":"t","dep_kinds":[{{"kind":"dev"}}]}}]}}]}}}}"#,
            package("remora", "null"),
            package("a", "\"registry\""),
            package("b", "\"registry\""),
            package("t", "\"registry\"")
        );
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"ab\"\n";
        let found = crates(&metadata, "remora v1.0.0 (/x)\na v1.0.0\nb v1.0.0 (*)\n", lock).unwrap();
        let names: Vec<&str> = found.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(found[0].uses, ["pkg:cargo/b@1.0.0"]);
        assert_eq!(found[0].sha256.as_deref(), Some("ab"));
        assert_eq!(found[0].licence.as_deref(), Some("MIT OR Apache-2.0"));
    }

    #[test]
    fn npm_packages_of_the_build_alone_are_not_shipped() {
        let lock = r#"{"packages":{"":{"version":"1"},"node_modules/@s/a":{"version":"2.0.0","license":"MIT"},
            "node_modules/vite":{"version":"3.0.0","dev":true}}}"#;
        let found = npm(lock).unwrap();
        assert_eq!(found.iter().map(Component::url).collect::<Vec<_>>(), ["pkg:npm/%40s/a@2.0.0"]);
    }
}
