//! Members of a JSON object, for the arguments of trace events.

use std::fmt::Write;

/// Members of a JSON object, each preceded by a comma.
#[derive(Debug, Default)]
pub struct Members {
    pub text: String,
}

/// Names are truncated to this many characters.
const NAME_LETTERS: usize = 1024;
impl Members {
    /// A number, or an array of numbers.
    pub fn number(&mut self, name: &str, value: impl std::fmt::Display) {
        let _ = write!(self.text, ",\"{name}\":{value}");
    }

    /// A string, escaped.
    pub fn string(&mut self, name: &str, value: &str) {
        let _ = write!(self.text, ",\"{name}\":\"");
        escape(&mut self.text, value);
        self.text.push('"');
    }

    /// An address, in hexadecimal.
    pub fn address(&mut self, name: &str, value: usize) {
        let _ = write!(self.text, ",\"{name}\":\"{value:#x}\"");
    }
}

/// Appends text, escaped for a JSON string.
pub fn escape(to: &mut String, text: &str) {
    for c in text.chars().take(NAME_LETTERS) {
        match c {
            '"' | '\\' => to.extend(['\\', c]),
            c if (c as u32) < 0x20 => {
                let _ = write!(to, "\\u{:04x}", c as u32);
            }
            c => to.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_end_the_string_it_is_in() {
        let mut out = Members::default();
        out.string("name", "a\"b\\c\nd");
        assert_eq!(out.text, ",\"name\":\"a\\\"b\\\\c\\u000ad\"");
        out.text.clear();
        out.string("name", &"ä".repeat(2 * NAME_LETTERS));
        assert_eq!(out.text.chars().filter(|c| *c == 'ä').count(), NAME_LETTERS);
    }
}
