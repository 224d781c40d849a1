//! C++ names of kernels as people wrote them. Kernels have names of the Itanium ABI on every system.

/// Demangles a C++ name.
pub fn demangled(name: &str) -> String {
    let symbol = name.strip_suffix(".kd").unwrap_or(name);
    let symbol = cpp_demangle::Symbol::new(symbol).ok().filter(|_| name.starts_with("_Z"));
    symbol.and_then(|symbol| symbol.demangle().ok()).unwrap_or_else(|| name.to_owned())
}
