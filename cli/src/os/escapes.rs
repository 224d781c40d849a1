//! Escape sequences of terminals.

/// Escape sequences that switch to the alternate screen without a cursor, and back.
pub const OPEN: &str = "\x1b[?1049h\x1b[?25l";
pub const CLOSE: &str = "\x1b[?25h\x1b[?1049l";
/// Escape sequences that move the cursor to the upper left, clear the rest of the line, and clear the rest of the screen.
const HOME: &str = "\x1b[H";
const REST_OF_LINE: &str = "\x1b[K";
const REST: &str = "\x1b[J";

/// What redraws a screen of this many columns and lines with `text`; what does not fit is cut off.
pub fn frame(text: &str, (columns, rows): (usize, usize)) -> String {
    let mut out = HOME.to_owned();
    for (index, line) in text.lines().take(rows).enumerate() {
        if index > 0 {
            out.push_str("\r\n");
        }
        // Control characters from other machines must not reach the terminal.
        out.extend(line.chars().filter(|c| !c.is_control()).take(columns));
        out.push_str(REST_OF_LINE);
    }
    out.push_str(REST);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_fits_the_screen_and_has_no_control_characters_of_others() {
        assert_eq!(frame("abc\x1b[2J\nde\nf", (4, 2)), "\x1b[Habc[\x1b[K\r\nde\x1b[K\x1b[J");
    }
}
