//! The time from a submission to its verdict on the board, with a warm cache of headers, and the effect of idle connections.

use super::Extent;
use super::machine::Machine;
use super::report::{Aim, Report, Row};
use super::sample::{Pair, Sample};
use crate::build::Built;
use crate::local_server::LocalServer;
use crate::repo::Repo;
use crate::step;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

const PROBLEM: &str = "leaky-relu";
/// Endpoints, and the last status of a correct solution.
const ENDPOINTS: &[(&str, &str)] = &[("checker", "CHECKED"), ("full", "BENCHMARKED")];
const SHAPES: &[&str] = &["kernel", "host"];
/// Connections that have sent a part of a request.
const HALF_OPEN: usize = 200;
/// The longest median time to a verdict, in ms.
const VERDICT_MS: f64 = 1000.0;

/// Measures submissions to a board on a software GPU.
pub fn measure(repo: &Repo, built: &Built, extent: Extent) -> Result<Report> {
    step::heading("measuring submissions to a board");
    let data = repo.target.join("bench-board");
    crate::foreign::remove(&data)?;
    let mut serve = Command::new(&built.remora);
    serve.args(["serve", "--ready", "--listen", "127.0.0.1:0", "--device", "mi300x"]);
    serve.args(["--per-minute", "1000000", "--per-day", "1000000", "--data"]).arg(&data);
    let server = LocalServer::start(serve, "the board", &repo.logs().join("bench-board.log"))?;
    let board = Board { built, server, folder: data.join("sources"), bench: repo.root.join("bench/board") };
    fs::create_dir_all(&board.folder).with_context(|| format!("cannot create {}", board.folder.display()))?;
    let mut report = Report::new(Machine::detect());
    let mut number = 0;
    for shape in SHAPES {
        for (endpoint, status) in ENDPOINTS {
            number += 1;
            // The first submission of a kind precompiles headers.
            board.submit(shape, endpoint, status, number)?;
            let mut sample = Sample::default();
            let mut beside = Pair::default();
            for _ in 0..extent.rounds {
                number += 2;
                let alone = board.submit(shape, endpoint, status, number)?;
                sample.push(alone);
                let idle = board.open_halves()?;
                beside.push(board.submit(shape, endpoint, status, number + 1)?, alone);
                drop(idle);
            }
            let verdict = Row::plain(
                "board",
                format!("verdict_{shape}_{endpoint}"),
                format!("new source to verdict, {shape}, {endpoint} (median)"),
                "ms",
            );
            let median = sample.median() * 1e3;
            // The aim applies to the median.
            report.push(Row { best: median, median, aim: Some(Aim::AtMost(VERDICT_MS)), ..verdict });
            let halves = Row::plain(
                "board",
                format!("half_open_{shape}_{endpoint}"),
                format!("the same with {HALF_OPEN} half-open connections"),
                "ms",
            );
            report.push(Row { aim: Some(Aim::AtMost(1.2)), ..halves.compared(&beside, 1e3) });
        }
    }
    report.close();
    Ok(report)
}

struct Board<'a> {
    built: &'a Built,
    server: LocalServer,
    /// Folder of submitted sources.
    folder: PathBuf,
    /// Folder of their originals.
    bench: PathBuf,
}

impl Board<'_> {
    /// Submits a solution as a source that the board has not seen, and waits for the verdict. Returns the time in seconds.
    fn submit(&self, shape: &str, endpoint: &str, status: &str, number: u32) -> Result<f64> {
        let original = self.bench.join(format!("{shape}.hip"));
        let text =
            fs::read_to_string(&original).with_context(|| format!("cannot read {}", original.display()))?;
        let source = self.folder.join(format!("{number}.hip"));
        // The judge compiles no source twice, not even in later runs.
        let unique =
            SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?.as_nanos();
        fs::write(&source, format!("{text}// {unique}\n"))
            .with_context(|| format!("cannot write {}", source.display()))?;
        let started = Instant::now();
        let mut submit = Command::new(&self.built.remora);
        submit.args(["submit", "--json", "--problem", PROBLEM, "--endpoint", endpoint, "--server"]);
        submit.arg(format!("http://{}", self.server.address())).arg(&source);
        let said = step::output(&mut submit)?;
        let seconds = started.elapsed().as_secs_f64();
        let last = said.lines().last().unwrap_or_default();
        ensure!(last.contains(&format!("\"{status}\"")), "the verdict is not {status}: {last}");
        Ok(seconds)
    }

    /// Opens connections that begin a request and never end it. They close when dropped.
    fn open_halves(&self) -> Result<Vec<TcpStream>> {
        let open = |_| -> Result<TcpStream> {
            let mut stream =
                TcpStream::connect(self.server.address()).context("cannot connect to the board")?;
            stream
                .write_all(b"POST /api/submissions HTTP/1.1\r\nHost: ")
                .context("cannot write to the board")?;
            Ok(stream)
        };
        (0..HALF_OPEN).map(open).collect()
    }
}
