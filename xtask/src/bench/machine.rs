//! A description of the machine that the numbers were measured on.

use super::affinity;
use std::fs;

#[derive(Debug, Clone)]
pub struct Machine {
    pub processor: String,
    pub cores: usize,
    pub kernel: String,
    /// Whether the CPU has AVX-512, which the aims of the emulator assume.
    pub wide_vectors: bool,
    /// The load average of the last minute, before the run.
    pub load: f64,
}

impl Machine {
    pub fn detect() -> Machine {
        let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Machine {
            processor: processor_name(&processors),
            cores: affinity::processors(),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            wide_vectors: has_flag(&processors, "avx512f"),
            load: load(),
        }
    }
}

/// The load average of the last minute.
pub fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

/// Virtual machines hide the name; family and model still identify the CPU.
fn processor_name(text: &str) -> String {
    let name = field(text, "model name").unwrap_or("unknown processor");
    match (field(text, "cpu family"), field(text, "model")) {
        (Some(family), Some(model)) => format!("{name}, family {family} model {model}"),
        _ => name.to_owned(),
    }
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
}

fn has_flag(text: &str, flag: &str) -> bool {
    field(text, "flags").is_some_and(|flags| flags.split_whitespace().any(|found| found == flag))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "processor\t: 0\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: Some Processor\n\
                        flags\t\t: fpu avx avx512f avx512bw\n";

    #[test]
    fn the_processor_is_named_by_name_family_and_model() {
        assert_eq!(processor_name(TEXT), "Some Processor, family 6 model 143");
        assert_eq!(processor_name(""), "unknown processor");
    }

    #[test]
    fn flags_are_whole_words() {
        assert!(has_flag(TEXT, "avx512f"));
        assert!(!has_flag(TEXT, "avx512"));
    }
}
