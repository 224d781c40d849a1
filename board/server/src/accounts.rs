//! API keys: how they are made, kept and recognised.
//!
//! A key is `rmr_<prefix>_<secret>`. The prefix finds the row, the secret proves it. The secret is 256 random bits, so nobody can
//! guess one, however fast the hash; a slow hash such as argon2 protects passwords that people think of, and would here only make
//! every request slow and cheap to flood. What is stored is a BLAKE3 hash in a context of its own, compared in constant time.

use crate::store::{Key, Store, StoreError, User, now};

const CONTEXT: &str = "remora board 2026 API key";
const SECRET_BYTES: usize = 32;
const PREFIX_BYTES: usize = 6;

/// The user of requests without a key, on a server that asks for none.
pub const LOCAL: &str = "local";

/// Names are part of addresses and tables.
pub fn valid_name(name: &str) -> bool {
    (1..=40).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// Random bytes in hexadecimal.
pub fn random_hex(bytes: usize) -> String {
    let mut buffer = vec![0u8; bytes];
    // The system's generator does not fail on any system this runs on; without it nothing here may go on.
    getrandom::fill(&mut buffer).expect("the system has random numbers");
    buffer.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A random number that nobody can foresee: the seed of a submission's inputs.
pub fn random_seed() -> u64 {
    getrandom::u64().expect("the system has random numbers")
}

/// A user with nothing said about limits.
pub fn new_user(name: &str) -> User {
    User {
        id: random_hex(8),
        name: name.to_owned(),
        created_at: now(),
        banned: false,
        daily_budget_usd: None,
        max_price_usd: None,
        per_minute: None,
        per_day: None,
        concurrency: None,
    }
}

/// Makes a key for a user and returns it; it is not kept and cannot be shown again.
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

/// Whose key this is; `None` for anything that is not a key in use.
pub async fn owner(store: &Store, key: &str) -> Result<Option<User>, StoreError> {
    let Some((prefix, secret)) = key.strip_prefix("rmr_").and_then(|rest| rest.split_once('_')) else {
        return Ok(None);
    };
    if prefix.len() != 2 * PREFIX_BYTES || secret.len() != 2 * SECRET_BYTES {
        return Ok(None);
    }
    let Some(found) = store.key(prefix).await? else { return Ok(None) };
    // Comparing `blake3::Hash`es takes the same time wherever they differ.
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
