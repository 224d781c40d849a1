//! Output of real compilers is parsed in agreement with the compilers' own tools.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::toolchain::{assemble, compile_device, compile_hip, fixture_text, link_host, llvm, output_of};
use code_object::{
    AddressSpace, ArgKind, CodeObject, Error, FatBinary, RelocationKind, RelocationTarget, SourceLines,
    SymbolKind, TargetId, container_size, embedded_targets, parse_bundle,
};

fn target(text: &str) -> TargetId {
    text.parse().unwrap()
}

/// The main fixture for gfx90a, compiled once.
fn kernels_gfx90a() -> &'static CodeObject {
    static OBJECT: OnceLock<CodeObject> = OnceLock::new();
    OBJECT.get_or_init(|| CodeObject::parse(compile_device("kernels.hip", "gfx90a", &[]).into()).unwrap())
}

/// Host object of the main fixture for two processors.
fn host_object(compressed: bool) -> &'static [u8] {
    static PLAIN: OnceLock<Vec<u8>> = OnceLock::new();
    static COMPRESSED: OnceLock<Vec<u8>> = OnceLock::new();
    let archs = ["--offload-arch=gfx942", "--offload-arch=gfx90a:xnack-", "-c", "-fPIE"];
    if compressed {
        COMPRESSED
            .get_or_init(|| compile_hip("kernels.hip", &[archs.as_slice(), &["--offload-compress"]].concat()))
    } else {
        PLAIN.get_or_init(|| compile_hip("kernels.hip", &archs))
    }
}

/// The bundle alone, as `--offload-device-only` writes it.
fn bundle(compressed: bool) -> Vec<u8> {
    let mut arguments =
        vec!["--offload-arch=gfx942", "--offload-arch=gfx90a:xnack-", "--offload-device-only"];
    if compressed {
        arguments.push("--offload-compress");
    }
    // The compilation ID depends on the arguments; without it both forms contain the same bytes.
    compile_hip("plain.hip", &[arguments.as_slice(), &["-nogpulib", "-nogpuinc", "-fuse-cuid=none"]].concat())
}

#[test]
fn arguments_are_split_into_explicit_and_hidden() {
    let scale = kernels_gfx90a().kernel("scale").unwrap();
    assert_eq!(scale.explicit_args, 4);
    let layout: Vec<_> =
        scale.explicit().iter().map(|arg| (arg.offset, arg.size, arg.kind.clone())).collect();
    assert_eq!(
        layout,
        [
            (0, 8, ArgKind::GlobalBuffer),
            (8, 8, ArgKind::GlobalBuffer),
            (16, 4, ArgKind::ByValue),
            (20, 4, ArgKind::ByValue),
        ]
    );
    assert_eq!(scale.args[0].address_space, Some(AddressSpace::Global));
    assert_eq!(scale.args[0].access.as_deref(), Some("read_only"));
    assert!(scale.has_arg(&ArgKind::HiddenBlockCountX));
    assert_eq!(scale.hidden().count(), scale.args.len() - 4);
    assert_eq!((scale.kernarg_size, scale.kernarg_align), (280, 8));
    assert_eq!(scale.language_version, Some([2, 0]));
    assert!(scale.uniform_workgroup_size);

    let sum = kernels_gfx90a().kernel("sum").unwrap();
    let last = &sum.explicit()[3];
    assert_eq!((sum.explicit_args, last.offset, last.size), (4, 24, 32));
    assert_eq!((sum.group_size, sum.max_flat_workgroup_size), (1024, 256));
    assert!(kernels_gfx90a().kernel("speak").unwrap().has_arg(&ArgKind::HiddenHostcallBuffer));
    assert_eq!(kernels_gfx90a().kernel("count").unwrap().explicit_args, 0);
    assert!(kernels_gfx90a().kernel("missing").is_none());
}

#[test]
fn entry_points_are_where_the_function_symbols_are() {
    let object = kernels_gfx90a();
    assert_eq!(object.kernels().len(), 5);
    for kernel in object.kernels() {
        assert_eq!(object.symbol(&kernel.name).unwrap().value, kernel.entry_address, "{}", kernel.name);
        assert_eq!(kernel.entry_address % 256, 0);
        assert_eq!(object.symbol(&kernel.symbol).unwrap().kind, SymbolKind::KernelDescriptor);
        assert!(object.bytes_at(kernel.entry_address, 4).is_some());
    }
}

#[test]
fn descriptors_follow_the_processors_convention() {
    let scale = &kernels_gfx90a().kernel("scale").unwrap().descriptor;
    assert!(scale.private_segment_buffer && scale.kernarg_ptr && !scale.flat_scratch_init);
    assert_eq!((scale.user_sgpr_count, scale.workitem_id_dims, scale.wavefront_size()), (6, 1, 64));
    assert_eq!((scale.denorm_f32, scale.denorm_f16_f64, scale.round_f32), (3, 3, 0));
    let sum = kernels_gfx90a().kernel("sum").unwrap();
    assert_eq!(sum.descriptor.group_segment_size, 1024);

    let gfx942 = CodeObject::parse(compile_device("kernels.hip", "gfx942", &[]).into()).unwrap();
    let scale = &gfx942.kernel("scale").unwrap().descriptor;
    assert!(!scale.private_segment_buffer && scale.kernarg_ptr);
    assert_eq!(scale.user_sgpr_count, 2);
    assert_eq!(gfx942.isa_name(), "amdgcn-amd-amdhsa--gfx942");
}

#[test]
fn globals_keep_their_address_size_and_initial_value() {
    let object = kernels_gfx90a();
    let counters = object.symbol("counters").unwrap();
    assert_eq!((counters.size, counters.kind), (16, SymbolKind::Variable));
    let bytes = object.bytes_at(counters.value, 16).unwrap();
    assert_eq!(bytes, [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0]);
    let weights = object.symbol("weights").unwrap();
    assert_eq!(weights.size, 32);
    // Zero-initialised data takes space in memory but not in the file.
    let segment = object.segments().iter().find(|segment| segment.contains(weights.value, 32)).unwrap();
    assert!(segment.is_writable() && !segment.is_executable());
    assert!(segment.bytes.len() as u64 <= weights.value - segment.vaddr);
    assert!(object.load_size() >= weights.value + 32);
}

#[test]
fn a_stored_address_becomes_a_relocation() {
    let object = kernels_gfx90a();
    let pointer = object.symbol("third_counter").unwrap();
    let pointee = object.symbol("counters").unwrap().value + 8;
    let [relocation] = object.relocations() else { panic!("{:?}", object.relocations()) };
    assert_eq!(relocation.address, pointer.value);
    assert_eq!(relocation.kind, RelocationKind::Relative64);
    assert_eq!(relocation.target, RelocationTarget::Base);
    assert_eq!(relocation.value(0x7000_0000_0000), Some((0x7000_0000_0000 + pointee, 8)));
}

/// Independent check: LLVM's own reader prints the same kernels, sizes and arguments.
#[test]
fn kernels_and_arguments_agree_with_llvm_readelf() {
    for arch in ["gfx90a", "gfx942:xnack+"] {
        for version in ["4", "5"] {
            let flag = format!("-mcode-object-version={version}");
            let image = compile_device("kernels.hip", arch, &[&flag]);
            let judged = readelf_kernels(&image);
            let object = CodeObject::parse(image.into()).unwrap();
            assert_eq!(object.target(), &target(arch));
            assert_eq!(object.abi_version() + 2, version.parse::<u8>().unwrap());
            assert_eq!(judged.len(), 5);
            let ours: Vec<_> = object.kernels().iter().map(described).collect();
            assert_eq!(ours, judged, "{arch} version {version}");
        }
    }
}

type Described = (BTreeMap<String, String>, Vec<BTreeMap<String, String>>);

const KERNEL_KEYS: [&str; 11] = [
    ".name",
    ".symbol",
    ".kernarg_segment_size",
    ".kernarg_segment_align",
    ".group_segment_fixed_size",
    ".private_segment_fixed_size",
    ".sgpr_count",
    ".vgpr_count",
    ".agpr_count",
    ".max_flat_workgroup_size",
    ".wavefront_size",
];
const ARG_KEYS: [&str; 3] = [".offset", ".size", ".value_kind"];

fn described(kernel: &code_object::Kernel) -> Described {
    let numbers = [
        kernel.kernarg_size,
        kernel.kernarg_align,
        kernel.group_size,
        kernel.private_size,
        kernel.sgpr_count,
        kernel.vgpr_count,
        kernel.agpr_count,
        kernel.max_flat_workgroup_size,
        kernel.wavefront_size,
    ];
    let texts = [kernel.name.clone(), kernel.symbol.clone()].into_iter();
    let values = texts.chain(numbers.into_iter().map(|number| number.to_string()));
    let keys = KERNEL_KEYS.into_iter().map(str::to_owned);
    let args = kernel.args.iter().map(|arg| {
        let values = [arg.offset.to_string(), arg.size.to_string(), arg.kind.name().to_owned()];
        ARG_KEYS.into_iter().map(str::to_owned).zip(values).collect()
    });
    (keys.zip(values).collect(), args.collect())
}

/// Parses the block-style YAML that `llvm-readelf --notes` prints.
fn readelf_kernels(image: &[u8]) -> Vec<Described> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    std::fs::write(&path, image).unwrap();
    let output = llvm("llvm-readelf").arg("--notes").arg(&path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut kernels: Vec<Described> = Vec::new();
    for line in text.lines().skip_while(|line| *line != "amdhsa.kernels:").skip(1) {
        if !line.starts_with("  ") {
            break;
        }
        let indent = line.len() - line.trim_start().len();
        let (starts, entry) = match line.trim_start().strip_prefix("- ") {
            Some(entry) => (true, entry),
            None => (false, line.trim_start()),
        };
        let (key, value) = entry.split_once(':').unwrap_or((entry, ""));
        let pair = (key.to_owned(), value.trim().to_owned());
        match (indent, starts) {
            (2, true) => kernels.push((BTreeMap::from([pair]), Vec::new())),
            (4, false) => drop(kernels.last_mut().unwrap().0.insert(pair.0, pair.1)),
            (6, true) if key.starts_with('.') => kernels.last_mut().unwrap().1.push(BTreeMap::from([pair])),
            (8, false) => drop(kernels.last_mut().unwrap().1.last_mut().unwrap().insert(pair.0, pair.1)),
            _ => {}
        }
    }
    for (kernel, args) in &mut kernels {
        kernel.retain(|key, _| KERNEL_KEYS.contains(&key.as_str()));
        args.iter_mut().for_each(|arg| arg.retain(|key, _| ARG_KEYS.contains(&key.as_str())));
    }
    kernels
}

#[test]
fn code_object_versions_four_to_six_are_read() {
    for (arch, version, expected) in [
        ("gfx90a:xnack-", 4u8, "gfx90a:xnack-"),
        ("gfx942:sramecc+:xnack-", 5, "gfx942:sramecc+:xnack-"),
        ("gfx942", 6, "gfx942"),
        ("gfx9-generic", 6, "gfx9-generic"),
    ] {
        let flag = format!("-mcode-object-version={version}");
        let image = compile_device("plain.hip", arch, &["-nogpulib", "-nogpuinc", &flag]);
        let object = CodeObject::parse(image.into()).unwrap();
        assert_eq!(object.abi_version(), version - 2);
        assert_eq!(object.target(), &target(expected));
        assert_eq!(object.kernel("store").unwrap().explicit_args, 2);
    }
}

#[test]
fn buffered_printf_formats_are_kept() {
    let image = compile_device("kernels.hip", "gfx90a", &["-mprintf-kind=buffered"]);
    let object = CodeObject::parse(image.into()).unwrap();
    let [format] = object.printf_formats() else { panic!("{:?}", object.printf_formats()) };
    assert!(format.contains("value %d\n"), "{format:?}");
    assert!(object.kernel("speak").unwrap().has_arg(&ArgKind::HiddenPrintfBuffer));
    assert!(kernels_gfx90a().printf_formats().is_empty());
}

#[test]
fn a_kernel_without_metadata_is_known_by_its_descriptor() {
    let image = assemble("gfx90a:xnack-", &[fixture_text("bare.s")]);
    let object = CodeObject::parse(image.into()).unwrap();
    assert_eq!(object.target(), &target("gfx90a:xnack-"));
    let kernel = object.kernel("bare").unwrap();
    assert_eq!((kernel.args.len(), kernel.explicit_args), (0, 0));
    assert_eq!((kernel.kernarg_size, kernel.group_size, kernel.private_size), (24, 512, 16));
    let descriptor = &kernel.descriptor;
    assert_eq!((descriptor.vgpr_count, descriptor.accum_offset), (24, 12));
    assert!(descriptor.kernarg_ptr && descriptor.workgroup_id_x && descriptor.workgroup_id_y);
    assert!(!descriptor.workgroup_id_z && !descriptor.ieee_mode);
    assert_eq!(descriptor.workitem_id_dims, 3);
}

#[test]
fn a_kernel_whose_metadata_has_no_arguments_is_usable() {
    let image = assemble("gfx942", &[fixture_text("no_args.s").replace("METADATA_NAME", "no_args")]);
    let object = CodeObject::parse(image.into()).unwrap();
    let kernel = object.kernel("no_args").unwrap();
    assert_eq!((kernel.args.len(), kernel.kernarg_size), (0, 40));
    assert_eq!(kernel.reqd_workgroup_size, Some([64, 2, 1]));
    assert_eq!(object.kernels().len(), 1);
}

#[test]
fn a_kernel_without_its_descriptor_symbol_is_named_in_the_error() {
    let image = assemble("gfx942", &[fixture_text("no_args.s").replace("METADATA_NAME", "ghost")]);
    match CodeObject::parse(image.into()) {
        Err(Error::MissingDescriptor { kernel, symbol }) => {
            assert_eq!((kernel.as_str(), symbol.as_str()), ("ghost", "ghost.kd"));
        }
        other => panic!("{other:?}"),
    }
}

/// Libraries of hand-written kernels are linked from one object per kernel, and the linker keeps every note.
#[test]
fn the_metadata_of_all_linked_objects_counts() {
    let text = fixture_text("no_args.s").replace("METADATA_NAME", "no_args");
    let texts = ["first", "second", "third"].map(|name| text.replace("no_args", name));
    let object = CodeObject::parse(assemble("gfx942", &texts).into()).unwrap();
    let names: Vec<_> = object.kernels().iter().map(|kernel| kernel.name.as_str()).collect();
    assert_eq!(names, ["first", "second", "third"]);
    assert!(object.kernels().iter().all(|kernel| kernel.kernarg_size == 40));
}

#[test]
fn bundles_plain_and_compressed_give_the_same_images() {
    let (plain, compressed) = (bundle(false), bundle(true));
    assert!(plain.starts_with(b"__CLANG_OFFLOAD_BUNDLE__") && compressed.starts_with(b"CCOB"));
    assert_eq!(container_size(&plain).unwrap(), plain.len());
    assert_eq!(container_size(&compressed).unwrap(), compressed.len());
    let borrowed = parse_bundle(&plain).unwrap();
    let (plain, compressed) = (FatBinary::parse(&plain).unwrap(), FatBinary::parse(&compressed).unwrap());
    assert_eq!(plain.entries().len(), 3);
    for ((left, right), view) in plain.entries().iter().zip(compressed.entries()).zip(borrowed) {
        assert_eq!((&left.id, &left.target), (&right.id, &right.target));
        assert_eq!(left.id, view.id);
        assert!(left.image == right.image && &*left.image == view.bytes, "{}", left.id);
    }
    let targets: Vec<_> = plain.entries().iter().map(|entry| entry.target.clone()).collect();
    assert_eq!(targets, [None, Some(target("gfx90a:xnack-")), Some(target("gfx942"))]);
    for device in ["gfx90a:sramecc+:xnack-", "gfx942:sramecc+:xnack-"] {
        let entry = plain.select(&target(device)).unwrap();
        let object = CodeObject::parse(Arc::clone(&entry.image)).unwrap();
        assert!(object.target().compatible(&target(device)));
        assert!(object.kernel("store").is_some());
    }
    assert!(plain.select(&target("gfx90a:xnack+")).is_none());
    assert!(plain.select(&target("gfx1100")).is_none());
}

#[test]
fn a_raw_code_object_is_a_fat_binary_of_one() {
    let object = kernels_gfx90a();
    assert_eq!(container_size(object.image()).unwrap(), object.image().len());
    let binary = FatBinary::parse(object.image()).unwrap();
    let [entry] = binary.entries() else { panic!("{:?}", binary.entries().len()) };
    assert_eq!(entry.id, "amdgcn-amd-amdhsa--gfx90a");
    assert_eq!(&entry.image, object.image());
}

#[test]
fn a_host_program_lists_its_device_targets() {
    let expected = [target("gfx90a:xnack-"), target("gfx942")];
    for compressed in [false, true] {
        let object = host_object(compressed);
        assert_eq!(embedded_targets(object).unwrap(), expected);
        let program = link_host(object);
        assert_eq!(embedded_targets(&program).unwrap(), expected);
        // The alignment of the file in memory must not matter.
        let shifted = [b"x", program.as_slice()].concat();
        assert_eq!(embedded_targets(&shifted[1..]).unwrap(), expected);
    }
}

#[test]
fn a_fat_binary_in_another_section_is_found_through_its_wrapper() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    std::fs::write(&path, link_host(host_object(true))).unwrap();
    let renamed = folder.path().join("renamed");
    let mut objcopy = llvm("llvm-objcopy");
    objcopy.arg("--rename-section=.hip_fatbin=.elsewhere").arg(&path).arg(&renamed);
    assert!(objcopy.status().unwrap().success());
    let program = std::fs::read(&renamed).unwrap();
    assert_eq!(embedded_targets(&program).unwrap(), [target("gfx90a:xnack-"), target("gfx942")]);
}

#[test]
fn a_program_without_device_code_has_no_targets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program.c");
    std::fs::write(&path, "int main(void) { return 0; }").unwrap();
    let mut clang = llvm("clang");
    clang.arg(&path);
    let program = output_of(clang);
    assert_eq!(embedded_targets(&program).unwrap(), []);
    assert!(matches!(FatBinary::parse(&program), Err(Error::NotAmdGpu(62 | 183))));
    assert!(matches!(CodeObject::parse(program.into()), Err(Error::NotAmdGpu(62 | 183))));
    assert!(matches!(embedded_targets(b"#!/bin/sh\n"), Err(Error::Elf(_))));
}

#[test]
fn instructions_know_their_source_lines_when_built_to() {
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let image = compile_device("plain.hip", "gfx942", &["-nogpulib", "-nogpuinc", "-g", version]);
        let lines = SourceLines::parse(&image);
        let object = CodeObject::parse(image.into()).unwrap();
        let entry = object.kernel("store").unwrap().entry_address;
        let symbol = object.symbol("store").unwrap();
        let found: Vec<_> =
            (entry..entry + symbol.size).step_by(4).map(|at| lines.find(at).unwrap()).collect();
        assert!(found.iter().all(|line| line.file_name() == "plain.hip"), "{found:?}");
        assert!(found.iter().any(|line| line.line == 3), "the store: {found:?}");
        assert!(found.iter().any(|line| line.line == 4), "the end: {found:?}");
        assert!(found[0].file.starts_with('/'), "the whole path is known: {found:?}");
        assert_eq!(lines.find(entry + symbol.size), None, "nothing is known behind the last instruction");
        assert_eq!(lines.find(0), None);
    }
    let plain = compile_device("plain.hip", "gfx942", &["-nogpulib", "-nogpuinc"]);
    assert!(SourceLines::parse(&plain).is_empty());
    assert!(SourceLines::parse(b"\x7fELF").is_empty());
}
