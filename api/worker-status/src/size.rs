//! Sizes in bytes, as options and token files have them.

/// Parses a size: `16G`, `512M`, `1024K` or plain bytes.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("\"{text}\" is not a size; expected for example 16G");
    let digits = text.trim_end_matches(['i', 'B', 'b']);
    let (number, shift) = match digits.chars().last() {
        Some('k' | 'K') => (&digits[..digits.len() - 1], 10),
        Some('m' | 'M') => (&digits[..digits.len() - 1], 20),
        Some('g' | 'G') => (&digits[..digits.len() - 1], 30),
        Some('t' | 'T') => (&digits[..digits.len() - 1], 40),
        _ => (digits, 0),
    };
    let number: u64 = number.trim().parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).filter(|bytes| *bytes > 0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_and_are_never_zero() {
        assert_eq!(parse_bytes("16G"), Ok(16 << 30));
        assert_eq!(parse_bytes("512MiB"), Ok(512 << 20));
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert!(
            parse_bytes("0").is_err() && parse_bytes("many").is_err() && parse_bytes("99999999T").is_err()
        );
    }
}
