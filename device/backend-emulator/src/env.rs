//! Environment variables of the software GPU. No other file of this crate reads the environment.

use emulator::{Compilation, Level};

/// `REMORA_NATIVE`: `0` disables native code generation for kernels; a number `n` compiles a piece of code when it is entered for the
/// `n`th time; anything else uses the default heuristic.
pub(crate) fn compilation() -> Compilation {
    parse(std::env::var("REMORA_NATIVE").ok().as_deref())
}

/// `REMORA_LEVEL`: limits the CPU instruction set that is used. `v3` allows AVX2 but not AVX-512, `base` allows neither; anything else
/// uses the best that this CPU supports.
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
