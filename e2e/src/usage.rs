//! Resource usage of a process, read from /proc, for leak tests.

use std::fs;

/// Resource usage of a process at one point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    pub descriptors: usize,
    pub threads: usize,
    /// Number of memory mappings.
    pub mappings: usize,
    pub resident_bytes: u64,
}

impl Usage {
    /// Usage of this process.
    pub fn of_this_process() -> Usage {
        Usage::of(std::process::id())
    }

    pub fn of(pid: u32) -> Usage {
        let folder = format!("/proc/{pid}");
        let entries = |name: &str| {
            fs::read_dir(format!("{folder}/{name}"))
                .unwrap_or_else(|error| panic!("{folder}/{name}: {error}"))
        };
        let text = |name: &str| {
            fs::read_to_string(format!("{folder}/{name}"))
                .unwrap_or_else(|error| panic!("{folder}/{name}: {error}"))
        };
        let status = text("status");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = resident.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        Usage {
            descriptors: entries("fd").count(),
            threads: entries("task").count(),
            mappings: text("maps").lines().count(),
            resident_bytes: kilobytes.expect("a running process has a resident size") << 10,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_file_a_thread_and_touched_memory_show() {
        let before = Usage::of_this_process();
        let file = fs::File::open("/proc/self/status").unwrap();
        let memory = std::hint::black_box(vec![1u8; 32 << 20]);
        let with_both = Usage::of_this_process();
        assert!(with_both.resident_bytes >= before.resident_bytes + (24 << 20), "{before:?} {with_both:?}");
        assert!(with_both.descriptors > 3 && with_both.threads >= 1 && with_both.mappings > 3);
        drop((file, memory));
    }
}
