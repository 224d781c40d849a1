//! Large copies over TCP and a Unix socket, beside raw TCP with as many connections and native copies.

use super::site::{NATIVE, OURS, Site, time};
use crate::bench::peer::Peer;
use crate::bench::program::BenchProcess;
use crate::bench::report::{Aim, Report, Row};
use crate::bench::sample::{Pair, Sample};
use anyhow::{Result, bail};

const GROUP: &str = "copies of 256 MiB; ratio = speed / speed of the reference";

/// The two directions: the program's word for it, and a description.
pub const DIRECTIONS: [(&str, &str); 2] = [("up", "host to device"), ("down", "device to host")];
/// The kinds of host memory.
pub const MEMORY: [&str; 2] = ["pageable", "pinned"];

/// Connections of the copies over TCP that are measured: the default on a near worker, and several.
const LINKS: [usize; 2] = [1, 4];

pub fn measure(site: &Site, report: &mut Report, failures: &mut Vec<String>) -> Result<()> {
    let socket = std::env::temp_dir().join(format!("remora-gpu-bench-{}.sock", std::process::id()));
    let unix = format!("unix:{}", socket.display());
    let worker = site.worker("copies", &["--listen", &unix])?;
    let tcp = worker.address().to_string();
    let mut native = site.native("calls")?;
    let bench = Bench { bytes: site.sized(256 << 20, 1 << 20), rounds: site.sized(5, 1) };
    let mut attempt = |name: String, result: Result<()>| {
        if let Err(error) = result {
            failures.push(format!("{name}: {error:#}"));
        }
    };
    for links in LINKS {
        let result = bench.over_tcp(site, &tcp, links, report);
        attempt(format!("copies over {links} TCP connections"), result);
    }
    let result = bench.over_unix(site, &unix, native.as_mut(), report);
    attempt("copies over a Unix socket".to_owned(), result);
    if let Some(native) = &mut native {
        attempt("native copies".to_owned(), bench.natively(native, report));
    }
    drop(worker);
    let _ = std::fs::remove_file(socket);
    Ok(())
}

struct Bench {
    bytes: u64,
    rounds: u64,
}

impl Bench {
    fn command(&self, direction: &str, memory: &str) -> String {
        format!("copy {direction} {memory} {}", self.bytes)
    }

    fn over_tcp(&self, site: &Site, worker: &str, links: usize, report: &mut Report) -> Result<()> {
        let mut ours = site.ours("calls", worker, &[("REMORA_LINKS", &links.to_string())])?;
        let mut peers = (0..links).map(|_| Peer::start()).collect::<Result<Vec<_>>>()?;
        for memory in MEMORY {
            for (direction, name) in DIRECTIONS {
                let command = self.command(direction, memory);
                // Touches the buffers of both.
                time(&mut ours, OURS, &command)?;
                raw(&mut peers, direction, self.bytes)?;
                let mut pair = Pair::default();
                for _ in 0..self.rounds {
                    let reference = raw(&mut peers, direction, self.bytes)?;
                    pair.push(time(&mut ours, OURS, &command)?, reference);
                }
                let name = format!("{name}, {memory}, TCP x{links} (reference: raw TCP x{links})");
                let row = self.row(format!("{direction}_{memory}_tcp{links}"), name, &pair);
                report.push(Row { aim: site.is_real().then_some(Aim::AtLeast(0.9)), ..row });
            }
        }
        Ok(())
    }

    fn over_unix(
        &self,
        site: &Site,
        worker: &str,
        mut native: Option<&mut BenchProcess>,
        report: &mut Report,
    ) -> Result<()> {
        let mut ours = site.ours("calls", worker, &[])?;
        for memory in MEMORY {
            for (direction, name) in DIRECTIONS {
                let command = self.command(direction, memory);
                let pageable = self.command(direction, "pageable");
                time(&mut ours, OURS, &command)?;
                let mut pair = Pair::default();
                for _ in 0..self.rounds {
                    let reference = match &mut native {
                        Some(native) => time(native, NATIVE, &pageable)?,
                        None => f64::NAN,
                    };
                    pair.push(time(&mut ours, OURS, &command)?, reference);
                }
                let name = format!("{name}, {memory}, Unix socket (reference: native pageable)");
                let row = self.row(format!("{direction}_{memory}_unix"), name, &pair);
                report.push(match native.is_some() {
                    true => Row { aim: Some(Aim::AtLeast(1.0)), ..row },
                    false => Row { reference: None, ratio: None, best_ratio: None, ..row },
                });
            }
        }
        Ok(())
    }

    fn natively(&self, native: &mut BenchProcess, report: &mut Report) -> Result<()> {
        for memory in MEMORY {
            for (direction, name) in DIRECTIONS {
                let command = self.command(direction, memory);
                time(native, NATIVE, &command)?;
                let mut sample = Sample::default();
                for _ in 0..self.rounds {
                    sample.push(time(native, NATIVE, &command)?);
                }
                report.push(Row {
                    best: self.speed(sample.best()),
                    median: self.speed(sample.median()),
                    ..Row::plain(
                        GROUP,
                        format!("{direction}_{memory}_native"),
                        format!("{name}, {memory}, native"),
                        "GB/s",
                    )
                });
            }
        }
        Ok(())
    }

    fn speed(&self, seconds: f64) -> f64 {
        speed(self.bytes, seconds)
    }

    fn row(&self, key: String, name: String, pair: &Pair) -> Row {
        speeds(Row::plain(GROUP, key, name, "GB/s"), self.bytes, pair)
    }
}

fn speed(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 / seconds * 1e-9
}

/// Sets a row's speeds. The pair holds times of copies of `bytes`.
pub fn speeds(row: Row, bytes: u64, pair: &Pair) -> Row {
    Row {
        best: speed(bytes, pair.ours.best()),
        median: speed(bytes, pair.ours.median()),
        reference: Some(speed(bytes, pair.reference.best())),
        ratio: Some(1.0 / pair.ratio()),
        best_ratio: Some(1.0 / pair.best_ratio()),
        ..row
    }
}

/// Seconds until `bytes` have crossed raw TCP connections, an equal part each.
fn raw(peers: &mut [Peer], direction: &str, bytes: u64) -> Result<f64> {
    let each = bytes / peers.len() as u64;
    std::thread::scope(|scope| {
        let running: Vec<_> = peers
            .iter_mut()
            .map(|peer| {
                scope.spawn(move || match direction {
                    "up" => peer.upload(each, 1),
                    _ => peer.download(each, 1),
                })
            })
            .collect();
        let mut longest: f64 = 0.0;
        for thread in running {
            match thread.join() {
                Ok(seconds) => longest = longest.max(seconds?),
                Err(_) => bail!("a thread of the raw TCP measurement panicked"),
            }
        }
        Ok(longest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_takes_twice_as_long_as_its_reference_has_the_ratio_one_half() {
        let bench = Bench { bytes: 4_000_000_000, rounds: 1 };
        let mut pair = Pair::default();
        pair.push(2.0, 1.0);
        let row = bench.row("key".to_owned(), "name".to_owned(), &pair);
        assert_eq!((row.best, row.reference, row.ratio), (2.0, Some(4.0), Some(0.5)));
    }
}
