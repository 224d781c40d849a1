//! Limits set through the provider library: files that the agent reads when it starts a worker.
//!
//! `<folder>/<worker>/<device>` holds lines `memory_bytes N` and `compute_percent N`; the worker name `@all` applies to all workers. Such a
//! limit only lowers the allocated share.

use std::io::Read;
use std::path::Path;

use crate::reservation::Share;

/// Most bytes read of such a file.
const FILE_LIMIT: u64 = 4096;

/// Returns a worker's share of a device, lowered to the limits set under any of the worker's names.
pub(crate) fn apply(folder: &Path, names: &[&str], device: &str, share: Share) -> Share {
    let mut share = share;
    for name in names.iter().chain(&["@all"]) {
        if name.contains('/') || device.contains('/') {
            continue;
        }
        let mut text = String::new();
        let read = std::fs::File::open(folder.join(name).join(device))
            .and_then(|file| file.take(FILE_LIMIT).read_to_string(&mut text));
        if read.is_err() {
            continue;
        }
        for line in text.lines() {
            match line.split_once(' ').map(|(key, value)| (key, value.trim())) {
                Some(("memory_bytes", value)) => {
                    let limit = value.parse().ok().filter(|limit| *limit >= 4096);
                    share.memory_limit_bytes = share.memory_limit_bytes.min(limit.unwrap_or(u64::MAX));
                }
                Some(("compute_percent", value)) => {
                    let limit = value.parse().ok().filter(|limit| *limit > 0.0);
                    share.compute_limit_percent = share.compute_limit_percent.min(limit.unwrap_or(100.0));
                }
                _ => {}
            }
        }
    }
    share.memory_request_bytes = share.memory_request_bytes.min(share.memory_limit_bytes);
    share.compute_request_percent = share.compute_request_percent.min(share.compute_limit_percent);
    share
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_reduce_a_share_and_invalid_ones_change_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let limit = |worker: &str, text: &str| {
            std::fs::create_dir_all(folder.path().join(worker)).unwrap();
            std::fs::write(folder.path().join(worker).join("gpu"), text).unwrap();
        };
        let share = Share {
            memory_request_bytes: 1 << 30,
            memory_limit_bytes: 1 << 30,
            compute_request_percent: 50.0,
            compute_limit_percent: 50.0,
        };
        let apply = |names: &[&str]| apply(folder.path(), names, "gpu", share);
        assert_eq!(apply(&["w1"]), share);
        limit("w1", "memory_bytes 1048576\ncompute_percent 20\n");
        let less = apply(&["w1"]);
        assert_eq!((less.memory_limit_bytes, less.memory_request_bytes), (1 << 20, 1 << 20));
        assert_eq!((less.compute_limit_percent, less.compute_request_percent), (20.0, 20.0));
        assert_eq!(apply(&["w2", "../w1"]), share);
        limit("@all", "compute_percent 90\nmemory_bytes -5\nwhat\n\u{0}");
        assert_eq!(apply(&["w2"]), share);
    }
}
