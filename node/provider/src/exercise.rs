//! Entry points for fuzzing: arbitrary bytes as kernel files and as responses of an agent.

use crate::address::PciAddress;
use crate::agent;
use crate::kfd::Properties;
use crate::partition::{ComputeMode, MemoryMode, Template};

/// Parses arbitrary bytes as a response of an agent.
pub fn answer(bytes: &[u8]) {
    if let Some((_, reason)) = agent::read_answer(bytes) {
        assert!(reason.chars().count() <= 500 && !reason.contains('\n'));
    }
}

/// Parses arbitrary bytes as properties and as each small text format. Must not panic, and results must stay within their limits.
pub fn properties(bytes: &[u8]) {
    let properties = Properties::parse(bytes);
    for name in ["simd_count", "location_id", "unique_id"] {
        assert!(properties.sane(name, 1 << 20) < 1 << 20);
    }
    let text = String::from_utf8_lossy(bytes);
    for line in text.lines().take(64) {
        if let Some(address) = PciAddress::parse(line) {
            assert_eq!(PciAddress::parse(&address.to_string()), Some(address));
        }
        let _ = (ComputeMode::parse(line), MemoryMode::parse(line), Template::parse_id(line));
    }
}
