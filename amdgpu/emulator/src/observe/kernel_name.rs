//! Demangling of kernel names.

use cpp_demangle::{DemangleOptions, Symbol};

/// Maximum length of a name to demangle; demangling a longer one may take too long.
const MAX_MANGLED: usize = 4096;

/// Demangled name: `vadd(float const*, int)` for `_Z4vaddPKfi`.
pub(crate) fn plain(name: &str) -> String {
    let symbol = name.starts_with("_Z").then(|| Symbol::new(name.get(..MAX_MANGLED).unwrap_or(name)).ok());
    let plain =
        symbol.flatten().and_then(|symbol| symbol.demangle_with_options(&DemangleOptions::new()).ok());
    plain.unwrap_or_else(|| name.to_owned())
}

/// Demangled name without parameters and return type: `vadd`, `ns::scale<float>`.
pub(crate) fn short(name: &str) -> String {
    let plain = plain(name);
    let mut depth = 0i32;
    let mut end = plain.len();
    let mut start = 0;
    for (at, letter) in plain.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' => depth -= 1,
            // Start of the parameters, except that `(anonymous namespace)` is part of a name.
            '(' if depth == 0 && at > start && !plain[at..].starts_with("(anonymous") => {
                end = at;
                break;
            }
            '(' => depth += 1,
            ')' => depth -= 1,
            // Mangled names of template functions include the return type.
            ' ' if depth == 0 => start = at + 1,
            _ => {}
        }
    }
    plain[start..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mangling_is_undone_and_other_names_are_kept() {
        assert_eq!(plain("_Z4vaddPKfi"), "vadd(float const*, int)");
        assert_eq!(plain("saxpy"), "saxpy");
        assert_eq!(plain("_Zjunk"), "_Zjunk");
    }

    #[test]
    fn short_names_have_no_parameters_and_no_return_type() {
        assert_eq!(short("_Z4vaddPKfi"), "vadd");
        assert_eq!(short("_Z5scaleIfEvPT_S0_"), "scale<float>");
        assert_eq!(short("_ZN12_GLOBAL__N_14tinyEPi"), "(anonymous namespace)::tiny");
        assert_eq!(short("plain_name"), "plain_name");
    }
}
