//! Parses the file names of the libraries that Remora replaces.

/// A library of HIP's runtime or of its run-time compiler, as described by its file name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    pub kind: Kind,
    /// The number after `.so.`; wheels often remove it.
    pub version: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// libamdhip64
    Runtime,
    /// libhiprtc
    Compiler,
}

/// Parses the last component of a path: `libamdhip64.so`, `libamdhip64.so.6`, `libamdhip64.so.6.4.43482`, or
/// `libamdhip64-1a2b3c4d.so.6` as renamed by auditwheel.
pub fn parse(path: &[u8]) -> Option<Name> {
    let file = file_name(path);
    let (kind, rest) = match file.strip_prefix(b"libamdhip64") {
        Some(rest) => (Kind::Runtime, rest),
        None => (Kind::Compiler, file.strip_prefix(b"libhiprtc")?),
    };
    let rest = match rest.strip_prefix(b"-") {
        Some(hash) => {
            let digits = hash.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
            if digits == 0 {
                return None;
            }
            hash.get(digits..)?
        }
        None => rest,
    };
    let rest = rest.strip_prefix(b".so")?;
    if rest.is_empty() {
        return Some(Name { kind, version: None });
    }
    Some(Name { kind, version: Some(number(rest.strip_prefix(b".")?)?) })
}

/// Returns the part after the last `/`.
pub fn file_name(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => path.get(slash + 1..).unwrap_or_default(),
        None => path,
    }
}

/// Parses the decimal number at the start, up to a dot or the end.
pub fn number(text: &[u8]) -> Option<u32> {
    let digits = text.split(|byte| *byte == b'.').next()?;
    if digits.is_empty() || digits.len() > 4 {
        return None;
    }
    let mut value = 0u32;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value * 10 + u32::from(digit - b'0');
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_runtime_and_the_compiler_are_parsed_however_they_were_packaged() {
        let runtime = |version| Some(Name { kind: Kind::Runtime, version });
        assert_eq!(parse(b"libamdhip64.so.6"), runtime(Some(6)));
        assert_eq!(parse(b"/site-packages/torch/lib/libamdhip64.so"), runtime(None));
        assert_eq!(parse(b"/opt/rocm/lib/libamdhip64.so.7.0.51831"), runtime(Some(7)));
        assert_eq!(parse(b"libamdhip64-1a2b3c4d.so.6.4.43482"), runtime(Some(6)));
        assert_eq!(parse(b"x/libhiprtc.so.6"), Some(Name { kind: Kind::Compiler, version: Some(6) }));
    }

    #[test]
    fn other_libraries_are_left_alone() {
        let others: [&[u8]; 9] = [
            b"libc.so.6",
            b"libhiprtc-builtins.so.6",
            b"libamdhip64.a",
            b"libamdhip64_other.so",
            b"libamdhip64.so.x",
            b"libamdhip64-.so",
            b"libamdhip64.so.6/other",
            b"libamdhip64.so.123456789012",
            b"",
        ];
        for other in others {
            assert_eq!(parse(other), None, "{}", String::from_utf8_lossy(other));
        }
    }
}
