//! The only reader of the environment.

/// The device that programs begin with, if they do not choose: `PYFLAME_DEVICE=rocm:1`.
pub fn first_device() -> Option<String> {
    std::env::var("PYFLAME_DEVICE").ok().filter(|name| !name.is_empty())
}
