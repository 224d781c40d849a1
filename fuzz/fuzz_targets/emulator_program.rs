//! Fuzzes the emulator's compiler: any bytes compile to a program, for both architectures.
#![no_main]

use emulator::{Level, Options, Program};
use isa::Arch;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|code: &[u8]| {
    for arch in [Arch::Gfx90a, Arch::Gfx942] {
        let options = Options { arch, level: Level::detect(), accum_offset: 64, vgpr_count: 128 };
        let program = Program::compile(options, 0x1000, code);
        assert!(!program.uops.is_empty());
    }
});
