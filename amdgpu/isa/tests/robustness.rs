//! For any bytes, decoding ends in an instruction or an error, and every instruction can be disassembled.

use isa::{Arch, DecodeError, decode, disassemble, exercise};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn any_bytes_decode_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..16)) {
        exercise(&bytes);
    }

    #[test]
    fn a_cut_instruction_is_truncated(bytes in proptest::array::uniform12(any::<u8>())) {
        for arch in [Arch::Gfx90a, Arch::Gfx942] {
            if let Ok(inst) = decode(arch, &bytes) {
                let size = usize::from(inst.size);
                prop_assert_eq!(decode(arch, &bytes[..size]), Ok(inst));
                let cut = decode(arch, &bytes[..size - 1]);
                prop_assert!(matches!(cut, Err(DecodeError::Truncated { .. })), "{:?}", cut);
            }
        }
    }
}

#[test]
fn branches_name_their_target() {
    let backwards = decode(Arch::Gfx942, &0xbf82_ffff_u32.to_le_bytes()).expect("s_branch");
    assert_eq!(disassemble(Arch::Gfx942, &backwards, 0x1000), "s_branch 65535 ; 0x1000");
}

#[test]
fn errors_say_what_was_found() {
    let unknown = decode(Arch::Gfx942, &[0xff; 8]).expect_err("no such family");
    assert_eq!(unknown.to_string(), "unknown reserved instruction 0xffffffff 0xffffffff");
    let short = decode(Arch::Gfx90a, &[0x00, 0x00]).expect_err("half a word");
    assert_eq!(short.to_string(), "instruction needs 4 bytes, 2 are left");
    // v_lshl_add_u64 is new in gfx942.
    let gfx942 = [0x04, 0x00, 0x08, 0xd2, 0x08, 0x15, 0x32, 0x04];
    assert!(decode(Arch::Gfx942, &gfx942).is_ok());
    let error = decode(Arch::Gfx90a, &gfx942).expect_err("not on gfx90a");
    assert_eq!(error.to_string(), "unknown VOP3 instruction 0xd2080004 0x04321508");
}
