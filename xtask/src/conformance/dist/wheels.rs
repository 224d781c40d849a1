//! Trials of the wheels.

use super::Bench;
use super::debs::passes;
use crate::dist;
use crate::step;
use crate::system;
use crate::tree::Tree;
use crate::venv;
use anyhow::{Context, Result, bail};
use std::fs;
use std::process::Command;
use std::time::Instant;

/// Multiplies matrices on a software GPU with nothing but the wheels: a kernel that pyflame has compiled, since there is no compiler.
const PRODUCT: &str =
    "import pyflame as pf; x = pf.tensor([[1.0, 2.0], [3.0, 4.0]], device='rocm'); print((x @ x).tolist())";

/// Packages of the training, in the versions of pyflame's tests.
const FOR_TRAINING: &[&str] = &["numpy", "scikit-learn"];

/// Installs both wheels into an environment of the release's Python, without a package index; with `is_new`, also runs a program of
/// the examples.
pub fn install_and_use(bench: &Bench<'_>, release: &str, is_new: bool) -> Result<String> {
    let tree = tree(bench, release)?;
    let remora = tree.put(&dist::wheel(&bench.packages, "remora")?)?;
    let pyflame = tree.put(&dist::wheel(&bench.packages, "pyflame")?)?;
    let version = tree.run(&["python3", "--version"])?;
    tree.run(&["python3", "-m", "venv", "/trial/v"])?;
    let python = "/trial/v/bin/python";
    let started = Instant::now();
    let extra = format!("pyflame[gpu] @ file://{pyflame}");
    tree.run(&[python, "-m", "pip", "install", "--no-index", "--find-links", "/trial", &extra])?;
    let time = step::seconds(started.elapsed());
    // The extra has brought the other wheel.
    if !tree.run(&[python, "-m", "remora", "--version"])?.starts_with("remora ") {
        bail!("`python -m remora --version` does not name the program ({remora})");
    }
    tree.run(&["/trial/v/bin/remora", "try"])?;
    if is_new {
        let program = tree.put(&bench.program)?;
        passes(&tree, &["/trial/v/bin/remora", "run", "--", &program])?;
    }
    let text = tree.run(&[python, "-c", PRODUCT])?;
    if text.trim() != "[[7.0, 10.0], [15.0, 22.0]]" {
        bail!("pyflame computed {} on the software GPU", text.trim());
    }
    Ok(format!("{}: pip installed both in {time}; a tensor is on a software GPU", version.trim()))
}

fn tree(bench: &Bench<'_>, release: &str) -> Result<Tree> {
    Tree::of(bench.repo, release, &["python3", "python3-venv"])
}

/// Trains the example of digits on a software GPU with nothing but the wheels and the packages that the example imports.
pub fn train(bench: &Bench<'_>) -> Result<String> {
    // The release whose Python is the one that downloads the packages.
    let tree = tree(bench, system::CODENAME)?;
    let requirements = bench.repo.root.join("tensor/python/requirements.txt");
    let requirements = fs::read_to_string(&requirements)
        .with_context(|| format!("cannot read {}", requirements.display()))?;
    let is_wanted = |line: &&str| FOR_TRAINING.iter().any(|name| line.starts_with(&format!("{name}==")));
    let python = venv::with(bench.repo, "venv-dist", "conformance/dist/requirements.txt")?;
    let mut download = Command::new(python);
    download.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]);
    download.arg("--dest").arg(tree.root().join("trial")).args(requirements.lines().filter(is_wanted));
    step::output(&mut download)?;
    for package in ["remora", "pyflame"] {
        tree.put(&dist::wheel(&bench.packages, package)?)?;
    }
    let example = tree.put(&bench.repo.root.join("examples/pyflame/digits.py"))?;
    tree.run(&["python3", "-m", "venv", "/trial/v"])?;
    let python = "/trial/v/bin/python";
    let mut install =
        vec![python, "-m", "pip", "install", "--no-index", "--find-links", "/trial", "pyflame[gpu]"];
    install.extend(FOR_TRAINING);
    tree.run(&install)?;
    // What the machine of a user without a compiler lacks, the tree must lack too.
    tree.run(&["sh", "-c", "! command -v clang && ! command -v cc && ! ls /opt/rocm 2>/dev/null"])?;
    let text = tree.run(&[python, &example, "--quiet", "--model", "mlp", "--devices", "cpu", "rocm"])?;
    // Without a warning about the missing compiler.
    let found: Vec<&str> = text.lines().filter(|line| line.starts_with("mlp")).collect();
    Ok(found.join("; "))
}

/// Checks of the wheels by the package index's own tools.
pub fn audit(bench: &Bench<'_>) -> Result<String> {
    let python = venv::with(bench.repo, "venv-dist", "conformance/dist/requirements.txt")?;
    let wheels = [dist::wheel(&bench.packages, "remora")?, dist::wheel(&bench.packages, "pyflame")?];
    let module = |name: &str| {
        let mut command = Command::new(&python);
        command.args(["-m", name]);
        command
    };
    step::output(module("twine").args(["check", "--strict"]).args(&wheels))?;
    for wheel in &wheels {
        let text = step::output(module("auditwheel").arg("show").arg(wheel))?;
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let Some((_, rest)) = flat.split_once("consistent with the following platform tag: \"") else {
            bail!("auditwheel does not name a platform tag:\n{text}");
        };
        let tag = rest.split('"').next().unwrap_or_default();
        // The tag in the file's name must be true.
        if !wheel.to_string_lossy().contains(tag) {
            bail!("auditwheel says {tag} of {}:\n{text}", wheel.display());
        }
    }
    step::output(module("abi3audit").args(["--strict"]).arg(&wheels[1]))?;
    Ok("twine, auditwheel and abi3audit have no complaints".to_owned())
}

const VALIDATE: &str = "
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
with open(sys.argv[1]) as file:
    problem = JsonStrictValidator(SchemaVersion.V1_5).validate_str(file.read())
sys.exit(str(problem) if problem else 0)
";

/// The bill of materials against CycloneDX's schema.
pub fn bill_of_materials(bench: &Bench<'_>) -> Result<String> {
    let python = venv::with(bench.repo, "venv-dist", "conformance/dist/requirements.txt")?;
    let bill = dist::only(&bench.packages, ".cdx.json")?;
    step::output(Command::new(python).args(["-c", VALIDATE]).arg(&bill))?;
    Ok("valid CycloneDX 1.5".to_owned())
}
