//! Rows of the function table as data, for version scripts, the coverage page, opcode names and tests.
//!
//! Contains everything that can be derived from a row without running HIP. Writes no files; `cargo xtask codegen` does.

use std::fmt;

use crate::ctype::CType;

/// How a function is forwarded to the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Answered in the client, without network traffic.
    Local,
    /// Sent without waiting for a reply.
    Post,
    /// Sent; waits for one reply.
    Call,
    /// Exported, but returns hipErrorNotSupported and logs its name once.
    Absent,
}

impl Class {
    /// All classes.
    pub const ALL: [Class; 4] = [Class::Local, Class::Post, Class::Call, Class::Absent];

    /// Meaning of the class, for the coverage page.
    pub fn meaning(self) -> &'static str {
        match self {
            Class::Local => "answered in the client, without network traffic",
            Class::Post => "sent without waiting for a reply",
            Class::Call => "sent, and waits for one reply",
            Class::Absent => "exported, returns `hipErrorNotSupported`",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Local => "local",
            Class::Post => "post",
            Class::Call => "call",
            Class::Absent => "absent",
        })
    }
}

/// Major version in the soname of a libamdhip64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Soname {
    /// ROCm 5.
    V5 = 5,
    /// ROCm 6.
    V6 = 6,
    /// ROCm 7.
    V7 = 7,
}

impl Soname {
    /// All sonames, oldest first.
    pub const ALL: [Soname; 3] = [Soname::V5, Soname::V6, Soname::V7];

    /// The number in the soname.
    pub fn major(self) -> u8 {
        self as u8
    }

    /// Soname of the runtime library.
    pub fn library(self) -> &'static str {
        match self {
            Soname::V5 => "libamdhip64.so.5",
            Soname::V6 => "libamdhip64.so.6",
            Soname::V7 => "libamdhip64.so.7",
        }
    }

    /// Version nodes that AMD's library of this soname defines, oldest first.
    pub fn nodes(self) -> &'static [&'static str] {
        match self {
            Soname::V5 => &NODES[..7],
            Soname::V6 => &NODES[..14],
            Soname::V7 => &NODES,
        }
    }
}

/// All version nodes, oldest first. The library of an older soname defines a prefix of these.
const NODES: [&str; 17] = [
    "hip_4.2", "hip_4.3", "hip_4.4", "hip_4.5", "hip_5.0", "hip_5.1", "hip_5.2", "hip_5.3", "hip_5.5",
    "hip_5.6", "hip_6.0", "hip_6.1", "hip_6.2", "hip_6.4", "hip_6.5", "hip_7.1", "hip_7.2",
];

/// One row of the table.
#[derive(Clone, Copy)]
pub struct HipFn {
    /// The opcode on the wire.
    pub number: u16,
    /// The exported symbol, which is also the name of the Rust function that implements it.
    pub name: &'static str,
    /// The ELF version node.
    pub node: &'static str,
    /// Sonames that export it, as major versions.
    pub sonames: &'static [u8],
    /// How it is forwarded.
    pub class: Class,
    /// Family that it belongs to.
    pub family: &'static str,
    arguments: &'static [(&'static str, Declare)],
    returns: Declare,
}

/// Formats a declaration of one type in C; see [`CType::declare`].
type Declare = fn(&str) -> String;

impl HipFn {
    /// Whether the library with this soname exports it.
    pub fn exported_by(&self, soname: Soname) -> bool {
        self.sonames.contains(&soname.major())
    }

    /// The row as a C declaration: `hipError_t hipMalloc(void **ptr, size_t size)`.
    pub fn declaration(&self) -> String {
        let arguments: Vec<String> = self.arguments.iter().map(|(name, declare)| declare(name)).collect();
        let arguments = if arguments.is_empty() { "void".to_owned() } else { arguments.join(", ") };
        (self.returns)(&format!("{}({arguments})", self.name))
    }

    /// Names of the arguments.
    pub fn arguments(&self) -> impl Iterator<Item = &'static str> {
        self.arguments.iter().map(|(name, _)| *name)
    }
}

impl fmt::Debug for HipFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({:#06x})", self.name, self.number)
    }
}

/// A function of the vendor's header or dispatch table without a row.
#[derive(Clone, Copy, Debug)]
pub struct Exception {
    /// The function.
    pub name: &'static str,
    /// Why it has no row.
    pub reason: &'static str,
}

/// Functions that the table omits, and why.
pub const EXCEPTIONS: &[Exception] = &[
    Exception {
        name: "hipExternalMemoryGetMappedMipmappedArray",
        reason: "declared in the header, exported by no libamdhip64",
    },
    Exception { name: "hipExtHostAlloc", reason: "a dispatch slot only: neither declared nor exported" },
];

/// A group of rows.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The name in the table.
    pub name: &'static str,
    /// The heading on the coverage page.
    pub title: &'static str,
}

/// All families, in the order of the table.
pub const FAMILIES: &[Family] = &[
    Family { name: "device", title: "Devices: enumeration, properties, attributes, limits, peers, versions" },
    Family { name: "error", title: "Errors: last error, names, texts" },
    Family { name: "context", title: "Contexts of the driver-style API" },
    Family {
        name: "memory",
        title: "Memory: device, managed, pinned and registered host memory, pointer queries",
    },
    Family { name: "pool", title: "Stream-ordered allocation and memory pools" },
    Family { name: "copy", title: "Copies of linear memory and of device symbols" },
    Family { name: "memset", title: "Fills" },
    Family { name: "stream", title: "Streams and the work ordered by them" },
    Family { name: "event", title: "Events" },
    Family { name: "module", title: "Modules: code objects loaded at run time" },
    Family { name: "launch", title: "Kernels: launch and function attributes" },
    Family { name: "occupancy", title: "Occupancy" },
    Family { name: "registration", title: "Entry points that compiled host code calls by itself" },
    Family { name: "rtc", title: "Run-time compilation; HIP 7 moved these to libhiprtc" },
    Family { name: "profile", title: "Names and hooks for profilers" },
    Family {
        name: "support",
        title: "Build identity and half-precision support that the vendor library happens to export",
    },
    Family {
        name: "cxx",
        title: "C++ mangled twins, for programs built when these functions had no C linkage",
    },
    Family { name: "graph", title: "Graphs and stream capture" },
    Family { name: "array", title: "Arrays" },
    Family { name: "texture", title: "Textures and surfaces" },
    Family { name: "library", title: "Kernel libraries and the device linker" },
    Family { name: "virtual_memory", title: "Virtual memory management" },
    Family { name: "ipc", title: "Sharing between processes" },
    Family { name: "interop", title: "External memory, external semaphores and graphics" },
];

macro_rules! rows {
    ($($family:ident { $(
        [$number:literal $node:literal ($($soname:literal)*) $class:ident]
        fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;
    )* })*) => {
        /// All rows, in the order of the table.
        pub const TABLE: &[HipFn] = &[$($(HipFn {
            number: $number,
            name: stringify!($name),
            node: $node,
            sonames: &[$($soname),*],
            class: rows!(@class $class),
            family: stringify!($family),
            arguments: &[$((stringify!($arg), <$ty as CType>::declare)),*],
            returns: <$ret as CType>::declare,
        },)*)*];
    };
    (@class local) => { Class::Local };
    (@class post) => { Class::Post };
    (@class call) => { Class::Call };
    (@class absent) => { Class::Absent };
}

mod derived {
    use super::*;
    use crate::types::*;
    crate::for_each_hip_fn! { rows }
}

pub use derived::TABLE;

/// Returns the row with this opcode.
pub fn function(number: u16) -> Option<&'static HipFn> {
    TABLE.iter().find(|row| row.number == number)
}

/// Returns the function name for an opcode.
pub fn function_name(number: u16) -> Option<&'static str> {
    function(number).map(|row| row.name)
}

/// Returns the row of this exported symbol.
pub fn function_named(name: &str) -> Option<&'static HipFn> {
    TABLE.iter().find(|row| row.name == name)
}

/// A library that programs link against, identified by its soname.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Library {
    Runtime(Soname),
    /// libhiprtc, whose exports are unversioned.
    Rtc,
}

impl Library {
    fn named(soname: &str) -> Option<Library> {
        match soname {
            "libhiprtc.so.5" | "libhiprtc.so.6" | "libhiprtc.so.7" => Some(Library::Rtc),
            _ => Soname::ALL.into_iter().find(|it| it.library() == soname).map(Library::Runtime),
        }
    }

    fn exports(self, row: &HipFn) -> bool {
        match self {
            Library::Runtime(soname) => row.exported_by(soname),
            Library::Rtc => row.family == "rtc",
        }
    }
}

/// Exports of a library as (symbol, version node), sorted. The node of an unversioned symbol is empty. A library that is not part
/// of HIP has no exports.
pub fn exports(soname: &str) -> Vec<(&'static str, &'static str)> {
    let Some(library) = Library::named(soname) else { return Vec::new() };
    let mut exports: Vec<_> = TABLE
        .iter()
        .filter(|row| library.exports(row))
        .map(|row| (row.name, if library == Library::Rtc { "" } else { row.node }))
        .collect();
    if matches!(library, Library::Runtime(_)) {
        exports.extend(EXTENSIONS.map(|name| (name, EXTENSION_NODE)));
    }
    exports.sort_unstable();
    exports
}

/// Remora's own functions that the runtime exports in addition to AMD's, and their separate version node.
const EXTENSIONS: [&str; 3] = ["remoraCountersBegin", "remoraCountersEnd", "remoraSession"];
const EXTENSION_NODE: &str = "remora_1";

/// Linker version script of a library, by its soname: `libamdhip64.so.6`, `libhiprtc.so.7`.
///
/// For the runtime, it is the full chain of nodes that AMD's library defines, each inheriting from its predecessor; for
/// libhiprtc, a plain list. All other symbols are local.
pub fn version_script(soname: &str) -> String {
    let exports = exports(soname);
    let Some(Library::Runtime(runtime)) = Library::named(soname) else {
        let list: String = exports.iter().map(|(symbol, _)| format!("    {symbol};\n")).collect();
        let global = if list.is_empty() { "" } else { "global:\n" };
        return format!("{{\n{global}{list}local:\n    *;\n}};\n");
    };
    let mut script = String::new();
    let mut parent = None;
    for node in runtime.nodes().iter().copied().chain([EXTENSION_NODE]) {
        script += &format!("{node} {{\n");
        let symbols: Vec<&str> =
            exports.iter().filter(|(_, of)| *of == node).map(|(symbol, _)| *symbol).collect();
        if !symbols.is_empty() {
            script += "global:\n";
        }
        for symbol in symbols {
            script += &format!("    {symbol};\n");
        }
        match parent {
            None => script += "local:\n    *;\n};\n\n",
            Some(parent) => script += &format!("}} {parent};\n\n"),
        }
        parent = Some(node);
    }
    script
}

pub use crate::coverage::coverage_page;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique() {
        let mut numbers: Vec<u16> = TABLE.iter().map(|row| row.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), TABLE.len());
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = TABLE.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TABLE.len());
    }

    #[test]
    fn an_opcode_names_its_function() {
        assert_eq!(function_name(0x00d7), Some("hipMalloc"));
        assert_eq!(function_name(0x7fff), None);
        assert_eq!(function_named("hipMalloc").map(|row| row.number), Some(0x00d7));
    }

    #[test]
    fn a_row_reads_as_a_c_declaration() {
        let row = function_named("hipMalloc").expect("hipMalloc has a row");
        assert_eq!(row.declaration(), "hipError_t hipMalloc(void **ptr, size_t size)");
        let row = function_named("__hipRegisterFatBinary").expect("registration has a row");
        assert_eq!(row.declaration(), "void **__hipRegisterFatBinary(const void *data)");
        let row = function_named("hipGetLastError").expect("last error has a row");
        assert_eq!(row.declaration(), "hipError_t hipGetLastError(void)");
    }

    #[test]
    fn every_exported_row_has_a_node_of_its_soname() {
        for row in TABLE {
            assert!(!row.sonames.is_empty(), "{row:?} is exported by no library");
            for soname in Soname::ALL {
                if row.exported_by(soname) {
                    assert!(
                        soname.nodes().contains(&row.node),
                        "{row:?} has node {} in {soname:?}",
                        row.node
                    );
                }
            }
        }
    }

    #[test]
    fn a_version_script_chains_its_nodes() {
        let script = version_script("libamdhip64.so.5");
        assert!(script.starts_with("hip_4.2 {\nglobal:\n    _Z22hipCreate"), "{script}");
        assert!(script.contains("    hipMalloc;\n"));
        assert!(script.contains("local:\n    *;\n};\n\nhip_4.3 {\n"));
        assert!(script.contains("} hip_5.1;\n\nremora_1 {\nglobal:\n    remoraCountersBegin;\n"), "{script}");
        assert!(script.trim_end().ends_with("} hip_5.2;"), "{script}");
        assert!(!script.contains("hip_5.3"));
        assert!(!script.contains("hipGetDevicePropertiesR0600"));
        assert!(version_script("libamdhip64.so.7").contains("} hip_7.1;\n\nremora_1 {\n"));
    }

    #[test]
    fn the_run_time_compiler_is_exported_without_versions() {
        assert_eq!(exports("libhiprtc.so.7").len(), 18);
        assert!(version_script("libhiprtc.so.7").starts_with("{\nglobal:\n    hiprtcAddNameExpression;\n"));
        assert!(exports("libamdhip64.so.7").iter().all(|(symbol, _)| !symbol.starts_with("hiprtc")));
    }

    #[test]
    fn an_unknown_library_exports_nothing() {
        assert!(exports("libm.so.6").is_empty());
        assert_eq!(version_script("libm.so.6"), "{\nlocal:\n    *;\n};\n");
    }

    #[test]
    fn families_stand_in_the_order_of_the_table() {
        let mut families: Vec<&str> = TABLE.iter().map(|row| row.family).collect();
        families.dedup();
        assert_eq!(families, FAMILIES.iter().map(|family| family.name).collect::<Vec<_>>());
    }

    #[test]
    fn exceptions_have_no_row() {
        for exception in EXCEPTIONS {
            assert!(function_named(exception.name).is_none(), "{} has a row", exception.name);
        }
    }
}
