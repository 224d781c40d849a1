//! Host folders to mount into containers: ROCm, from AMD's packages or from TheRock's archives.
//!
//! Disabled by default. Nearly all containers include ROCm and would break if the host's replaced it. The mounts therefore use a separate
//! path, where containers without ROCm can find it.

use std::path::Path;

use crate::tree::Tree;

/// A host folder and its path in the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub host: String,
    pub guest: String,
}

const GUEST: &str = "/usr/local/rocm";
const FOLDERS: [&str; 2] = ["lib", "bin"];

/// Returns the folders of the ROCm at `stated`, or else at `/opt/rocm`, or else of the newest `/opt/rocm-<version>`.
pub fn find(tree: &Tree, stated: Option<&Path>) -> Vec<Mount> {
    let versions = tree.names("opt").into_iter().filter_map(|name| {
        let version = name.strip_prefix("rocm-")?;
        let numbers: Vec<u32> = version.split(['.', '-']).map_while(|part| part.parse().ok()).collect();
        (!numbers.is_empty()).then(|| (numbers, format!("/opt/{name}")))
    });
    let mut versions: Vec<(Vec<u32>, String)> = versions.collect();
    versions.sort_unstable();
    let stated = stated.and_then(Path::to_str).map(|path| path.trim_end_matches('/').to_owned());
    let newest = versions.into_iter().rev().map(|(_, path)| path);
    let mut prefixes = stated.into_iter().chain(["/opt/rocm".to_owned()]).chain(newest);
    let Some(prefix) = prefixes.find(|prefix| tree.is_folder(format!("{prefix}/lib"))) else {
        return Vec::new();
    };
    let present = FOLDERS.iter().filter(|folder| tree.is_folder(format!("{prefix}/{folder}")));
    present
        .map(|folder| Mount { host: format!("{prefix}/{folder}"), guest: format!("{GUEST}/{folder}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn mount(prefix: &str, folder: &str) -> Mount {
        Mount { host: format!("{prefix}/{folder}"), guest: format!("/usr/local/rocm/{folder}") }
    }

    #[test]
    fn the_newest_rocm_is_found_wherever_it_was_unpacked() {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::new(root.path());
        let make = |path: &str| fs::create_dir_all(root.path().join(path)).unwrap();
        assert!(find(&tree, None).is_empty());
        make("opt/rocm-7.9.0/lib");
        make("opt/rocm-7.10.0/lib");
        make("opt/rocm-7.10.0/bin");
        make("opt/rocm-notes/lib");
        assert_eq!(find(&tree, None), [mount("/opt/rocm-7.10.0", "lib"), mount("/opt/rocm-7.10.0", "bin")]);
        symlink("rocm-7.9.0", root.path().join("opt/rocm")).unwrap();
        assert_eq!(find(&tree, None), [mount("/opt/rocm", "lib")]);
        make("srv/rocm/lib");
        assert_eq!(find(&tree, Some(Path::new("/srv/rocm/"))), [mount("/srv/rocm", "lib")]);
        assert_eq!(find(&tree, Some(Path::new("/srv/none"))), [mount("/opt/rocm", "lib")]);
    }
}
