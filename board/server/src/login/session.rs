//! Browsers that are logged in: the cookie with the token, and the hash of it that is stored.
//!
//! Tokens have 256 random bits, so a fast hash is safe against guessing; see `accounts.rs`.

use axum::http::{HeaderMap, HeaderValue, header};

use crate::accounts;

const LOGIN_CONTEXT: &str = "remora board 2026 browser login";
const LINK_CONTEXT: &str = "remora board 2026 login link";
/// Length of a token in hexadecimal digits.
pub const TOKEN_DIGITS: usize = 64;

/// A cookie with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cookie {
    /// A browser that is logged in.
    Session,
    /// A login that has not come back from its provider. Only requests of the pages themselves need it.
    Pending,
}

impl Cookie {
    /// The name. With HTTPS the prefix makes browsers refuse the cookie from other hosts of the same domain, or without encryption.
    fn name(self, secure: bool) -> &'static str {
        match (self, secure) {
            (Cookie::Session, true) => "__Host-remora_session",
            (Cookie::Session, false) => "remora_session",
            (Cookie::Pending, true) => "__Host-remora_login",
            (Cookie::Pending, false) => "remora_login",
        }
    }

    /// Returns a new token.
    pub fn token() -> String {
        accounts::random_hex(TOKEN_DIGITS / 2)
    }

    /// Returns the header that sets the cookie.
    pub fn set(self, token: &str, seconds: u64, secure: bool) -> HeaderValue {
        // A page that was reached by a link on another site is shown logged in (Lax); requests that change something are checked.
        let site = if self == Cookie::Session { "Lax" } else { "Strict" };
        let end = if secure { "; Secure" } else { "" };
        let text = format!(
            "{}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite={site}{end}",
            self.name(secure)
        );
        // The parts are ASCII.
        HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
    }

    /// Returns the header that removes the cookie.
    pub fn clear(self, secure: bool) -> HeaderValue {
        self.set("", 0, secure)
    }

    /// Returns the token in a request's cookies.
    pub fn read(self, headers: &HeaderMap, secure: bool) -> Option<&str> {
        let lines = headers.get_all(header::COOKIE).into_iter().filter_map(|line| line.to_str().ok());
        let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let mut found = pairs.filter(|(name, _)| *name == self.name(secure)).map(|(_, token)| token);
        found.find(|token| is_token(token))
    }
}

/// Returns whether a text has the form of a token.
fn is_token(text: &str) -> bool {
    text.len() == TOKEN_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns what is stored of a session's token.
pub fn login_hash(token: &str) -> String {
    hash(LOGIN_CONTEXT, token)
}

/// Returns what is stored of a login link's token.
pub fn link_hash(token: &str) -> String {
    hash(LINK_CONTEXT, token)
}

fn hash(context: &str, token: &str) -> String {
    blake3::Hash::from(blake3::derive_key(context, token.as_bytes())).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_read_back_and_only_in_full() {
        let token = Cookie::token();
        let headers =
            |text: &str| HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_str(text).unwrap())]);
        let both = headers(&format!("other=1; remora_session={token}; remora_login=x"));
        assert_eq!(Cookie::Session.read(&both, false), Some(token.as_str()));
        assert_eq!(Cookie::Pending.read(&both, false), None);
        // The name of an encrypted server is another one.
        assert_eq!(Cookie::Session.read(&both, true), None);
        for wrong in ["", "remora_session=", "remora_session=abc", &format!("xremora_session={token}")] {
            assert_eq!(Cookie::Session.read(&headers(wrong), false), None, "{wrong}");
        }
    }

    #[test]
    fn cookies_are_out_of_reach_of_scripts_and_other_sites() {
        let set = Cookie::Session.set("abc", 60, true);
        assert_eq!(set, "__Host-remora_session=abc; Path=/; Max-Age=60; HttpOnly; SameSite=Lax; Secure");
        let pending = Cookie::Pending.set("abc", 60, false);
        assert_eq!(pending, "remora_login=abc; Path=/; Max-Age=60; HttpOnly; SameSite=Strict");
        assert!(Cookie::Session.clear(false).to_str().unwrap().contains("Max-Age=0"));
    }

    #[test]
    fn a_login_link_is_not_a_session() {
        let token = Cookie::token();
        assert_ne!(login_hash(&token), link_hash(&token));
        assert!(!login_hash(&token).contains(&token));
    }
}
