//! Rules for the compiled host code of a solution: what it defines, what it imports, and what runs before it is called.
//!
//! They act on the object file, where macros, aliases and assembler labels have no effect any more. Like the rules for sources they are
//! never the only defence: nothing that a solution's process replies is believed.

use object::read::elf::{ElfFile64, ElfSymbol64};
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SymbolFlags, SymbolKind};

/// A rule violation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{symbol}`: {about}")]
pub struct ObjectBreach {
    /// Name of the rule.
    pub rule: &'static str,
    /// Why the symbol is not allowed.
    pub about: &'static str,
    /// The symbol or section.
    pub symbol: String,
}

/// Symbols that host code must not import: whole names, and prefixes that end with `*`.
struct Imports {
    rule: &'static str,
    about: &'static str,
    names: &'static [&'static str],
}

/// Rule for problems with one device.
const ONE_DEVICE: &str = "device-choice";

const IMPORTS: &[Imports] = &[
    Imports {
        rule: "process",
        about: "a solution must not start or control processes",
        // `atexit` is allowed: the compiler's registration of kernels calls it.
        names: &[
            "fork",
            "vfork",
            "clone",
            "exec*",
            "system",
            "popen",
            "posix_spawn*",
            "daemon",
            "ptrace",
            "prctl",
            "syscall",
            "kill",
            "setsid",
            "dup",
            "dup2",
            "dup3",
            "on_exit",
            "__cxa_at_quick_exit",
            "signal",
            "sigaction",
            "setitimer",
            "timer_create",
            "alarm",
            "process_vm_*",
            "unshare",
            "setns",
        ],
    },
    Imports {
        rule: "thread",
        about: "a solution must not start threads; its work must be done when it returns",
        names: &["pthread_create", "thrd_create", "clone3", "_ZNSt6thread*", "_ZNSt13__future_base*"],
    },
    Imports {
        rule: "loading",
        about: "a solution must not load other code",
        names: &[
            "dlopen",
            "dlsym",
            "dlmopen",
            "dlvsym",
            "dladdr*",
            "dl_iterate_phdr",
            "hipModuleLoad*",
            "hiprtc*",
        ],
    },
    Imports {
        rule: "memory",
        about: "a solution must not change the protection of memory or share it",
        names: &[
            "mprotect",
            "pkey_mprotect",
            "mremap",
            "mmap",
            "mmap64",
            "memfd_create",
            "shm_*",
            "hipHostRegister",
            "hipHostUnregister",
            "hipIpc*",
            "hipMemImport*",
            "hipMemExport*",
            "hipMemPoolImport*",
            "hipMemPoolExport*",
        ],
    },
    Imports {
        rule: "file",
        about: "a solution must not access files or sockets",
        names: &[
            "fopen*",
            "freopen*",
            "fdopen",
            "open",
            "open64",
            "openat*",
            "opendir",
            "socket*",
            "connect",
            "accept*",
            "send*",
            "recv*",
            "getenv",
            "secure_getenv",
            "setenv",
            "putenv",
            "environ",
            "__environ",
            "_ZNSt14basic_ifstream*",
            "_ZNSt14basic_ofstream*",
            "_ZNSt13basic_fstream*",
            "_ZNSt13basic_filebuf*",
        ],
    },
    Imports {
        rule: "device",
        about: "only the judge sets up the device",
        names: &[
            "hipDeviceReset",
            "hipSetDeviceFlags",
            "hipDeviceSetLimit",
            "hipCtx*",
            "hipDevicePrimaryCtx*",
            "remora*",
        ],
    },
    Imports { rule: ONE_DEVICE, about: "only the judge chooses the device", names: &["hipSetDevice"] },
    Imports {
        rule: "library",
        about: "a solution must not call libraries that solve the problem",
        names: &[
            "rocblas_*",
            "hipblas*",
            "miopen*",
            "rocsparse_*",
            "rocfft_*",
            "rocsolver_*",
            "hipsparse*",
            "hipfft*",
            "nccl*",
        ],
    },
];

/// Names that the harness and the client library use. Host code that defines one of them would replace it.
const DEFINITIONS: &[&str] = &[
    "hip*",
    "hsa*",
    "remora*",
    "__hipRegister*",
    "__hipUnregister*",
    "__hipPush*",
    "__hipPop*",
    "main",
    "_start",
    "_init",
    "_fini",
    "exit",
    "_exit",
    "abort",
    "read",
    "write",
    "send",
    "recv",
    "sendmsg",
    "recvmsg",
    "close",
    "dlopen",
    "dlsym",
    "clock_gettime",
    "gettimeofday",
    "malloc",
    "free",
    "memcpy",
    "memset",
    "fflush",
    "__libc_start_main",
];

/// Returns the first rule violation of the object file of host code. A solution for several devices may choose among them.
pub(crate) fn breach(object: &[u8], devices: u32) -> Option<ObjectBreach> {
    let Ok(file) = ElfFile64::<object::Endianness>::parse(object) else {
        let about = "the compiler's output is not an object file";
        return Some(ObjectBreach { rule: "object", about, symbol: "input.o".to_owned() });
    };
    let symbols = || file.symbols().filter(|symbol| !symbol.is_local());
    symbols().find_map(|symbol| of_symbol(&symbol, devices)).or_else(|| early_code(&file))
}

fn of_symbol(symbol: &ElfSymbol64<'_, '_>, devices: u32) -> Option<ObjectBreach> {
    let name = symbol.name().unwrap_or_default();
    let found = |rule, about| Some(ObjectBreach { rule, about, symbol: name.to_owned() });
    if symbol.is_undefined() {
        let applies = |imports: &&Imports| devices == 1 || imports.rule != ONE_DEVICE;
        let import = IMPORTS.iter().filter(applies).find(|imports| matches_any(imports.names, name))?;
        return found(import.rule, import.about);
    }
    // STT_GNU_IFUNC: the dynamic linker would call it before `main`.
    if matches!(symbol.flags(), SymbolFlags::Elf { st_info, .. } if st_info & 0xf == object::elf::STT_GNU_IFUNC)
    {
        return found("constructor", "no code of a solution may run before it is called");
    }
    // Kernels have a host function of the same name, and templates of headers are weak: neither replaces a library's function.
    let is_code = symbol.kind() == SymbolKind::Text;
    if is_code && matches_any(DEFINITIONS, name) {
        return found("definition", "a solution must not replace functions of HIP or of the C library");
    }
    None
}

/// Finds code that runs before `main`, other than what the compiler generates.
fn early_code(file: &ElfFile64<'_, object::Endianness>) -> Option<ObjectBreach> {
    let about = "no code of a solution may run before it is called";
    for section in file.sections() {
        let name = section.name().unwrap_or_default();
        // The C library calls the code in `.init` and `.fini`, and the functions in lists.
        let lists = [".preinit_array", ".ctors", ".dtors", ".fini_array"];
        if name == ".init" || name == ".fini" || lists.iter().any(|list| name.starts_with(list)) {
            return Some(ObjectBreach { rule: "constructor", about, symbol: name.to_owned() });
        }
        if !name.starts_with(".init_array") {
            continue;
        }
        for (_, relocation) in section.relocations() {
            let target = target(file, &relocation);
            if target != "__hip_module_ctor" && !target.starts_with("_GLOBAL__sub_I_") {
                return Some(ObjectBreach { rule: "constructor", about, symbol: target });
            }
        }
    }
    None
}

/// Name of the function that a relocation refers to, directly or by its position in a section.
fn target(file: &ElfFile64<'_, object::Endianness>, relocation: &object::Relocation) -> String {
    let RelocationTarget::Symbol(index) = relocation.target() else { return String::new() };
    let Ok(symbol) = file.symbol_by_index(index) else { return String::new() };
    let is_same = |other: &ElfSymbol64<'_, '_>| {
        let at = i128::from(symbol.address()) + i128::from(relocation.addend());
        other.kind() == SymbolKind::Text
            && other.section_index() == symbol.section_index()
            && i128::from(other.address()) == at
    };
    let found = match symbol.kind() {
        SymbolKind::Section => file.symbols().find(is_same),
        _ => Some(symbol),
    };
    found.and_then(|symbol| symbol.name().ok().map(str::to_owned)).unwrap_or_default()
}

fn matches_any(patterns: &[&str], name: &str) -> bool {
    patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == *pattern,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_whole_names_or_prefixes() {
        assert!(matches_any(&["open", "exec*"], "execve") && matches_any(&["open"], "open"));
        assert!(!matches_any(&["open", "exec*"], "opened") && !matches_any(&["exec*"], "exe"));
    }

    #[test]
    fn what_is_not_an_object_file_is_refused() {
        assert_eq!(breach(b"no object", 1).unwrap().rule, "object");
    }
}
