//! The program `endures`: work of five kinds in rounds, and a digest of every result.

use crate::Ended;

/// The kinds of work.
pub const KINDS: [&str; 5] = ["solver", "training", "graphs", "managed", "streams"];

/// The digest that the program printed.
#[track_caller]
pub fn digest(ended: &Ended) -> String {
    let line = ended.stdout.lines().find_map(|line| line.strip_prefix("digest "));
    line.unwrap_or_else(|| panic!("no digest: {ended:?}")).to_owned()
}
