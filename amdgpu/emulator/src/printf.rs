//! Device `printf` formatting: applies a C format string to arguments passed as 64-bit words.
//!
//! Format strings come from the kernel and are not trusted: widths and precisions are capped, `%n` writes nothing, and missing
//! arguments read as zero. Single numbers are rendered by the C library, whose exact digits programs expect.

use std::ffi::CString;

/// Source of arguments, in the order of the conversions.
pub(crate) trait Arguments {
    /// The bits of the next integer, pointer or double.
    fn word(&mut self) -> u64;
    /// The next string.
    fn string(&mut self) -> Vec<u8>;
}

/// Maximum width and precision; larger values are reduced to it.
const WIDEST: i64 = 4096;
/// Maximum length of the output of one call, and so of one conversion.
const LONGEST: usize = 1 << 20;

/// Renders `format` with `arguments`.
pub(crate) fn render(format: &[u8], arguments: &mut dyn Arguments) -> Vec<u8> {
    let mut out = Vec::with_capacity(format.len() + 32);
    let mut rest = format;
    while let Some(percent) = rest.iter().position(|byte| *byte == b'%') {
        out.extend_from_slice(&rest[..percent]);
        rest = &rest[percent + 1..];
        let before = rest;
        match Conversion::parse(&mut rest, arguments) {
            Some(conversion) => conversion.render(arguments, &mut out),
            // Not a conversion: keep the text.
            None => {
                out.push(b'%');
                rest = before;
            }
        }
        if out.len() > LONGEST {
            out.truncate(LONGEST);
            return out;
        }
    }
    out.extend_from_slice(rest);
    out
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Char,
    Short,
    Int,
    Long,
}

#[derive(Debug)]
struct Conversion {
    flags: String,
    width: Option<i64>,
    precision: Option<i64>,
    length: Length,
    kind: u8,
}

impl Conversion {
    /// Parses what follows a percent sign. Takes the value of `*` from the arguments.
    fn parse(rest: &mut &[u8], arguments: &mut dyn Arguments) -> Option<Conversion> {
        let mut flags = String::new();
        while let Some(flag) = rest.first().filter(|byte| b"-+ #0".contains(byte)) {
            if !flags.contains(char::from(*flag)) {
                flags.push(char::from(*flag));
            }
            *rest = &rest[1..];
        }
        let mut width = number(rest, arguments);
        if let Some(negative) = width.filter(|width| *width < 0) {
            flags.push('-');
            width = Some(-negative);
        }
        let mut precision = None;
        if rest.first() == Some(&b'.') {
            *rest = &rest[1..];
            // A bare point means precision zero; a negative precision means none.
            precision = Some(number(rest, arguments).unwrap_or(0)).filter(|precision| *precision >= 0);
        }
        // OpenCL vector lengths do not occur in this format, only C length modifiers.
        let mut length = Length::Int;
        while let Some(letter) = rest.first().filter(|byte| b"hljztLq".contains(byte)) {
            length = match (letter, length) {
                (b'h', Length::Short) => Length::Char,
                (b'h', _) => Length::Short,
                _ => Length::Long,
            };
            *rest = &rest[1..];
        }
        let kind = *rest.first()?;
        if !b"diouxXcsfFeEgGaApn%".contains(&kind) {
            return None;
        }
        *rest = &rest[1..];
        Some(Conversion {
            flags,
            width: width.map(|width| width.min(WIDEST)),
            precision: precision.map(|precision| precision.min(WIDEST)),
            length,
            kind,
        })
    }

    fn render(&self, arguments: &mut dyn Arguments, out: &mut Vec<u8>) {
        match self.kind {
            b'%' => out.push(b'%'),
            b'n' => {
                arguments.word();
            }
            b's' => {
                let mut text = arguments.string();
                if let Some(precision) = self.precision {
                    text.truncate(precision as usize);
                }
                self.pad(&text, out);
            }
            b'c' => {
                let byte = arguments.word() as u8;
                self.pad(&[byte], out);
            }
            b'd' | b'i' => {
                let word = arguments.word();
                let value = match self.length {
                    Length::Char => i64::from(word as i8),
                    Length::Short => i64::from(word as i16),
                    Length::Int => i64::from(word as i32),
                    Length::Long => word as i64,
                };
                // SAFETY: the format has one `ll` integer conversion, for which a 64-bit integer is passed.
                out.extend(
                    self.print("ll", |format, to, size| unsafe { libc::snprintf(to, size, format, value) }),
                );
            }
            b'o' | b'u' | b'x' | b'X' => {
                let word = arguments.word();
                let value = match self.length {
                    Length::Char => u64::from(word as u8),
                    Length::Short => u64::from(word as u16),
                    Length::Int => u64::from(word as u32),
                    Length::Long => word,
                };
                // SAFETY: the format has one `ll` integer conversion, for which a 64-bit integer is passed.
                out.extend(
                    self.print("ll", |format, to, size| unsafe { libc::snprintf(to, size, format, value) }),
                );
            }
            b'p' => {
                let text = format!("{:#x}", arguments.word());
                let text = if text == "0x0" { "(nil)".to_owned() } else { text };
                self.pad(text.as_bytes(), out);
            }
            _ => {
                let value = f64::from_bits(arguments.word());
                // SAFETY: the format has one floating-point conversion, for which a double is passed.
                out.extend(
                    self.print("", |format, to, size| unsafe { libc::snprintf(to, size, format, value) }),
                );
            }
        }
    }

    fn pad(&self, text: &[u8], out: &mut Vec<u8>) {
        let missing = (self.width.unwrap_or(0) as usize).saturating_sub(text.len());
        if self.flags.contains('-') {
            out.extend_from_slice(text);
            out.resize(out.len() + missing, b' ');
        } else {
            out.resize(out.len() + missing, b' ');
            out.extend_from_slice(text);
        }
    }

    /// Renders one number with the C library's `snprintf`.
    fn print(
        &self,
        length: &str,
        snprintf: impl Fn(*const libc::c_char, *mut libc::c_char, usize) -> libc::c_int,
    ) -> Vec<u8> {
        let mut format = format!("%{}", self.flags);
        if let Some(width) = self.width {
            format += &width.to_string();
        }
        if let Some(precision) = self.precision {
            format += &format!(".{precision}");
        }
        format += length;
        format.push(char::from(self.kind));
        let format = CString::new(format).unwrap_or_default();
        let mut out = vec![0u8; 512];
        let needed = snprintf(format.as_ptr(), out.as_mut_ptr().cast(), out.len());
        let needed = usize::try_from(needed).unwrap_or(0);
        if needed >= out.len() {
            out.resize(needed + 1, 0);
            snprintf(format.as_ptr(), out.as_mut_ptr().cast(), out.len());
        }
        out.truncate(needed);
        out
    }
}

/// Parses a decimal number or `*`.
fn number(rest: &mut &[u8], arguments: &mut dyn Arguments) -> Option<i64> {
    if rest.first() == Some(&b'*') {
        *rest = &rest[1..];
        return Some(i64::from(arguments.word() as i32));
    }
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let value =
        rest[..digits].iter().fold(0i64, |value, digit| (value * 10 + i64::from(digit - b'0')).min(WIDEST));
    *rest = &rest[digits..];
    (digits > 0).then_some(value)
}

/// Arguments packed into words. Strings are inline, terminated by a zero byte and padded to a word.
#[derive(Debug)]
pub(crate) struct Words<'a> {
    pub words: &'a [u64],
}

impl Words<'_> {
    fn text(&mut self) -> Vec<u8> {
        let mut text = Vec::new();
        while let Some((word, rest)) = self.words.split_first() {
            self.words = rest;
            for byte in word.to_le_bytes() {
                if byte == 0 {
                    return text;
                }
                text.push(byte);
            }
        }
        text
    }
}

impl Arguments for Words<'_> {
    fn word(&mut self) -> u64 {
        let Some((word, rest)) = self.words.split_first() else { return 0 };
        self.words = rest;
        *word
    }

    fn string(&mut self) -> Vec<u8> {
        self.text()
    }
}

/// Renders a message whose first string is the format.
pub fn render_message(words: &[u64]) -> Vec<u8> {
    let mut arguments = Words { words };
    let format = arguments.text();
    render(&format, &mut arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Vec<u64> {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
    }

    fn printed(format: &str, arguments: &[&[u64]]) -> String {
        let words: Vec<u64> = text(format).into_iter().chain(arguments.concat()).collect();
        String::from_utf8(render_message(&words)).unwrap()
    }

    #[test]
    fn conversions_render_as_c_does() {
        assert_eq!(printed("plain %% text\n", &[]), "plain % text\n");
        assert_eq!(printed("%d|%5d|%-5d|%05d|%+d", &[&[!0, 42, 42, 42, 42]]), "-1|   42|42   |00042|+42");
        assert_eq!(printed("%u %x %X %#x %o", &[&[!0, 255, 255, 255, 8]]), "4294967295 ff FF 0xff 10");
        assert_eq!(printed("%ld %lld %hhd %hu", &[&[!0, !0, 0x180, 0x1_0001]]), "-1 -1 -128 1");
        let f = |v: f64| v.to_bits();
        assert_eq!(
            printed("%f %5.3f %e %g", &[&[f(1.5), f(2.34567), f(12345.678), f(0.0001)]]),
            "1.500000 2.346 1.234568e+04 0.0001"
        );
        assert_eq!(printed("%a %G", &[&[f(1.0), f(1e20)]]), "0x1p+0 1E+20");
        assert_eq!(
            printed("[%10s|%-10s|%.2s]", &[&text("ab"), &text("ab"), &text("abc")]),
            "[        ab|ab        |ab]"
        );
        assert_eq!(printed("%c%c %p", &[&[104, 105, 0xdead]]), "hi 0xdead");
        assert_eq!(printed("%*d %.*f", &[&[4, 7, 1, f(2.25)]]), "   7 2.2");
    }

    #[test]
    fn hostile_formats_are_bounded() {
        assert_eq!(printed("%999999999d", &[&[1]]).len(), WIDEST as usize);
        assert_eq!(printed("%d %s %n end %", &[]), "0   end %");
        assert_eq!(printed("%k", &[]), "%k");
    }
}
