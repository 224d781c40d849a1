//! API keys: creation, storage and verification.
//!
//! A key is `rmr_<prefix>_<secret>`. The prefix finds the database row, the secret authenticates. The secret has 256 random bits, so a fast
//! hash is safe against guessing. A slow hash such as argon2 protects human-chosen passwords; here it would only slow down requests and
//! make denial of service cheap. The database stores a BLAKE3 hash with a dedicated context string, compared in constant time.

use crate::store::{Key, Store, StoreError, User, now};

const CONTEXT: &str = "remora board 2026 API key";
const SECRET_BYTES: usize = 32;
const PREFIX_BYTES: usize = 6;

/// User of requests without a key, on a server that requires none.
pub const LOCAL: &str = "local";

/// Returns whether a user name is valid. Names appear in URLs and tables.
pub fn valid_name(name: &str) -> bool {
    (1..=40).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// Returns whether a user writes editorials and removes comments. A board without keys belongs to its only user.
pub fn moderates(user: &User) -> bool {
    user.moderator || user.name == LOCAL
}

/// Returns random bytes in hexadecimal.
pub fn random_hex(bytes: usize) -> String {
    let mut buffer = vec![0u8; bytes];
    // The system's generator does not fail on supported systems, and without it keys would not be secure.
    getrandom::fill(&mut buffer).expect("the system's random number generator works");
    buffer.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns an unpredictable random number: the seed of a submission's inputs.
pub fn random_seed() -> u64 {
    getrandom::u64().expect("the system's random number generator works")
}

/// Creates a user without individual limits.
pub fn new_user(name: &str) -> User {
    User {
        id: random_hex(8),
        name: name.to_owned(),
        created_at: now(),
        banned: false,
        moderator: false,
        daily_budget_usd: None,
        max_price_usd: None,
        per_minute: None,
        per_day: None,
        concurrency: None,
    }
}

/// Creates a key for a user and returns it. The key itself is not stored and cannot be shown again.
pub async fn create_key(store: &Store, user: &User) -> Result<String, StoreError> {
    let (prefix, secret) = (random_hex(PREFIX_BYTES), random_hex(SECRET_BYTES));
    let key = Key {
        prefix: prefix.clone(),
        user_id: user.id.clone(),
        hash: hash(&secret).to_hex().to_string(),
        created_at: now(),
        revoked_at: None,
    };
    store.add_key(&key).await?;
    Ok(format!("rmr_{prefix}_{secret}"))
}

/// Returns the user of a key; `None` for an invalid, unknown or revoked key.
pub async fn owner(store: &Store, key: &str) -> Result<Option<User>, StoreError> {
    let Some((prefix, secret)) = key.strip_prefix("rmr_").and_then(|rest| rest.split_once('_')) else {
        return Ok(None);
    };
    if prefix.len() != 2 * PREFIX_BYTES || secret.len() != 2 * SECRET_BYTES {
        return Ok(None);
    }
    let Some(found) = store.key(prefix).await? else { return Ok(None) };
    // `blake3::Hash` compares in constant time.
    let matches = blake3::Hash::from_hex(&found.hash).is_ok_and(|kept| kept == hash(secret));
    if !matches || found.revoked_at.is_some() {
        return Ok(None);
    }
    store.user(&found.user_id).await.map(Some)
}

fn hash(secret: &str) -> blake3::Hash {
    blake3::Hash::from(blake3::derive_key(CONTEXT, secret.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_plain() {
        for name in ["ada", "a.b-c_9", &"x".repeat(40)] {
            assert!(valid_name(name), "{name}");
        }
        for name in ["", "a b", "ä", "a/b", &"x".repeat(41)] {
            assert!(!valid_name(name), "{name}");
        }
    }

    #[test]
    fn hashes_depend_on_every_byte_of_the_secret() {
        assert_eq!(hash("a"), hash("a"));
        assert_ne!(hash("a"), hash("b"));
        assert_ne!(hash("a").as_bytes(), blake3::hash(b"a").as_bytes());
    }
}
