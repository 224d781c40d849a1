//! Container images, made without a daemon: an OCI layout in an archive, from a bare Debian tree and our Debian packages.
//!
//! `docker load`, `podman load` and `skopeo copy oci-archive:FILE` read them.

use super::Parts;
use super::archive::{self, Compression};
use super::release::Release;
use super::stage::{FILE, Stage};
use crate::foreign;
use crate::stamp::file_hash;
use crate::step;
use crate::tree::{self, Tree};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A base layer: a bare Debian release, and packages of it.
#[derive(Debug, PartialEq, Eq)]
struct Base {
    release: &'static str,
    packages: &'static [&'static str],
}

/// The base of most images.
const BARE: Base = Base { release: "bookworm", packages: &[] };
/// Debian 13 has HIP 5; MI300X needs HIP 6.
const ROCM: Base = Base { release: "testing", packages: &["libamdhip64-6"] };

/// The user of services in images; it has no name there.
const USER: u32 = 65532;
/// Debian's HIP library in the image for AMD GPUs.
const ROCM_LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/libamdhip64.so.6";
/// What a container does not read: documentation, translations, and the package manager's caches.
const LEFT_OUT: &[&str] = &[
    "usr/share/doc",
    "usr/share/man",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/lintian",
    "usr/lib/systemd",
    "lib/systemd",
    "var/cache",
    "var/log",
    "var/lib/apt/lists",
    "var/lib/dpkg/status-old",
    "var/lib/dpkg/available-old",
    "etc/machine-id",
    "etc/hostname",
    "etc/resolv.conf",
    "etc/hosts",
    "etc/apt/apt.conf.d",
    "dev",
];

/// An image.
struct Image {
    name: &'static str,
    base: &'static Base,
    /// Debian packages of ours whose files it has, with the folder they are put in.
    packages: &'static [(&'static str, &'static str)],
    /// Further files: path in the repository, path in the image.
    files: &'static [(&'static str, &'static str)],
    user: &'static str,
    /// Variables, beside those of all images.
    environment: &'static [&'static str],
    entry: &'static [&'static str],
    command: &'static [&'static str],
    ports: &'static [&'static str],
}

/// The worker for software GPUs; those for real GPUs differ in a few fields.
const WORKER: Image = Image {
    name: "remora-worker",
    base: &BARE,
    packages: &[("remora", "/"), ("libamdhip64-remora", "/"), ("remora-agent", "/")],
    files: &[],
    user: "65532:65532",
    environment: &[],
    entry: &["remora"],
    command: &["worker", "--listen", "127.0.0.1:18515"],
    ports: &["8001/tcp", "18515/tcp"],
};

const IMAGES: &[Image] = &[
    WORKER,
    Image {
        name: "remora-worker-rocm",
        base: &ROCM,
        command: &["worker", "--backend", "hip", "--library", ROCM_LIBRARY, "--listen", "127.0.0.1:18515"],
        ..WORKER
    },
    Image {
        name: "remora-worker-cuda",
        // NVIDIA's container runtime adds the devices and the driver's libraries.
        environment: &["NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=compute,utility"],
        command: &["worker", "--backend", "cuda", "--listen", "127.0.0.1:18515"],
        ..WORKER
    },
    Image {
        name: "remora-board",
        base: &BARE,
        packages: &[("remora", "/"), ("libamdhip64-remora", "/")],
        files: &[],
        user: "65532:65532",
        environment: &[],
        entry: &["remora"],
        command: &["serve", "--data", "/var/lib/remora", "--listen", "127.0.0.1:8080"],
        ports: &["8080/tcp"],
    },
    Image {
        name: "remora-client",
        base: &BARE,
        packages: &[("remora", "/build"), ("libamdhip64-remora", "/build")],
        files: &[],
        user: "65534:65534",
        environment: &[],
        entry: &[],
        command: &["cp", "-r", "/build/.", "/remora"],
        ports: &[],
    },
    Image {
        name: "remora-provider",
        base: &BARE,
        packages: &[("remora-agent", "/build")],
        files: &[("deploy/images/metadata.yaml", "build/metadata.yaml")],
        user: "65534:65534",
        environment: &[],
        entry: &[],
        command: &["cp", "-r", "/build/.", "/run/remora"],
        ports: &[],
    },
];

/// A layer: its compressed archive, and the digest of the archive before compression.
#[derive(Debug)]
struct Layer {
    archive: PathBuf,
    uncompressed: String,
}

/// Builds all images from the Debian packages in the same folder.
pub fn build(parts: &Parts<'_>, into: &Path) -> Result<()> {
    tree::require_root()?;
    let mut bases: Vec<(&Base, Layer)> = Vec::new();
    for image in IMAGES {
        if !bases.iter().any(|(base, _)| *base == image.base) {
            let archive = parts.work.join(format!("base-{}.tar", bases.len()));
            bases.push((image.base, image.base.layer(parts, &archive)?));
        }
        let base = bases.iter().find(|(base, _)| *base == image.base);
        let (_, base) = base.context("an image without a base")?;
        let own = own(parts, image, into)?;
        let path = into.join(format!("{}-{}.oci.tar", image.name, parts.release.version));
        write(parts, image, &[base, &own], &path)?;
        let size = fs::metadata(&path).with_context(|| format!("cannot read {}", path.display()))?.len();
        step::progress(&format!("made {}: {:.1} MB compressed", image.name, size as f64 / 1e6));
    }
    Ok(())
}

impl Base {
    /// The layer, which all images on this base share.
    fn layer(&self, parts: &Parts<'_>, archive: &Path) -> Result<Layer> {
        let tree = Tree::of(parts.repo, self.release, self.packages)?;
        for name in LEFT_OUT {
            let path = tree.root().join(name);
            // Folders stay, empty: programs expect them.
            match fs::symlink_metadata(&path) {
                Ok(found) if found.is_dir() => {
                    foreign::remove(&path)?;
                    fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
                }
                Ok(_) => {
                    fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
                }
                Err(_) => {}
            }
        }
        layer(tree.root(), &parts.release, archive)
    }

    /// How the layer was made, for the image's history.
    fn made_by(&self) -> String {
        let made = format!("debootstrap --variant=minbase {}", self.release);
        match self.packages {
            [] => made,
            packages => format!("{made} && apt-get install {}", packages.join(" ")),
        }
    }
}

/// The layer with our files.
fn own(parts: &Parts<'_>, image: &Image, packages: &Path) -> Result<Layer> {
    let stage = Stage::new(parts.work.join(image.name))?;
    for (package, place) in image.packages {
        let deb = packages.join(format!("{package}_{}_amd64.deb", parts.release.version));
        if !deb.exists() {
            bail!("images are made from the Debian packages; build these too (--only deb)");
        }
        let unpacked = parts.work.join("unpacked");
        foreign::remove(&unpacked)?;
        step::output(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(&unpacked))?;
        match *place {
            "/" => copy(&unpacked, &stage.root)?,
            // Where the folders `bin` and `lib` are copied from.
            place => {
                let place = stage.folder(place.trim_start_matches('/'))?;
                for (from, to) in [("usr/bin", "bin"), ("usr/lib/remora", "lib")] {
                    if unpacked.join(from).exists() {
                        copy(&unpacked.join(from), &place.join(to))?;
                    }
                }
            }
        }
    }
    for (from, to) in image.files {
        stage.file(&parts.repo.root.join(from), to, FILE)?;
    }
    for name in ["usr/share/doc", "usr/share/man", "usr/lib/systemd"] {
        foreign::remove(&stage.root.join(name))?;
    }
    let state = stage.folder("var/lib/remora")?;
    chown(&state, Some(USER), Some(USER)).with_context(|| format!("cannot give {} away", state.display()))?;
    layer(&stage.root, &parts.release, &parts.work.join(format!("{}.tar", image.name)))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    let mut cp = Command::new("cp");
    step::output(cp.args(["--archive", "--no-target-directory"]).arg(from).arg(to)).map(drop)
}

fn layer(folder: &Path, release: &Release, tar: &Path) -> Result<Layer> {
    archive::tar_with_owners(folder, release, tar)?;
    let uncompressed = file_hash(tar)?;
    step::output(Command::new("gzip").args(["-9", "-n", "-f"]).arg(tar))?;
    Ok(Layer { archive: tar.with_extension("tar.gz"), uncompressed })
}

/// Writes the layout: blobs by digest, and the index that names the image.
fn write(parts: &Parts<'_>, image: &Image, layers: &[&Layer], path: &Path) -> Result<()> {
    let stage = Stage::new(parts.work.join("layout"))?;
    let blob = |bytes: &[u8], kind: &str| -> Result<Value> {
        let digest = crate::stamp::hash(bytes);
        stage.bytes(&format!("blobs/sha256/{digest}"), bytes, FILE)?;
        Ok(json!({
            "mediaType": format!("application/vnd.oci.image.{kind}"),
            "digest": format!("sha256:{digest}"),
            "size": bytes.len(),
        }))
    };
    let mut described = Vec::new();
    for layer in layers {
        let bytes =
            fs::read(&layer.archive).with_context(|| format!("cannot read {}", layer.archive.display()))?;
        described.push(blob(&bytes, "layer.v1.tar+gzip")?);
    }
    let configuration = serde_json::to_vec(&configuration(&parts.release, image, layers)?)?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob(&configuration, "config.v1+json")?,
        "layers": described,
    });
    let mut entry = blob(&serde_json::to_vec(&manifest)?, "manifest.v1+json")?;
    entry["annotations"] = json!({
        "org.opencontainers.image.ref.name": parts.release.version,
        "io.containerd.image.name": format!("{}:{}", image.name, parts.release.version),
    });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [entry],
    });
    stage.bytes("index.json", &serde_json::to_vec(&index)?, FILE)?;
    stage.bytes("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#, FILE)?;
    archive::tar(&stage.root, &parts.release, Compression::None, path)
}

fn configuration(release: &Release, image: &Image, layers: &[&Layer]) -> Result<Value> {
    let time = release.timestamp()?;
    let ports: Value = image.ports.iter().map(|port| (port.to_string(), json!({}))).collect();
    let digests: Vec<String> = layers.iter().map(|layer| format!("sha256:{}", layer.uncompressed)).collect();
    let mut environment = vec![
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "XDG_STATE_HOME=/var/lib/remora",
        "XDG_CACHE_HOME=/var/lib/remora",
    ];
    environment.extend(image.environment);
    let mut run = json!({
        "User": image.user,
        "Env": environment,
        "Cmd": image.command,
        "Labels": {
            "org.opencontainers.image.title": image.name,
            "org.opencontainers.image.version": release.version,
            "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
        },
    });
    if !image.entry.is_empty() {
        run["Entrypoint"] = json!(image.entry);
    }
    if !image.ports.is_empty() {
        run["ExposedPorts"] = ports;
    }
    Ok(json!({
        "created": time,
        "architecture": "amd64",
        "os": "linux",
        "config": run,
        "rootfs": { "type": "layers", "diff_ids": digests },
        "history": [
            { "created": time, "created_by": image.base.made_by() },
            { "created": time, "created_by": "cargo xtask dist" },
        ],
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_names_its_layers_by_their_digest_before_compression() {
        let release = Release { version: "0.1.0", time: 0 };
        let layer = Layer { archive: PathBuf::from("x.tar.gz"), uncompressed: "ab".to_owned() };
        let found = configuration(&release, &IMAGES[0], &[&layer]).unwrap();
        assert_eq!(found["rootfs"]["diff_ids"], json!(["sha256:ab"]));
        assert_eq!(found["config"]["Entrypoint"], json!(["remora"]));
        assert_eq!(found["config"]["ExposedPorts"]["18515/tcp"], json!({}));
    }
}
