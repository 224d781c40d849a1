//! Session IDs and their only text form: 16 hexadecimal digits.

#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use std::fmt;
use std::str::FromStr;

/// ID of a session. Logs, commands, metrics, file names and JSON all use the same text form.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u64);

/// Error of parsing a session ID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is not a session ID: expected 16 hexadecimal digits, as shown in logs and by `remora devices --json`"
)]
pub struct SessionIdError(pub String);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for SessionId {
    type Err = SessionIdError;

    fn from_str(text: &str) -> Result<SessionId, SessionIdError> {
        // `from_str_radix` would accept a sign.
        let is_whole = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = is_whole.then(|| u64::from_str_radix(text, 16).ok()).flatten();
        number.map(SessionId).ok_or_else(|| SessionIdError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_one_spelling_and_it_is_read_back() {
        for (number, text) in
            [(0, "0000000000000000"), (255, "00000000000000ff"), (u64::MAX, "ffffffffffffffff")]
        {
            assert_eq!(SessionId(number).to_string(), text);
            assert_eq!(format!("{:?}", SessionId(number)), text);
            assert_eq!(text.parse(), Ok(SessionId(number)));
        }
        for wrong in [
            "",
            "255",
            "0xff",
            "+0000000000000ff",
            "00000000000000fg",
            "18446744073709551615",
            "00000000000000ff ",
        ] {
            let error = wrong.parse::<SessionId>().unwrap_err();
            assert!(
                error.to_string().contains(wrong) && error.to_string().contains("16 hexadecimal"),
                "{error}"
            );
        }
    }
}
