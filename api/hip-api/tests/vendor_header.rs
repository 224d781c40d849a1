//! Compares the table with the vendor's HIP 7 header: signatures, opcodes, struct layouts, constants.
//!
//! Generates a C++ file and compiles it with clang; every check in it is a `static_assert`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use hip_api::{HipFn, TABLE, types};

const PREAMBLE: &str = r#"
#include <stddef.h>
#include <hip/hip_runtime_api.h>
#include <hip/hip_deprecated.h>
#include <hip/hip_gl_interop.h>
#include <hip/hiprtc.h>
#include <hip/hip_ext.h>
#include <type_traits>
#include <hip/amd_detail/hip_api_trace.hpp>
// Rust has one 64-bit integer of each sign where C has two.
template <class T> struct norm { using type = T; };
template <> struct norm<unsigned long long> { using type = unsigned long; };
template <> struct norm<long long> { using type = long; };
#ifndef __x86_64__
template <> struct norm<unsigned char> { using type = char; };
#endif
template <class T> struct norm<const T> { using type = const typename norm<T>::type; };
template <class T> struct norm<T *> { using type = typename norm<T>::type *; };
template <class R, class... A> struct norm<R(A...)> {
  using type = typename norm<R>::type(typename norm<A>::type...);
};
template <class A, class B> inline constexpr bool same =
    std::is_same_v<typename norm<A>::type, typename norm<B>::type>;
template <class F> using target = std::remove_pointer_t<F>;
// The header renames these two to their HIP 6 form; the table has both forms.
#undef hipGetDeviceProperties
#undef hipChooseDevice
"#;

/// Rows that the HIP 7 headers do not declare, and the source of their signature.
const UNDECLARED: &[(&str, &str)] = &[
    ("hipGetCmdName", "exported for profilers, declared in no header since HIP 5"),
    ("hipRegisterTracerCallback", "exported for profilers, declared in no header"),
    ("hipRegisterApiCallback", "HIP 5 only"),
    ("hipRemoveApiCallback", "HIP 5 only"),
    ("hipRegisterActivityCallback", "HIP 5 only"),
    ("hipRemoveActivityCallback", "HIP 5 only"),
    ("hipInitActivityCallback", "HIP 5 only"),
    ("hipEnableActivityCallback", "HIP 5 only"),
    ("__gnu_f2h_ieee", "a compiler support routine"),
    ("__gnu_h2f_ieee", "a compiler support routine"),
    ("_ZN8hip_impl22hipLaunchKernelGGLImplEmRK4dim3S2_jP12ihipStream_tPPv", "HIP 5 only"),
];

/// Rows that are aliases of another function.
const TWINS: &[(&str, &str)] = &[
    ("hipGetDeviceProperties", "hipGetDevicePropertiesR0000"),
    ("hipChooseDevice", "hipChooseDeviceR0000"),
    ("_Z22hipCreateSurfaceObjectPP13__hip_surfacePK15hipResourceDesc", "hipCreateSurfaceObject"),
    ("_Z23hipDestroySurfaceObjectP13__hip_surface", "hipDestroySurfaceObject"),
    (
        "_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j",
        "hipExtModuleLaunchKernel",
    ),
    (
        "_Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_",
        "hipHccModuleLaunchKernel",
    ),
];

/// Rows that the vendor declares only in the dispatch table.
const SLOT_ALONE: &[&str] = &[
    "__hipRegisterFatBinary",
    "__hipRegisterFunction",
    "__hipRegisterManagedVar",
    "__hipRegisterSurface",
    "__hipRegisterTexture",
    "__hipRegisterVar",
    "__hipUnregisterFatBinary",
];

/// C++ overloads many of these functions, but a dispatch table slot has one type.
#[test]
fn every_signature_is_the_vendors_slot() {
    let mut source = String::from("namespace row {\n");
    for row in TABLE {
        writeln!(source, "{};", row.declaration()).unwrap();
    }
    source += "}\n";
    for row in TABLE {
        let name = row.name;
        let theirs = if let Some((_, twin)) = TWINS.iter().find(|(it, _)| *it == name) {
            // The slot of hipChooseDevice has the HIP 6 signature, its export the HIP 5 signature.
            format!("target<decltype(HipDispatchTable::{twin}_fn)>")
        } else if let Some((table, _)) = slot(row) {
            format!("target<decltype({table}::{name}_fn)>")
        } else {
            continue;
        };
        claim(&mut source, &format!("same<decltype(row::{name}), {theirs}>"), name);
    }
    judge("signatures.cpp", &source);
}

/// C functions cannot be overloaded: repeating a declaration with a different type is an error.
#[test]
fn every_signature_is_the_vendors_declaration() {
    let mut source = String::new();
    for row in TABLE {
        let declaration = row.declaration();
        // Rust has one unsigned 64-bit integer type where C has two; those rows are checked by their slot.
        let skipped = declaration.contains("uint64_t")
            || SLOT_ALONE.contains(&row.name)
            || TWINS.iter().chain(UNDECLARED).any(|(name, _)| *name == row.name);
        if !skipped {
            // The using-declaration fails if the header does not declare the function.
            writeln!(source, "namespace vendor {{ using ::{}; }}", row.name).unwrap();
            writeln!(source, "extern \"C\" {declaration};").unwrap();
        }
    }
    judge("declarations.cpp", &source);
}

#[test]
fn every_opcode_is_the_vendors_slot() {
    let mut source = String::new();
    for row in TABLE {
        if let Some((table, index)) = slot(row) {
            let offset = format!("offsetof({table}, {}_fn)", row.name);
            claim(&mut source, &format!("{offset} == sizeof(size_t) + {index} * sizeof(void *)"), row.name);
        }
    }
    judge("opcodes.cpp", &source);
}

#[test]
fn every_struct_is_laid_out_like_the_vendors() {
    let mut source = String::new();
    for layout in types::layouts() {
        let name = layout.name;
        claim(&mut source, &format!("sizeof({name}) == {}", layout.size), name);
        claim(&mut source, &format!("alignof({name}) == {}", layout.align), name);
        for field in layout.fields {
            let member = field.name.trim_start_matches("r#");
            let what = format!("{name}.{member}");
            claim(&mut source, &format!("offsetof({name}, {member}) == {}", field.offset), &what);
            claim(&mut source, &format!("sizeof((({name} *)nullptr)->{member}) == {}", field.size), &what);
        }
    }
    claim(
        &mut source,
        &format!("sizeof(hipDeviceArch_t) == {}", size_of::<types::hipDeviceArch_t>()),
        "arch",
    );
    judge("layouts.cpp", &source);
}

#[test]
fn every_constant_has_the_vendors_value() {
    let mut source = String::new();
    for enumeration in types::enumerations() {
        claim(&mut source, &format!("sizeof({}) == 4", enumeration.name), enumeration.name);
        for (name, value) in enumeration.constants {
            claim(&mut source, &format!("std::is_same_v<decltype({name}), {}>", enumeration.name), name);
            claim(&mut source, &format!("static_cast<unsigned>({name}) == {value}u"), name);
        }
    }
    for (name, value) in types::flags() {
        claim(&mut source, &format!("static_cast<unsigned>({name}) == {value}u"), name);
    }
    claim(&mut source, &format!("hipCpuDeviceId == {}", types::hipCpuDeviceId), "hipCpuDeviceId");
    claim(&mut source, &format!("hipInvalidDeviceId == {}", types::hipInvalidDeviceId), "hipInvalidDeviceId");
    judge("constants.cpp", &source);
}

/// A wrong signature must be detected, or the tests above prove nothing.
#[test]
fn a_wrong_signature_is_found() {
    let slot = "target<decltype(HipDispatchTable::hipFree_fn)>";
    let in_slot = format!("static_assert(same<hipError_t(int), {slot}>, \"hipFree\");\n");
    for (file, source) in
        [("slot.cpp", &*in_slot), ("declaration.cpp", "extern \"C\" hipError_t hipFree(int ptr);\n")]
    {
        let error = compile(file, source).expect_err("clang accepted a wrong signature");
        assert!(error.contains("hipFree"), "clang does not name the function:\n{error}");
    }
}

fn claim(source: &mut String, condition: &str, what: &str) {
    writeln!(source, "static_assert({condition}, \"{what}\");").unwrap();
}

/// Dispatch table and slot for a row's number.
fn slot(row: &HipFn) -> Option<(&'static str, u16)> {
    match row.number {
        0..0x8000 => Some(("HipDispatchTable", row.number)),
        0x8000..0x9000 => Some(("HipCompilerDispatchTable", row.number - 0x8000)),
        _ => None,
    }
}

fn judge(name: &str, source: &str) {
    if let Err(message) = compile(name, source) {
        panic!("the vendor header disagrees with the table:\n{message}");
    }
}

fn compile(name: &str, source: &str) -> Result<(), String> {
    let include = toolchain().join("hip7/usr/include");
    assert!(
        include.join("hip/hip_runtime_api.h").is_file(),
        "no HIP 7 headers at {}: run `cargo xtask setup`, or set REMORA_TOOLCHAIN to an unpacked toolchain",
        include.display()
    );
    let scratch = tempfile::tempdir().expect("scratch folder");
    let file = scratch.path().join(name);
    std::fs::write(&file, [PREAMBLE, source].concat()).expect("write the claims");
    let output = Command::new("clang++-19")
        .arg("-std=c++17")
        .args(["-fsyntax-only", "-w", "-ferror-limit=200", "-D__HIP_PLATFORM_AMD__"])
        .arg("-isystem")
        .arg(&include)
        .arg(&file)
        .output()
        .unwrap_or_else(|error| panic!("cannot run clang++-19 ({error}): run `cargo xtask setup`"));
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

fn toolchain() -> PathBuf {
    match std::env::var_os("REMORA_TOOLCHAIN") {
        Some(path) => path.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/toolchain"),
    }
}
