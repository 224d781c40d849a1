//! An agent's metrics in real receivers from Debian: VictoriaMetrics, InfluxDB and Prometheus.

use super::userland::{Package, Userland};
use crate::build::Built;
use crate::examples::checked;
use crate::repo::Repo;
use crate::step;
use crate::toolchain::Toolchain;
use anyhow::{Context, Result};
use std::fs;
use std::process::Command;

/// Statically linked programs: those of this machine's release run unchanged.
const PACKAGES: &[Package] =
    &[Package::whole("victoria-metrics"), Package::whole("influxdb"), Package::whole("prometheus")];
const RELEASES: &[&str] = &["bookworm"];

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Seconds that the receiver is stopped
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    outage: f64,
}

pub fn run(repo: &Repo, toolchain: &Toolchain, built: &Built, arguments: &Arguments) -> Result<()> {
    let receivers = Userland::unpack_from(repo, "metrics", RELEASES, PACKAGES)?;
    let folder = repo.target.join("metrics");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let (object, program) = (folder.join("busy.o"), folder.join("busy"));
    let mut clang = toolchain.compile_hip(&["gfx942"]);
    clang.arg("-I").arg(repo.root.join("examples/hip"));
    checked(clang.arg("-c").arg(repo.root.join("e2e/programs/busy.hip")).arg("-o").arg(&object))?;
    let mut link = Command::new(&toolchain.clang);
    link.arg(&object).arg("-o").arg(&program).arg("-L").arg(&built.lib);
    checked(link.args(["-l:libamdhip64.so.6", "-pthread"]))?;
    let mut python = Command::new("/usr/bin/python3");
    python.arg(repo.root.join("conformance/metrics/run.py"));
    python.arg("--remora").arg(&built.remora).arg("--lib").arg(&built.lib).arg("--busy").arg(&program);
    python.arg("--victoria").arg(receivers.path("usr/bin/victoria-metrics"));
    python.arg("--influxd").arg(receivers.path("usr/bin/influxd"));
    python.arg("--prometheus").arg(receivers.path("usr/bin/prometheus"));
    python.arg("--page").arg(repo.root.join("docs/metrics.md"));
    python.arg("--outage").arg(arguments.outage.to_string());
    step::run_forwarded("measurements in real receivers", &mut python)
}
