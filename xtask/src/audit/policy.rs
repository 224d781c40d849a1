//! The policy in `deny.toml`, and the checks of crates against it.

use super::graph::{Crate, Graph};
use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// The supported part of cargo-deny's configuration; any other key is an error.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Policy {
    pub graph: Targets,
    pub advisories: Advisories,
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Targets {
    pub targets: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Advisories {
    pub ignore: Vec<Ignored>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ignored {
    pub id: String,
    #[expect(
        dead_code,
        reason = "for readers only; the field is required so that every exception has a reason"
    )]
    reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Bans {
    multiple_versions: Decision,
    wildcards: Decision,
    allow_wildcard_paths: bool,
    deny: Vec<Named>,
    skip: Vec<Named>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Sources {
    unknown_registry: Decision,
    unknown_git: Decision,
    allow_registry: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Decision {
    Allow,
    Deny,
}

impl Policy {
    pub fn parse(text: &str) -> Result<Policy> {
        Ok(toml::from_str(text)?)
    }

    /// Returns every violation as text.
    pub fn check(&self, graph: &Graph) -> Result<Vec<String>> {
        let mut complaints = self.check_one_by_one(graph)?;
        complaints.extend(self.duplicates(graph));
        Ok(complaints)
    }

    /// Returns violations of single crates: licences, bans, sources.
    pub fn check_one_by_one(&self, graph: &Graph) -> Result<Vec<String>> {
        let mut complaints = Vec::new();
        for one in &graph.crates {
            let found = [self.license(one)?, self.ban(one), self.source(one), self.wildcard(one)];
            complaints.extend(found.into_iter().flatten());
        }
        Ok(complaints)
    }

    fn license(&self, one: &Crate) -> Result<Option<String>> {
        let Some(text) = &one.license else {
            return Ok(Some(format!("{} {} does not declare a licence", one.name, one.version)));
        };
        // Older manifests write `MIT/Apache-2.0`.
        let expression = spdx::Expression::parse_mode(text, spdx::ParseMode::LAX).with_context(|| {
            format!("the licence of {} {} is not an SPDX expression: {text}", one.name, one.version)
        })?;
        let allowed = |wanted: &spdx::LicenseReq| self.licenses.allow.contains(&wanted.to_string());
        Ok((!expression.evaluate(allowed)).then(|| {
            format!("{} {} has the licence {text}, which [licenses] does not allow", one.name, one.version)
        }))
    }

    fn ban(&self, one: &Crate) -> Option<String> {
        let ban = self.bans.deny.iter().find(|ban| ban.name == one.name)?;
        Some(format!("{} {} is banned: {}", one.name, one.version, ban.reason))
    }

    fn source(&self, one: &Crate) -> Option<String> {
        let source = one.source.as_deref()?;
        let refused = match source.split_once('+') {
            Some(("git", _)) => self.sources.unknown_git == Decision::Deny,
            Some(("registry" | "sparse", address)) => {
                self.sources.unknown_registry == Decision::Deny
                    && !self.sources.allow_registry.iter().any(|allowed| allowed == address)
            }
            _ => true,
        };
        refused.then(|| {
            format!("{} {} comes from {source}, which [sources] does not allow", one.name, one.version)
        })
    }

    /// Wildcards are only checked in our own crates: crates.io does not accept them.
    fn wildcard(&self, one: &Crate) -> Option<String> {
        if one.source.is_some() || self.bans.wildcards == Decision::Allow {
            return None;
        }
        let by_path = |path: &Option<String>| self.bans.allow_wildcard_paths && path.is_some();
        let wildcard = one.dependencies.iter().find(|it| it.req == "*" && !by_path(&it.path))?;
        Some(format!("{} accepts any version of {}", one.name, wildcard.name))
    }

    fn duplicates(&self, graph: &Graph) -> Vec<String> {
        if self.bans.multiple_versions == Decision::Allow {
            return Vec::new();
        }
        let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for one in &graph.crates {
            versions.entry(&one.name).or_default().insert(&one.version);
        }
        let is_skipped = |name: &str| self.bans.skip.iter().any(|skip| skip.name == name);
        versions
            .into_iter()
            .filter(|(name, versions)| versions.len() > 1 && !is_skipped(name))
            .map(|(name, versions)| {
                let versions: Vec<&str> = versions.into_iter().collect();
                format!(
                    "{name} is compiled in the versions {}; use one, or list the crate under [bans] skip with the reason",
                    versions.join(" and ")
                )
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::graph::Dependency;
    use super::*;

    fn policy() -> Policy {
        let text = r#"
            [graph]
            targets = ["x86_64-unknown-linux-gnu"]
            [advisories]
            ignore = [{ id = "RUSTSEC-2023-0071", reason = "not compiled" }]
            [licenses]
            allow = ["MIT", "Apache-2.0 WITH LLVM-exception"]
            [bans]
            multiple-versions = "deny"
            wildcards = "deny"
            allow-wildcard-paths = true
            deny = [{ crate = "openssl", reason = "rustls" }]
            skip = [{ crate = "syn", reason = "macros" }]
            [sources]
            unknown-registry = "deny"
            unknown-git = "deny"
            allow-registry = ["https://github.com/rust-lang/crates.io-index"]
        "#;
        Policy::parse(text).unwrap()
    }

    fn published(name: &str, version: &str, license: &str) -> Crate {
        Crate {
            name: name.to_owned(),
            version: version.to_owned(),
            license: Some(license.to_owned()),
            source: Some("registry+https://github.com/rust-lang/crates.io-index".to_owned()),
            dependencies: Vec::new(),
        }
    }

    fn complaints(crates: Vec<Crate>) -> Vec<String> {
        policy().check(&Graph { crates }).unwrap()
    }

    #[test]
    fn a_licence_is_allowed_if_one_of_its_alternatives_is() {
        assert!(complaints(vec![published("a", "1.0.0", "MIT OR GPL-3.0-only")]).is_empty());
        assert!(complaints(vec![published("a", "1.0.0", "Unlicense/MIT")]).is_empty());
        assert!(complaints(vec![published("a", "1.0.0", "Apache-2.0 WITH LLVM-exception")]).is_empty());
        assert_eq!(complaints(vec![published("a", "1.0.0", "MIT AND GPL-3.0-only")]).len(), 1);
        assert_eq!(complaints(vec![published("a", "1.0.0", "Apache-2.0")]).len(), 1);
        assert_eq!(complaints(vec![Crate { license: None, ..published("a", "1.0.0", "") }]).len(), 1);
    }

    #[test]
    fn banned_crates_and_new_duplicates_are_refused() {
        assert_eq!(
            complaints(vec![published("openssl", "0.10.1", "MIT")]),
            ["openssl 0.10.1 is banned: rustls"]
        );
        let twice = |name: &str| vec![published(name, "1.0.0", "MIT"), published(name, "2.0.0", "MIT")];
        assert_eq!(complaints(twice("rand")).len(), 1);
        assert!(complaints(twice("syn")).is_empty());
    }

    #[test]
    fn crates_from_elsewhere_and_any_version_are_refused() {
        let git =
            Crate { source: Some("git+https://example.org/a".to_owned()), ..published("a", "1.0.0", "MIT") };
        assert_eq!(complaints(vec![git]).len(), 1);
        let ours = |path: Option<&str>| Crate {
            source: None,
            dependencies: vec![Dependency {
                name: "b".to_owned(),
                req: "*".to_owned(),
                path: path.map(str::to_owned),
            }],
            ..published("a", "1.0.0", "MIT")
        };
        assert_eq!(complaints(vec![ours(None)]), ["a accepts any version of b"]);
        assert!(complaints(vec![ours(Some("/b"))]).is_empty());
    }

    #[test]
    fn a_misspelt_key_of_the_policy_is_an_error() {
        assert!(Policy::parse("[licences]\nallow = []\n").is_err());
    }
}
