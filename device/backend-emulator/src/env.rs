//! What the environment says about the software GPU. Nothing else in this crate reads it.

use emulator::{Compilation, Level};

/// `REMORA_NATIVE`: `0` never makes native code of kernels, a number does when a piece is entered for that many times, and anything
/// else when it is worth it.
pub(crate) fn compilation() -> Compilation {
    parse(std::env::var("REMORA_NATIVE").ok().as_deref())
}

/// `REMORA_LEVEL`: keeps to the instructions of lesser processors than this one. `v3` stands for AVX2 without AVX-512, `base` for
/// neither; anything else is the best there is.
pub(crate) fn level() -> Option<Level> {
    parse_level(std::env::var("REMORA_LEVEL").ok().as_deref())
}

fn parse_level(value: Option<&str>) -> Option<Level> {
    match value {
        Some("base") => Some(Level::Base),
        Some("v3") => Some(Level::V3),
        _ => None,
    }
}

fn parse(value: Option<&str>) -> Compilation {
    match value.and_then(|value| value.parse::<u32>().ok()) {
        Some(0) => Compilation::Never,
        Some(entry) => Compilation::After(entry - 1),
        None => Compilation::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lesser_processor_can_be_asked_for() {
        assert_eq!(parse_level(Some("v3")), Some(Level::V3));
        assert_eq!(parse_level(Some("base")), Some(Level::Base));
        assert_eq!(parse_level(Some("v4")), None);
        assert_eq!(parse_level(None), None);
    }

    #[test]
    fn native_code_can_be_switched_off_and_forced() {
        assert_eq!(parse(Some("0")), Compilation::Never);
        assert_eq!(parse(Some("1")), Compilation::After(0));
        assert_eq!(parse(Some("50")), Compilation::After(49));
        assert_eq!(parse(Some("-1")), Compilation::default());
        assert_eq!(parse(None), Compilation::default());
        assert_eq!(parse(Some("")), Compilation::default());
    }
}
