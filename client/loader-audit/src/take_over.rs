//! Decides which library path replaces a name that the dynamic linker is about to search.

use crate::name::{self, Kind, Name};

/// Libraries in Remora's folder, by kind and version.
const NAMES: &[(Kind, u32, &[u8])] = &[
    (Kind::Runtime, 5, b"libamdhip64.so.5"),
    (Kind::Runtime, 6, b"libamdhip64.so.6"),
    (Kind::Runtime, 7, b"libamdhip64.so.7"),
    (Kind::Compiler, 6, b"libhiprtc.so.6"),
    (Kind::Compiler, 7, b"libhiprtc.so.7"),
];
/// Default version for a name without one, if its file does not reveal it.
const USUAL: u32 = 6;
const PATH_BYTES: usize = 1024;

/// Remora's folder, and the paths of its libraries as NUL-terminated strings that never move.
#[derive(Debug)]
pub struct Libraries {
    paths: [[u8; PATH_BYTES]; NAMES.len()],
    /// Length of the folder, including its `/`.
    folder: usize,
    present: [bool; NAMES.len()],
}

impl Libraries {
    pub const NONE: Libraries =
        Libraries { paths: [[0; PATH_BYTES]; NAMES.len()], folder: 0, present: [false; NAMES.len()] };

    /// Sets the folder, which must end with `/`; `exists` checks a NUL-terminated path.
    pub fn set(&mut self, folder: &[u8], exists: impl Fn(&[u8]) -> bool) {
        for ((path, present), (_, _, name)) in self.paths.iter_mut().zip(&mut self.present).zip(NAMES) {
            let (Some(start), Some(rest)) =
                (path.get_mut(..folder.len()), folder.len().checked_add(name.len()))
            else {
                return;
            };
            start.copy_from_slice(folder);
            // One more byte for the NUL.
            let Some(end) = path.get_mut(folder.len()..rest + 1) else { return };
            let Some(end) = end.get_mut(..name.len()) else { return };
            end.copy_from_slice(name);
            *present = path.get(..rest + 1).is_some_and(&exists);
        }
        self.folder = folder.len();
    }

    /// Returns the NUL-terminated path of a library, if Remora has it.
    fn find(&self, kind: Kind, version: u32) -> Option<&[u8]> {
        let index = NAMES.iter().position(|(of, number, _)| (*of, *number) == (kind, version))?;
        self.present.get(index).filter(|present| **present)?;
        self.paths.get(index).map(|path| &path[..])
    }

    /// Whether a path is in Remora's folder.
    pub fn has(&self, path: &[u8]) -> bool {
        let folder = self.paths.first().and_then(|path| path.get(..self.folder)).unwrap_or_default();
        !folder.is_empty() && path.strip_prefix(folder).is_some_and(|rest| !rest.contains(&b'/'))
    }
}

/// Returns the path to load instead of `asked`; `None` leaves the request unchanged.
///
/// `is_first` is true for the name as the program gave it, and false for the candidate paths that are then searched for it.
/// `generation` reads the version of an existing file.
pub fn replacement<'a>(
    libraries: &'a Libraries,
    asked: &[u8],
    is_first: bool,
    generation: impl FnOnce() -> Generation,
) -> Option<&'a [u8]> {
    let Name { kind, version } = name::parse(asked)?;
    if libraries.has(asked) {
        return None;
    }
    if let Some(version) = version {
        return libraries.find(kind, version);
    }
    // A bare name without a version: the version of the file found in the search decides.
    if !asked.contains(&b'/') {
        return None;
    }
    match generation() {
        Generation::Known(version) => libraries.find(kind, version),
        Generation::Unknown => libraries.find(kind, USUAL),
        Generation::NoFile if is_first => libraries.find(kind, USUAL),
        Generation::NoFile => None,
    }
}

/// HIP generation of a library file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    Known(u32),
    Unknown,
    NoFile,
}

/// Whether a loaded object is a `libamdhip64` other than Remora's, by its path or its DT_SONAME.
pub fn is_foreign(libraries: &Libraries, path: &[u8], soname: &[u8]) -> bool {
    let is_runtime = |text: &[u8]| name::parse(text).is_some_and(|name| name.kind == Kind::Runtime);
    // Without Remora's library folder, its libraries cannot be distinguished from others of the same name.
    libraries.folder != 0 && (is_runtime(path) || is_runtime(soname)) && !libraries.has(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn libraries() -> Libraries {
        let mut libraries = Libraries::NONE;
        libraries.set(b"/ours/", |path| path.ends_with(b"\0") && !path.ends_with(b"libhiprtc.so.7\0"));
        libraries
    }

    fn replaced(asked: &str, is_first: bool, generation: Generation) -> Option<String> {
        let libraries = libraries();
        let path = replacement(&libraries, asked.as_bytes(), is_first, || generation)?;
        let end = path.iter().position(|byte| *byte == 0).unwrap();
        Some(String::from_utf8(path[..end].to_vec()).unwrap())
    }

    #[test]
    fn a_name_with_a_version_is_replaced_by_that_version_and_no_other() {
        for version in 5..=7 {
            let ours = Some(format!("/ours/libamdhip64.so.{version}"));
            let bare = format!("libamdhip64.so.{version}");
            let path = format!("/wheel/lib/libamdhip64.so.{version}.1.2");
            assert_eq!(replaced(&bare, true, Generation::NoFile), ours);
            assert_eq!(replaced(&path, true, Generation::NoFile), ours);
        }
        assert_eq!(replaced("libamdhip64.so.4", true, Generation::NoFile), None);
        assert_eq!(replaced("libamdhip64.so.8", true, Generation::NoFile), None);
        assert_eq!(replaced("libc.so.6", true, Generation::NoFile), None);
    }

    #[test]
    fn a_name_without_a_version_gets_the_version_of_the_file_that_is_found_for_it() {
        let path = "/wheel/torch/lib/libamdhip64.so";
        let ours = |version: u32| Some(format!("/ours/libamdhip64.so.{version}"));
        assert_eq!(
            replaced("libamdhip64.so", true, Generation::NoFile),
            None,
            "the dynamic linker searches folders first"
        );
        assert_eq!(replaced(path, false, Generation::Known(7)), ours(7));
        assert_eq!(replaced(path, false, Generation::Unknown), ours(6));
        assert_eq!(replaced(path, false, Generation::NoFile), None, "the next folder may have it");
        assert_eq!(replaced(path, true, Generation::NoFile), ours(6));
    }

    #[test]
    fn what_remora_does_not_have_is_not_replaced() {
        assert_eq!(replaced("/x/libhiprtc.so.7", true, Generation::NoFile), None, "Remora has no such file");
        assert_eq!(
            replaced("/ours/libamdhip64.so.6", true, Generation::NoFile),
            None,
            "it is Remora's already"
        );
        let long = [b'x'; PATH_BYTES + 10];
        let mut libraries = Libraries::NONE;
        libraries.set(&long, |_| true);
        assert!(replacement(&libraries, b"libamdhip64.so.6", true, || Generation::NoFile).is_none());
    }

    #[test]
    fn a_library_of_somebody_else_is_noticed_under_any_file_name() {
        let ours = libraries();
        assert!(is_foreign(&ours, b"/x/libamdhip64.so.6", b""));
        assert!(is_foreign(&ours, b"/x/renamed.so", b"libamdhip64.so.6"));
        assert!(!is_foreign(&ours, b"/ours/libamdhip64.so.6", b"libamdhip64.so.6"));
        assert!(!is_foreign(&ours, b"/x/libhiprtc.so.6", b"libhiprtc.so.6"));
        assert!(!is_foreign(&Libraries::NONE, b"/x/libamdhip64.so.6", b""));
    }
}
