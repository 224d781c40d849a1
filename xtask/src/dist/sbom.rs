//! The bill of materials: the third-party components of the packages, in CycloneDX's format.

use super::Parts;
use super::crates::{Component, Shipped};
use super::release::Release;
use crate::stamp::Inputs;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Writes `remora-VERSION.cdx.json`.
pub fn write(parts: &Parts<'_>, folder: &Path) -> Result<()> {
    let path = folder.join(format!("remora-{}.cdx.json", parts.release.version));
    let text = serde_json::to_string_pretty(&document(&parts.release, &parts.shipped)?)?;
    fs::write(&path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
}

fn document(release: &Release, shipped: &Shipped) -> Result<Value> {
    let ours = format!("pkg:generic/remora@{}", release.version);
    let components: Vec<Value> = shipped.components.iter().map(component).collect();
    let urls: Vec<String> = shipped.components.iter().map(Component::url).collect();
    let mut edges = vec![json!({ "ref": ours, "dependsOn": urls })];
    edges.extend(shipped.components.iter().map(|it| json!({ "ref": it.url(), "dependsOn": it.uses })));
    Ok(json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": serial(&ours, &urls),
        "version": 1,
        "metadata": {
            "timestamp": release.timestamp()?,
            "component": {
                "type": "application",
                "bom-ref": ours,
                "name": "remora",
                "version": release.version,
                "licenses": [{ "expression": "MIT OR Apache-2.0" }],
                "purl": ours,
            },
        },
        "components": components,
        "dependencies": edges,
    }))
}

fn component(it: &Component) -> Value {
    let mut value = json!({
        "type": "library",
        "bom-ref": it.url(),
        "name": it.name,
        "version": it.version,
        "purl": it.url(),
        "scope": "required",
    });
    if let Some(licence) = &it.licence {
        value["licenses"] = json!([{ "expression": licence }]);
    }
    if let Some(sum) = &it.sha256 {
        value["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
    }
    value
}

/// A UUID that depends on the contents alone.
fn serial(ours: &str, urls: &[String]) -> String {
    let hash = urls.iter().fold(Inputs::new().text(ours), |inputs, url| inputs.text(url)).finish();
    // Version 8 (free contents), variant 8.
    format!(
        "urn:uuid:{}-{}-8{}-8{}-{}",
        &hash[..8],
        &hash[8..12],
        &hash[13..16],
        &hash[17..20],
        &hash[20..32]
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::crates::Registry;

    #[test]
    fn every_edge_leads_to_a_listed_component() {
        let one = |name: &str, uses: &[&str]| Component {
            kind: Registry::Cargo,
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            licence: Some("MIT".to_owned()),
            sha256: None,
            folder: None,
            uses: uses.iter().map(|it| it.to_string()).collect(),
        };
        let shipped = Shipped { components: vec![one("a", &["pkg:cargo/b@1.0.0"]), one("b", &[])] };
        let release = Release { version: "0.1.0", time: 0 };
        let bom = document(&release, &shipped).unwrap();
        let refs: Vec<&str> =
            bom["components"].as_array().unwrap().iter().map(|it| it["bom-ref"].as_str().unwrap()).collect();
        for edge in bom["dependencies"].as_array().unwrap() {
            for used in edge["dependsOn"].as_array().unwrap() {
                assert!(refs.contains(&used.as_str().unwrap()), "{used}");
            }
        }
        let serial = bom["serialNumber"].as_str().unwrap();
        assert_eq!(serial.len(), "urn:uuid:".len() + 36, "{serial}");
        assert_eq!(document(&release, &shipped).unwrap(), bom);
    }
}
