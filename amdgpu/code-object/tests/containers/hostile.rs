//! Hand-made and corrupted containers: all versions are parsed, all corruption is an error, and measuring a bare pointer never
//! reads past the container.

use std::io::Write;
use std::sync::Arc;

use fastrand::Rng;

use crate::toolchain::compile_device;
use code_object::{
    CodeObject, Error, FatBinary, SourceLines, TargetId, container_size, fat_binary_size, parse_bundle,
};

const MAGIC: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";

/// A plain bundle with its content aligned to `align`.
fn bundle_of(entries: &[(&str, &[u8])], align: usize) -> Vec<u8> {
    let header: usize = 32 + entries.iter().map(|(id, _)| 24 + id.len()).sum::<usize>();
    let mut offset = header.next_multiple_of(align);
    let mut table = [MAGIC, &(entries.len() as u64).to_le_bytes()].concat();
    let mut content = Vec::new();
    for (id, bytes) in entries {
        for word in [offset, bytes.len(), id.len()] {
            table.extend((word as u64).to_le_bytes());
        }
        table.extend(id.as_bytes());
        content.push((offset, *bytes));
        offset = (offset + bytes.len()).next_multiple_of(align);
    }
    let last = content.iter().map(|(offset, bytes)| offset + bytes.len()).max().unwrap_or(header);
    table.resize(last.max(header), 0);
    for (offset, bytes) in content {
        table[offset..offset + bytes.len()].copy_from_slice(bytes);
    }
    table
}

fn example_bundle() -> Vec<u8> {
    let noise: Vec<u8> = (0..20_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    bundle_of(
        &[
            ("host-x86_64-unknown-linux-gnu-", b""),
            ("hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-", b"image one"),
            ("hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+", &noise),
            ("hipv4-amdgcn-amd-amdhsa--gfx942", &noise[..9000]),
        ],
        4096,
    )
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Method {
    Zlib = 0,
    Zstd = 1,
}

fn compress(bytes: &[u8], method: Method) -> Vec<u8> {
    match method {
        Method::Zlib => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Method::Zstd => zstd::bulk::compress(bytes, 3).unwrap(),
    }
}

fn wrap(payload: &[u8], version: u16, method: u16, expanded: u64) -> Vec<u8> {
    let hash = 0x0123_4567_89ab_cdefu64.to_le_bytes();
    let mut out = [b"CCOB".as_slice(), &version.to_le_bytes(), &method.to_le_bytes()].concat();
    match version {
        1 => out.extend((expanded as u32).to_le_bytes()),
        2 => {
            out.extend((24 + payload.len() as u32).to_le_bytes());
            out.extend((expanded as u32).to_le_bytes());
        }
        _ => {
            out.extend((32 + payload.len() as u64).to_le_bytes());
            out.extend(expanded.to_le_bytes());
        }
    }
    out.extend(hash);
    out.extend(payload);
    out
}

fn compressed(bytes: &[u8], version: u16, method: Method) -> Vec<u8> {
    wrap(&compress(bytes, method), version, method as u16, bytes.len() as u64)
}

fn every_compressed_form(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut forms = Vec::new();
    for version in 1..=3 {
        for method in [Method::Zlib, Method::Zstd] {
            forms.push((format!("version {version}, {method:?}"), compressed(bytes, version, method)));
        }
    }
    forms
}

fn ids(binary: &FatBinary) -> Vec<&str> {
    binary.entries().iter().map(|entry| entry.id.as_str()).collect()
}

fn target(text: &str) -> TargetId {
    text.parse().unwrap()
}

/// A small real code object.
fn real_image() -> Vec<u8> {
    compile_device("plain.hip", "gfx942", &["-nogpulib", "-nogpuinc"])
}

#[test]
fn every_compressed_version_and_method_expands_to_the_bundle() {
    let plain = example_bundle();
    let expected = FatBinary::parse(&plain).unwrap();
    assert_eq!(expected.entries().len(), 4);
    for (form, bytes) in every_compressed_form(&plain) {
        assert_eq!(container_size(&bytes).unwrap(), bytes.len(), "{form}");
        let binary = FatBinary::parse(&bytes).unwrap();
        assert_eq!(ids(&binary), ids(&expected), "{form}");
        for (ours, theirs) in binary.entries().iter().zip(expected.entries()) {
            assert_eq!(ours.image, theirs.image, "{form}");
        }
    }
}

#[test]
fn zstd_frames_of_every_header_shape_are_measured() {
    let noise: Vec<u8> = (0..400_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
    for (size, checksum, content_size) in [
        (100, false, true),
        (300, true, true),
        (70_000, true, true),
        (400_000, false, true),
        (400_000, true, false),
    ] {
        for content in [&noise[..size], &vec![7u8; size]] {
            let bundle = bundle_of(&[("hipv4-amdgcn-amd-amdhsa--gfx942", content)], 64);
            let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
            encoder.include_checksum(checksum).unwrap();
            encoder.include_contentsize(content_size).unwrap();
            encoder.set_pledged_src_size(content_size.then_some(bundle.len() as u64)).unwrap();
            encoder.write_all(&bundle).unwrap();
            let bytes = wrap(&encoder.finish().unwrap(), 1, 1, bundle.len() as u64);
            assert_eq!(container_size(&bytes).unwrap(), bytes.len());
            assert_eq!(&*FatBinary::parse(&bytes).unwrap().entries()[0].image, content);
        }
    }
}

#[test]
fn containers_one_after_another_are_all_read() {
    let first = bundle_of(&[("hipv4-amdgcn-amd-amdhsa--gfx90a", b"first")], 4096);
    let second = bundle_of(&[("hipv4-amdgcn-amd-amdhsa--gfx942", b"second")], 8);
    for alignment in [4096, 8, 1] {
        let mut image = Vec::new();
        let mut expected = Vec::new();
        let mut forms = every_compressed_form(&second);
        forms.push(("plain".into(), second.clone()));
        for (_, form) in &forms {
            for part in [&first, form] {
                image.resize(image.len().next_multiple_of(alignment), 0);
                image.extend(part);
            }
            expected.extend([b"first".as_slice(), b"second"]);
        }
        image.resize(image.len().next_multiple_of(alignment) + alignment, 0);
        let binary = FatBinary::parse(&image).unwrap();
        let contents: Vec<&[u8]> = binary.entries().iter().map(|entry| &*entry.image).collect();
        assert_eq!(contents, expected, "alignment {alignment}");
        assert_eq!(container_size(&image).unwrap(), first.len());
    }
}

#[test]
fn the_most_specific_image_that_runs_is_selected() {
    let entry = |target: &'static str| (target, target.as_bytes());
    let bundle = bundle_of(
        &[
            entry("hip-spirv64-amd-amdhsa--amdgcnspirv"),
            entry("hipv4-amdgcn-amd-amdhsa--gfx9-4-generic"),
            entry("hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+"),
            entry("hipv4-amdgcn-amd-amdhsa--gfx90a"),
            entry("hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-"),
            entry("hipv4-amdgcn-amd-amdhsa--gfx950"),
        ],
        1,
    );
    let binary = FatBinary::parse(&bundle).unwrap();
    for (device, expected) in [
        ("gfx90a:sramecc+:xnack-", Some("gfx90a:xnack-")),
        ("gfx90a:sramecc+:xnack+", Some("gfx90a:xnack+")),
        ("gfx90a", Some("gfx90a:xnack-")),
        ("gfx942:sramecc+:xnack-", Some("gfx9-4-generic")),
        ("gfx950", Some("gfx950")),
        ("gfx908", None),
    ] {
        let selected = binary.select(&target(device)).and_then(|entry| entry.target.clone());
        assert_eq!(selected, expected.map(target), "{device}");
    }
}

/// A copy of `bytes` that ends exactly at the end of readable memory.
struct Guarded {
    map: *mut libc::c_void,
    len: usize,
    start: *const u8,
}

impl Guarded {
    fn new(bytes: &[u8]) -> Guarded {
        // SAFETY: queries the page size and accesses no memory.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let readable = bytes.len().next_multiple_of(page);
        let len = readable + page;
        // SAFETY: a fresh private mapping at an address that the kernel chooses.
        let map = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
        };
        assert_ne!(map, libc::MAP_FAILED);
        // SAFETY: the last page of this mapping, and a copy that ends where that page starts.
        let start = unsafe {
            assert_eq!(libc::mprotect(map.byte_add(readable), page, libc::PROT_NONE), 0);
            let start = map.cast::<u8>().add(readable - bytes.len());
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len());
            start
        };
        Guarded { map, len, start }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value, and nothing points into it any longer.
        unsafe { libc::munmap(self.map, self.len) };
    }
}

#[test]
fn a_bare_pointer_is_measured_without_reading_behind_the_container() {
    let plain = example_bundle();
    let mut containers = every_compressed_form(&plain);
    containers.push(("plain".into(), plain));
    containers.push(("raw".into(), real_image()));
    containers.push(("empty bundle".into(), bundle_of(&[], 1)));
    for (form, bytes) in containers {
        let memory = Guarded::new(&bytes);
        // SAFETY: a complete container, readable to the end of its last page.
        let size = unsafe { fat_binary_size(memory.start) };
        assert_eq!(size.unwrap(), bytes.len(), "{form}");
    }
    // SAFETY: null is rejected, and four readable bytes are enough to reject data that is not a container.
    unsafe {
        assert!(matches!(fat_binary_size(std::ptr::null()), Err(Error::UnknownContainer)));
        let memory = Guarded::new(b"nope");
        assert!(matches!(fat_binary_size(memory.start), Err(Error::UnknownContainer)));
    }
}

#[test]
fn every_truncation_is_an_error() {
    let bundle = bundle_of(
        &[("host-x86_64-unknown-linux-gnu-", b""), ("hipv4-amdgcn-amd-amdhsa--gfx942", b"some content")],
        64,
    );
    for length in 0..bundle.len() {
        assert!(parse_bundle(&bundle[..length]).is_err(), "{length}");
    }
    let mut containers = every_compressed_form(&bundle);
    containers.push(("plain".into(), bundle));
    let image = real_image();
    containers.push(("raw".into(), image.clone()));
    for (form, bytes) in containers {
        for length in 0..bytes.len() {
            assert!(container_size(&bytes[..length]).is_err(), "{form} cut to {length}");
            assert!(FatBinary::parse(&bytes[..length]).is_err(), "{form} cut to {length}");
        }
    }
    for length in 0..image.len() {
        assert!(CodeObject::parse(Arc::from(&image[..length])).is_err(), "{length}");
    }
}

#[test]
fn absurd_claims_are_refused_before_anything_is_allocated() {
    let mut many = [MAGIC, &u64::MAX.to_le_bytes()].concat();
    many.resize(4096, 0);
    assert!(matches!(parse_bundle(&many), Err(Error::TooLarge { what: "bundle entry count", .. })));

    let good = bundle_of(&[("hipv4-amdgcn-amd-amdhsa--gfx942", b"content")], 1);
    for (at, name) in [(32, "offset"), (40, "size"), (48, "id length")] {
        for value in [u64::MAX, u64::MAX - 31, 1 << 62, good.len() as u64 + 1] {
            let mut bad = good.clone();
            bad[at..at + 8].copy_from_slice(&value.to_le_bytes());
            assert!(parse_bundle(&bad).is_err(), "{name} {value:#x}");
            assert!(FatBinary::parse(&bad).is_err(), "{name} {value:#x}");
        }
    }

    let payload = compress(&good, Method::Zstd);
    let claim = wrap(&payload, 3, 1, 1 << 40);
    assert!(matches!(FatBinary::parse(&claim), Err(Error::TooLarge { what: "expanded bundle", .. })));
    let mut claim = compressed(&good, 3, Method::Zstd);
    claim[8..16].copy_from_slice(&(1u64 << 40).to_le_bytes());
    assert!(matches!(container_size(&claim), Err(Error::TooLarge { what: "compressed bundle", .. })));
    let mut claim = compressed(&good, 2, Method::Zstd);
    claim[8..12].copy_from_slice(&23u32.to_le_bytes());
    assert!(matches!(FatBinary::parse(&claim), Err(Error::Malformed { .. })));
}

#[test]
fn a_payload_of_another_size_than_declared_is_refused() {
    let bundle = example_bundle();
    for method in [Method::Zlib, Method::Zstd] {
        for version in 1..=3 {
            for declared in [bundle.len() as u64 - 1, bundle.len() as u64 + 1, 40_000] {
                let bytes = wrap(&compress(&bundle, method), version, method as u16, declared);
                assert!(
                    matches!(
                        FatBinary::parse(&bytes),
                        Err(Error::ExpandedSize { .. } | Error::Malformed { .. })
                    ),
                    "{method:?} version {version} declared {declared}"
                );
            }
        }
    }
    let unknown = wrap(b"", 4, 1, 0);
    assert!(matches!(FatBinary::parse(&unknown), Err(Error::CompressedVersion(4))));
    let unknown = wrap(b"", 2, 7, 0);
    assert!(matches!(FatBinary::parse(&unknown), Err(Error::CompressionMethod(7))));
    let nested = compressed(&compressed(&bundle, 2, Method::Zstd), 2, Method::Zstd);
    assert!(matches!(FatBinary::parse(&nested), Err(Error::UnknownContainer)));
}

#[test]
fn overlapping_entries_are_refused_and_equal_ones_share_a_copy() {
    let mut shared = bundle_of(
        &[("hipv4-amdgcn-amd-amdhsa--gfx90a", &[1; 100]), ("hipv4-amdgcn-amd-amdhsa--gfx942", &[2; 100])],
        1,
    );
    let second_row = 32 + 24 + 31;
    let first_offset: [u8; 8] = shared[32..40].try_into().unwrap();
    shared[second_row..second_row + 8].copy_from_slice(&first_offset);
    let binary = FatBinary::parse(&shared).unwrap();
    assert!(Arc::ptr_eq(&binary.entries()[0].image, &binary.entries()[1].image));

    // The second entry now overlaps nearly the whole bundle.
    let len = shared.len() as u64;
    shared[second_row..second_row + 8].copy_from_slice(&0u64.to_le_bytes());
    shared[second_row + 8..second_row + 16].copy_from_slice(&len.to_le_bytes());
    assert!(matches!(FatBinary::parse(&shared), Err(Error::Malformed { .. })));
}

#[test]
fn files_that_are_no_containers_are_refused() {
    for bytes in
        [b"".as_slice(), b"CCO", b"__CLANG_OFFLOAD_BUNDLE_", b"hello, world, this is text", &[0; 5000]]
    {
        assert!(FatBinary::parse(bytes).is_err());
        assert!(CodeObject::parse(bytes.into()).is_err());
    }
}

fn mutate(random: &mut Rng, bytes: &mut Vec<u8>) {
    const VALUES: [u64; 8] =
        [0, 1, 0x7f, 0xffff_ffff, u64::MAX, 0x8000_0000_0000_0000, 0xfff, 0x7fff_ffff_ffff_ffff];
    for _ in 0..1 + random.usize(..6) {
        // Headers contain most of the structure, so half of the corruption goes there.
        let span = if random.usize(..2) == 0 { bytes.len().min(1024) } else { bytes.len() };
        let at = random.usize(..span.max(1)).min(bytes.len().saturating_sub(1));
        match random.usize(..5) {
            0 => bytes[at] ^= 1 << random.usize(..8),
            1 => bytes[at] = random.u8(..),
            2 => {
                let value = VALUES[random.usize(..VALUES.len())].to_le_bytes();
                let end = (at + 8).min(bytes.len());
                bytes[at..end].copy_from_slice(&value[..end - at]);
            }
            3 => {
                let width = 1 << random.usize(..4);
                let value = random.u64(..8192).to_le_bytes();
                let end = (at + width).min(bytes.len());
                bytes[at..end].copy_from_slice(&value[..end - at]);
            }
            _ => bytes.truncate(bytes.len() - random.usize(..bytes.len() / 8 + 1)),
        }
        if bytes.is_empty() {
            return;
        }
    }
}

/// Checks the invariants that a loader relies on.
fn check(object: &CodeObject) {
    let mut end = 0;
    for segment in object.segments() {
        assert!(segment.vaddr >= end && segment.bytes.len() as u64 <= segment.memsz);
        end = segment.vaddr + segment.memsz;
    }
    assert_eq!(end, object.load_size());
    for symbol in object.symbols() {
        assert!(symbol.value + symbol.size <= end);
        assert!(object.symbol(&symbol.name).is_some());
    }
    for relocation in object.relocations() {
        if let Some((_, size)) = relocation.value(0x1000) {
            assert!(relocation.address + size as u64 <= end);
        }
    }
    for kernel in object.kernels() {
        assert_eq!(object.kernel(&kernel.name).unwrap().symbol, kernel.symbol);
        assert!(kernel.entry_address < end);
        assert!(kernel.args.iter().all(|arg| arg.offset + arg.size <= kernel.kernarg_size));
        assert!(kernel.explicit().len() + kernel.hidden().count() <= kernel.args.len());
    }
}

#[test]
fn damaged_code_objects_never_panic() {
    let image = real_image();
    check(&CodeObject::parse(image.clone().into()).unwrap());
    let mut random = Rng::with_seed(0x5eed_0001);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let mut bytes = image.clone();
        mutate(&mut random, &mut bytes);
        match CodeObject::parse(bytes.into()) {
            Ok(object) => {
                check(&object);
                read += 1;
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                refused += 1;
            }
        }
    }
    // Both outcomes must occur, or the corruption tests nothing.
    assert!(read > 100 && refused > 100, "{read} read, {refused} refused");
}

#[test]
fn damaged_line_tables_never_panic() {
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let image = compile_device("plain.hip", "gfx942", &["-nogpulib", "-nogpuinc", "-g", version]);
        assert!(!SourceLines::parse(&image).is_empty());
        // Corrupt the line tables as well, which come after the code.
        let mut random = Rng::with_seed(0x5eed_0003);
        let (mut some, mut none) = (0, 0);
        for _ in 0..5000 {
            let mut bytes = image.clone();
            mutate(&mut random, &mut bytes);
            let lines = SourceLines::parse(&bytes);
            for address in (0..0x4000).step_by(64) {
                assert!(lines.find(address).is_none_or(|line| line.line > 0));
            }
            *if lines.is_empty() { &mut none } else { &mut some } += 1;
        }
        assert!(some > 100 && none > 100, "{some} with lines, {none} without");
    }
}

#[test]
fn damaged_fat_binaries_never_panic() {
    let image = real_image();
    let bundle = bundle_of(&[("hipv4-amdgcn-amd-amdhsa--gfx942", &image)], 64);
    let mut containers = every_compressed_form(&bundle);
    containers.push(("plain".into(), bundle.clone()));
    containers.push(("two".into(), [bundle.clone(), compressed(&bundle, 1, Method::Zlib)].concat()));
    let mut random = Rng::with_seed(0x5eed_0002);
    for (_, container) in containers {
        for _ in 0..2_000 {
            let mut bytes = container.clone();
            mutate(&mut random, &mut bytes);
            let _ = container_size(&bytes);
            let _ = code_object::embedded_targets(&bytes);
            if let Ok(binary) = FatBinary::parse(&bytes) {
                for entry in binary.entries() {
                    if let Ok(object) = CodeObject::parse(Arc::clone(&entry.image)) {
                        check(&object);
                    }
                }
            }
        }
    }
}
