//! User names of people who log in for the first time.

use crate::accounts;

/// Length that leaves room for a number.
const LONGEST: usize = 32;
/// Numbers to try before a random one.
const TRIES: usize = 20;
/// Names that would look like those of the operator.
const RESERVED: &[&str] =
    &[accounts::LOCAL, "admin", "administrator", "moderator", "operator", "remora", "root", "system"];

/// Returns names to try, the best first: what the provider calls the person, made valid, then the same with numbers.
pub fn candidates(preferred: Option<&str>) -> impl Iterator<Item = String> {
    let base = base(preferred.unwrap_or_default());
    let is_reserved = RESERVED.iter().any(|name| name.eq_ignore_ascii_case(&base));
    let first = (!is_reserved).then(|| base.clone());
    let numbered = (2..=TRIES).map({
        let base = base.clone();
        move |number| format!("{base}-{number}")
    });
    let random = std::iter::once_with(move || format!("{base}-{}", accounts::random_hex(3)));
    first.into_iter().chain(numbered).chain(random)
}

/// A valid name from any text.
fn base(preferred: &str) -> String {
    // Some providers use the e-mail address. Its domain says nothing about the person, and addresses are not shown to others.
    let local = preferred.split('@').next().unwrap_or_default();
    let mut name = String::new();
    for letter in local
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '-' })
    {
        if name.len() == LONGEST {
            break;
        }
        if letter != '-' || !name.ends_with('-') {
            name.push(letter);
        }
    }
    let name = name.trim_matches(['-', '.', '_']);
    if name.is_empty() { "user".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preferred_name_gives_valid_distinct_names() {
        let long = "x".repeat(300);
        for (preferred, first) in [
            (Some("ada"), "ada"),
            (Some("Ada Lovelace"), "Ada-Lovelace"),
            (Some("ada@example.org"), "ada"),
            (Some("../../etc"), "etc"),
            (Some("<script>alert(1)</script>"), "script-alert-1-script"),
            (Some("äöü"), "user"),
            (Some(""), "user"),
            (Some("local"), "local-2"),
            (Some("Admin"), "Admin-2"),
            (Some(long.as_str()), &long[..LONGEST]),
            (None, "user"),
        ] {
            let names: Vec<String> = candidates(preferred).collect();
            assert_eq!(names[0], first, "{preferred:?}");
            assert!(names.iter().all(|name| accounts::valid_name(name)), "{names:?}");
            let distinct: std::collections::HashSet<&String> = names.iter().collect();
            assert_eq!(distinct.len(), names.len());
            assert!(!names.iter().any(|name| name == accounts::LOCAL));
        }
    }
}
