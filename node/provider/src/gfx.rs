//! Properties that follow from the GPU architecture alone: its gfx name, and the operations of a compute unit per clock.

/// Dense half-precision operations per compute unit and clock, by `gfx_target_version`: `(first, last, operations)`. A fused multiply-add
/// counts as two. The figures are those of the matrix units, if the architecture has them.
const OPERATIONS: &[(u32, u32, u32)] = &[
    (90000, 90006, 256),
    (90008, 90008, 1024),
    (90010, 90010, 1024),
    (90400, 90402, 2048),
    (90500, 90500, 4096),
    (100100, 100399, 256),
    (110000, 119999, 512),
    (120000, 129999, 1024),
];

/// Converts KFD's `gfx_target_version` (90402) to the compiler's name (`gfx942`); `None` for zero.
pub fn name(target: u32) -> Option<String> {
    let (major, minor, stepping) = (target / 10000, target / 100 % 100, target % 100);
    (major > 0).then(|| format!("gfx{major}{minor:x}{stepping:x}"))
}

/// Converts the digits of the gfx name, as AMD SMI reports them (0x942), to KFD's `gfx_target_version`.
pub fn from_digits(digits: u64) -> Option<u32> {
    let major: u32 = format!("{:x}", digits >> 8).parse().ok()?;
    let minor = (digits >> 4 & 0xf) as u32;
    (0 < major && major < 1000).then(|| major * 10000 + minor * 100 + (digits & 0xf) as u32)
}

/// Returns the half-precision peak in TFLOPS. Zero for an architecture that is not in the table, rather than a guess.
pub fn tflops(target: u32, compute_units: u64, clock_mhz: u64) -> f64 {
    let found = OPERATIONS.iter().find(|(first, last, _)| (*first..=*last).contains(&target));
    let operations = found.map_or(0, |(_, _, operations)| *operations);
    f64::from(operations) * compute_units as f64 * clock_mhz as f64 * 1e6 / 1e12
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_have_the_names_compilers_use() {
        for (target, expected) in
            [(90402, "gfx942"), (90010, "gfx90a"), (100300, "gfx1030"), (120001, "gfx1201")]
        {
            assert_eq!(name(target).as_deref(), Some(expected));
            let digits = u64::from_str_radix(&expected[3..], 16).unwrap();
            assert_eq!(from_digits(digits), Some(target));
        }
        assert_eq!(name(0), None);
        assert_eq!(from_digits(0), None);
        assert_eq!(from_digits(u64::MAX), None);
    }

    /// Compares with AMD's data sheets: dense FP16 in TFLOPS.
    #[test]
    fn the_formula_gives_what_data_sheets_say() {
        let sheets = [
            (90402, 304, 2100, 1307.4), // MI300X
            (90402, 228, 2100, 980.6),  // MI300A
            (90010, 104, 1700, 181.0),  // MI210
            (90010, 110, 1700, 191.5),  // half of an MI250X
            (90008, 120, 1502, 184.6),  // MI100
            (90500, 256, 2400, 2516.6), // MI355X
            (110000, 96, 2500, 122.9),  // RX 7900 XTX
        ];
        for (target, units, clock, expected) in sheets {
            let computed = tflops(target, units, clock);
            assert!((computed - expected).abs() < 0.5, "{target}: {computed}, not {expected}");
        }
        assert_eq!(tflops(70000, 64, 1000), 0.0);
    }
}
