//! Trials of the OCI images: unpacked as a runtime does, and run as their configuration says.

use super::debs::passes;
use super::{Bench, PROGRAM};
use crate::dist;
use crate::stamp;
use crate::tree::Tree;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// The largest software worker, compressed.
const LARGEST: u64 = 60_000_000;

/// Runs a program on the software worker's image, as its user and with its environment.
pub fn worker(bench: &Bench<'_>) -> Result<String> {
    let (image, tree) = open(bench, "remora-worker")?;
    let size = fs::metadata(&image.archive)?.len();
    if size > LARGEST {
        bail!("it has {size} bytes; the limit is {LARGEST}");
    }
    let program = tree.put(&bench.program)?;
    // Its own command first: it must say that it listens.
    let entry = words(&image.configuration["config"]["Entrypoint"])?;
    let line = image.line()?.join(" ");
    let script = format!(
        "{line} --ready >/tmp/worker 2>&1 & \
         for _ in $(seq 100); do grep -q 'listening on' /tmp/worker && break; sleep 0.1; done; \
         cat /tmp/worker; {} devices",
        entry.join(" ")
    );
    let text = tree.run(&as_words(&image.as_user(&["sh", "-c", &script])?))?;
    if !text.contains("gfx942") {
        bail!("its worker does not answer:\n{text}");
    }
    passes(&tree, &as_words(&image.as_user(&["remora", "run", "--", &program])?))?;
    Ok(format!("{:.1} MB compressed; its worker answers, {PROGRAM} passes in it", size as f64 / 1e6))
}

/// Runs the command of a worker's image on a machine without its kind of GPU: everything up to the driver must work.
pub fn without_gpu(bench: &Bench<'_>, name: &str, expected: &[&str]) -> Result<String> {
    let (image, tree) = open(bench, name)?;
    let text = match tree.run(&as_words(&image.as_user(&as_words(&image.line()?))?)) {
        Ok(text) => bail!("its worker runs without a GPU:\n{text}"),
        Err(error) => format!("{error:#}"),
    };
    if let Some(missing) = expected.iter().find(|part| !text.contains(**part)) {
        bail!("its worker does not say \"{missing}\":\n{text}");
    }
    Ok(format!("{:.1} MB compressed; without a GPU, its worker says so", megabytes(&image.archive)?))
}

/// Runs the board's image, and reads a page from it.
pub fn board(bench: &Bench<'_>) -> Result<String> {
    let (image, tree) = open(bench, "remora-board")?;
    // Any free port instead of the usual one.
    let line = image.line()?.join(" ").replace("127.0.0.1:8080", "127.0.0.1:0");
    let script = format!(
        "{line} >/tmp/board 2>&1 & \
         for _ in $(seq 200); do grep -q 'http://127' /tmp/board && break; sleep 0.1; done; cat /tmp/board; \
         port=$(sed -n 's|.*http://127.0.0.1:\\([0-9]*\\).*|\\1|p' /tmp/board | head -1); \
         exec 3<>/dev/tcp/127.0.0.1/$port; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"
    );
    let text = tree.run(&as_words(&image.as_user(&["bash", "-c", &script])?))?;
    if !text.contains("200 OK") || !text.contains("<html") {
        bail!("its board does not answer:\n{text}");
    }
    Ok(format!("{:.1} MB compressed; its board serves its pages", megabytes(&image.archive)?))
}

/// Runs the command of an image that copies files to a volume.
pub fn copied(bench: &Bench<'_>, name: &str, volume: &str, expected: &str) -> Result<String> {
    let (image, tree) = open(bench, name)?;
    let folder = tree.root().join(volume.trim_start_matches('/'));
    fs::create_dir_all(&folder)?;
    std::os::unix::fs::chown(&folder, Some(65534), Some(65534))?;
    let command = words(&image.configuration["config"]["Cmd"])?;
    tree.run(&as_words(&image.as_user(&as_words(&command))?))?;
    let file = folder.join(expected);
    if !file.is_file() {
        bail!("its command did not copy {expected} to {volume}");
    }
    Ok(format!("{:.1} MB compressed; its command copies its files", megabytes(&image.archive)?))
}

/// An image with its configuration.
struct Image {
    archive: PathBuf,
    configuration: Value,
}

impl Image {
    /// The command that a runtime starts.
    fn line(&self) -> Result<Vec<String>> {
        let configuration = &self.configuration["config"];
        Ok([words(&configuration["Entrypoint"])?, words(&configuration["Cmd"])?].concat())
    }

    /// A command line that becomes the image's user, with its environment.
    fn as_user(&self, command: &[&str]) -> Result<Vec<String>> {
        let user = self.configuration["config"]["User"].as_str().context("it has no user")?;
        let (user, group) = user.split_once(':').context("its user has no group")?;
        let mut line = vec!["setpriv".to_owned(), format!("--reuid={user}"), format!("--regid={group}")];
        line.extend(["--clear-groups".to_owned(), "--no-new-privs".to_owned(), "env".to_owned()]);
        line.extend(words(&self.configuration["config"]["Env"])?);
        line.extend(command.iter().map(|word| word.to_string()));
        Ok(line)
    }
}

/// Unpacks an image's layers into a tree, after checking every digest.
fn open(bench: &Bench<'_>, name: &str) -> Result<(Image, Tree)> {
    let archive = dist::image(&bench.packages, name)?;
    let layout = Tree::empty(&bench.repo.downloads.join(format!("trees/layout.{}", std::process::id())))?;
    layout.unpack(&archive)?;
    let json = |path: &Path| -> Result<Value> {
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_slice(&bytes).with_context(|| format!("cannot parse {}", path.display()))
    };
    let blob = |entry: &Value| -> Result<PathBuf> {
        let digest = entry["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:"));
        let digest = digest.context("an entry has no digest")?;
        let path = layout.root().join("blobs/sha256").join(digest);
        if stamp::file_hash(&path)? != digest || entry["size"].as_u64() != Some(fs::metadata(&path)?.len()) {
            bail!("blob {digest} has other contents");
        }
        Ok(path)
    };
    let index = json(&layout.root().join("index.json"))?;
    let manifest = json(&blob(&index["manifests"][0])?)?;
    let configuration = json(&blob(&manifest["config"])?)?;
    let root = bench.repo.downloads.join(format!("trees/image.{}", std::process::id()));
    let tree = Tree::empty(&root)?;
    let layers = manifest["layers"].as_array().context("the manifest has no layers")?;
    for layer in layers {
        tree.unpack(&blob(layer)?)?;
    }
    for folder in ["proc", "sys", "dev", "tmp"] {
        fs::create_dir_all(tree.root().join(folder))?;
    }
    Ok((Image { archive, configuration }, tree))
}

fn megabytes(path: &Path) -> Result<f64> {
    let data = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(data.len() as f64 / 1e6)
}

fn words(value: &Value) -> Result<Vec<String>> {
    let list = value.as_array().context("the configuration has no such list")?;
    list.iter().map(|word| word.as_str().map(str::to_owned).context("not a word")).collect()
}

fn as_words(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}
