//! LUPINE, which forwards calls of CUDA's driver library over TCP: the native programs through it, beside ours.
//!
//! Its folder has `lupine_driver_server`, `client/libcuda.so.1`, and `lib` with libraries that the machine may lack. The client's
//! library is in a folder of its own, because the server needs the driver's.

use super::copies::{DIRECTIONS, MEMORY, speeds};
use super::launches::middle;
use super::site::{OURS, Site, time, times};
use crate::bench::program::BenchProcess;
use crate::bench::report::{Aim, Report, Row};
use crate::bench::sample::Pair;
use crate::step;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const GROUP: &str = "beside LUPINE, both over loopback TCP; reference: LUPINE; ratio = ours / LUPINE's";
const MICRO: f64 = 1e6;
const THEIRS: &str = "LUPINE's program";

/// Launches in one measurement, and launches with a wait.
const LAUNCHES: u64 = 400;
const WAITS: u64 = 100;
const ROUNDS: u64 = 9;
const COPIES: u64 = 4;
const BYTES: u64 = 256 << 20;

const START_LIMIT: Duration = Duration::from_secs(10);

pub fn measure(site: &Site, report: &mut Report, failures: &mut Vec<String>) -> Result<()> {
    let Some(folder) = site.lupine() else {
        step::progress("left out: no folder is given by --lupine");
        return Ok(());
    };
    let server = Server::start(folder, &site.log("lupine-server"))?;
    let worker = site.worker("lupine", &[])?;
    let mut ours = site.ours("calls", &worker.address().to_string(), &[])?;
    let variables = [
        ("LD_LIBRARY_PATH", search_path(&[&folder.join("client"), &folder.join("lib")])),
        ("LUPINE_SERVER", server.address.to_string().into()),
    ];
    let mut theirs = site.forwarded("calls", &variables)?.context("there are no native programs")?;
    launches(&mut ours, &mut theirs, report)?;
    for memory in MEMORY {
        for (direction, name) in DIRECTIONS {
            let command = format!("copy {direction} {memory} {BYTES}");
            if let Err(error) = copies(&mut ours, &mut theirs, &command, (direction, memory, name), report) {
                failures.push(format!("LUPINE: {command}: {error:#}"));
            }
        }
    }
    Ok(())
}

fn launches(ours: &mut BenchProcess, theirs: &mut BenchProcess, report: &mut Report) -> Result<()> {
    let (wait, post, all) =
        (format!("launch_wait {WAITS}"), format!("launch {LAUNCHES}"), format!("launch_all {LAUNCHES}"));
    // The first launches load the kernel.
    times(ours, OURS, &wait)?;
    times(theirs, THEIRS, &wait)?;
    let (mut waiting, mut posting, mut together) = (Pair::default(), Pair::default(), Pair::default());
    for _ in 0..ROUNDS {
        waiting.push(middle(&times(ours, OURS, &wait)?), middle(&times(theirs, THEIRS, &wait)?));
        let each = LAUNCHES as f64;
        posting.push(time(ours, OURS, &post)? / each, time(theirs, THEIRS, &post)? / each);
        together.push(time(ours, OURS, &all)? / each, time(theirs, THEIRS, &all)? / each);
    }
    for (key, name, pair) in [
        ("lupine_launch_wait", "launch and wait", waiting),
        ("lupine_launch", "launch, time in the program", posting),
        ("lupine_launch_all", "one of 400 launches with one wait at the end", together),
    ] {
        let row = Row::plain(GROUP, key, name, "us").compared(&pair, MICRO);
        report.push(Row { aim: Some(Aim::AtMost(1.0)), ..row });
    }
    Ok(())
}

fn copies(
    ours: &mut BenchProcess,
    theirs: &mut BenchProcess,
    command: &str,
    (direction, memory, name): (&str, &str, &str),
    report: &mut Report,
) -> Result<()> {
    // Touches the buffers of both.
    time(ours, OURS, command)?;
    time(theirs, THEIRS, command)?;
    let mut pair = Pair::default();
    for _ in 0..COPIES {
        pair.push(time(ours, OURS, command)?, time(theirs, THEIRS, command)?);
    }
    let name = format!("{name}, 256 MiB, {memory}");
    let row = Row::plain(GROUP, format!("lupine_{direction}_{memory}"), name, "GB/s");
    report.push(Row { aim: Some(Aim::AtLeast(1.0)), ..speeds(row, BYTES, &pair) });
    Ok(())
}

/// A running server; killed on drop.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(folder: &Path, log: &Path) -> Result<Server> {
        // It takes no free port by itself: another process may take this one in between, which the next line would find out.
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let program = folder.join("lupine_driver_server");
        let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new(&program);
        command.env("LUPINE_PORT", address.port().to_string());
        command.env("LD_LIBRARY_PATH", search_path(&[&folder.join("lib")]));
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let mut server = Server { child, address };
        let started = Instant::now();
        while TcpStream::connect(address).is_err() {
            if let Some(status) = server.child.try_wait()? {
                bail!("LUPINE's server ended with {status}; its log is {}", log.display());
            }
            if started.elapsed() > START_LIMIT {
                bail!("LUPINE's server does not listen; its log is {}", log.display());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn search_path(folders: &[&Path]) -> OsString {
    let mut text = OsString::new();
    for folder in folders {
        if !text.is_empty() {
            text.push(":");
        }
        text.push(folder);
    }
    text
}
