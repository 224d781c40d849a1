//! Fixed-size C strings.

/// A C string in a buffer of `N` bytes, including the terminator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Text<const N: usize>([u8; N]);

impl<const N: usize> Text<N> {
    /// Writes a text, cut at a character boundary if it is too long. The remaining bytes are zero.
    pub fn set(&mut self, text: &str) {
        let mut end = text.len().min(N - 1);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.0 = [0; N];
        self.0[..end].copy_from_slice(&text.as_bytes()[..end]);
    }

    /// Returns the text up to its terminator or the end of the buffer.
    pub fn get(&self) -> String {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(N);
        String::from_utf8_lossy(&self.0[..end]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_always_ends_in_a_zero_and_on_a_whole_character() {
        let mut text = Text([0xff; 8]);
        text.set("grün");
        assert_eq!(text.get(), "grün");
        text.set("1234567ü");
        assert_eq!(text.get(), "1234567");
        text.set("123456ü");
        assert_eq!(text.get(), "123456");
        assert_eq!(text.0, *b"123456\0\0");
        assert_eq!(Text(*b"unending").get(), "unending");
    }
}
