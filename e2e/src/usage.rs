//! What a process holds, read from /proc: what must not grow however often something comes and goes.

use std::fs;

/// What a process holds at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    pub descriptors: usize,
    pub threads: usize,
    /// Ranges of memory that are mapped.
    pub mappings: usize,
    pub resident_bytes: u64,
}

impl Usage {
    /// Of this process.
    pub fn own() -> Usage {
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
            resident_bytes: kilobytes.expect("a process that runs has memory") << 10,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_file_a_thread_and_touched_memory_show() {
        let before = Usage::own();
        let file = fs::File::open("/proc/self/status").unwrap();
        let memory = std::hint::black_box(vec![1u8; 32 << 20]);
        let with_both = Usage::own();
        assert!(with_both.resident_bytes >= before.resident_bytes + (24 << 20), "{before:?} {with_both:?}");
        assert!(with_both.descriptors > 3 && with_both.threads >= 1 && with_both.mappings > 3);
        drop((file, memory));
    }
}
