//! What the environment says about the software GPU. Nothing else in this crate reads it.

use emulator::Compilation;

/// `REMORA_NATIVE`: `0` never makes native code of kernels, `1` makes it at once, and anything else when it is worth it.
pub(crate) fn compilation() -> Compilation {
    parse(std::env::var("REMORA_NATIVE").ok().as_deref())
}

fn parse(value: Option<&str>) -> Compilation {
    match value {
        Some("0") => Compilation::Never,
        Some("1") => Compilation::After(0),
        _ => Compilation::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn native_code_can_be_switched_off_and_forced() {
        assert_eq!(parse(Some("0")), Compilation::Never);
        assert_eq!(parse(Some("1")), Compilation::After(0));
        assert_eq!(parse(None), Compilation::default());
        assert_eq!(parse(Some("")), Compilation::default());
    }
}
