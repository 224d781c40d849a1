//! Writes seed inputs for the fuzz targets: `seeds CORPUS` creates one folder per target below CORPUS.
//!
//! The inputs are built from the protocol's own types, so they stay valid when the protocol changes.

use std::path::Path;
use std::{env, fs, io};

use wire::{Flags, Header, Opcode};

fn main() -> io::Result<()> {
    let folder = env::args_os().nth(1).ok_or_else(|| io::Error::other("usage: seeds FOLDER"))?;
    let folder = Path::new(&folder);
    for opcode in Opcode::ALL {
        write(folder, "frame", &format!("{opcode:?}"), &frames(*opcode))?;
        if !opcode.is_unsequenced() {
            write(folder, "requests", &format!("{opcode:?}"), &frames(*opcode))?;
        }
    }
    write(
        folder,
        "session",
        "each_action",
        &(0u8..10).flat_map(|action| [action, 1, 0, 0, 0, 0, 0, 0, 0]).collect::<Vec<_>>(),
    )?;
    // Kind and length of each section, then its payload.
    write(folder, "arrival", "empty_sections", &(0u8..5).flat_map(|kind| [kind, 0, 0]).collect::<Vec<_>>())?;
    write(folder, "kernel_files", "properties", KFD.as_bytes())?;
    write(folder, "agent_answer", "allocation", ANSWER.as_bytes())?;
    write(folder, "agent_answer", "refusal", REFUSAL.as_bytes())?;
    write(folder, "emulator_output", "record", &[1; 64])?;
    for target in ["isa_decode", "emulator_program"] {
        write(folder, target, "s_endpgm", &0xbf81_0000_u32.to_le_bytes())?;
    }
    // A 64-bit little-endian ELF file for AMDGPU without sections or segments.
    let mut elf = [0; 64];
    elf[..9].copy_from_slice(b"\x7fELF\x02\x01\x01\x40\x03");
    elf[16..20].copy_from_slice(&[3, 0, 224, 0]);
    elf[20] = 1;
    (elf[52], elf[54], elf[58]) = (64, 56, 64);
    write(folder, "code_object", "empty_elf", &elf)?;
    write(folder, "code_object", "bundle", b"__CLANG_OFFLOAD_BUNDLE__\0\0\0\0\0\0\0\0")?;
    write(folder, "code_object", "compressed", b"CCOB\x02\0\x01\0\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0")
}

/// One request for every payload length from 0 to 96 bytes, in words. The words are small numbers, which are more often valid.
fn frames(opcode: Opcode) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, words) in (1u32..).zip(0u32..25) {
        let flags = if number.is_multiple_of(2) { Flags::POSTED } else { Flags::NONE };
        bytes.extend(Header::new(opcode, flags, number, u64::from(4 * words)).encode());
        (0..words).for_each(|word| bytes.extend((word % 3).to_le_bytes()));
    }
    bytes
}

fn write(folder: &Path, target: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
    let folder = folder.join(target);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(format!("seed-{name}")), bytes)
}

const KFD: &str = "cpu_cores_count 0\nsimd_count 1216\nmem_banks_count 1\nlocation_id 1280\ndomain 0\nunique_id 1234567890123456789\n\
                   0000:05:00.0\nSPX\nNPS1\n";

const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 58\r\n\r\n\
                      {\"id\":\"a\",\"url\":\"remora://t@127.0.0.1:1\",\"percent\":25.0}\r\n";

const REFUSAL: &str = "HTTP/1.1 409 Conflict\r\ncontent-length: 27\r\n\r\n{\"error\":\"no memory is free\"}";
