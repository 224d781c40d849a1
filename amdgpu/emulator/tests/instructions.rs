//! Scalar and memory instructions, assembled by LLVM, compared with results computed by hand.

mod rig;

use emulator::FaultKind;
use isa::Arch;
use rig::{ARCHS, Args, Rig, SNIPPET_BYTES, run_snippet, snippet};

/// Runs scalar code that leaves its results in s16 and following registers, and compares as many as `expected` has.
fn scalars(body: &str, expected: &[u32]) {
    for arch in ARCHS {
        let (scalars, ..) = run_snippet(arch, body, &[]);
        assert_eq!(scalars[..expected.len()], *expected, "{arch:?}\n{body}");
    }
}

#[test]
fn carries_and_overflows_go_to_scc() {
    scalars(
        "s_mov_b32 s4, -1\n s_mov_b32 s5, 0x7fffffff
         s_add_u32 s16, s4, 2\n s_cselect_b32 s17, 1, 0
         s_addc_u32 s18, s4, 0\n s_cselect_b32 s19, 1, 0
         s_add_i32 s20, s5, 1\n s_cselect_b32 s21, 1, 0
         s_sub_u32 s22, 1, 2\n s_cselect_b32 s23, 1, 0
         s_subb_u32 s24, 5, 2\n s_cselect_b32 s25, 1, 0
         s_sub_i32 s26, s5, -1\n s_cselect_b32 s27, 1, 0
         s_lshl2_add_u32 s28, s4, 3\n s_cselect_b32 s29, 1, 0",
        &[1, 1, 0, 1, 0x8000_0000, 1, u32::MAX, 1, 2, 0, 0x8000_0000, 1, u32::MAX, 1],
    );
}

#[test]
fn shifts_bit_fields_and_counts_follow_the_manual() {
    scalars(
        "s_mov_b32 s4, 0xf0f01234\n s_mov_b32 s5, 0x80000000
         s_lshl_b64 s[16:17], s[4:5], 4\n s_ashr_i64 s[18:19], s[4:5], 36
         s_bfe_u32 s20, s4, 0x80004\n s_bfe_i32 s21, s4, 0x4001c\n s_bfe_i64 s[22:23], s[4:5], 0x10003f
         s_bfm_b32 s24, 5, 3\n s_bfm_b64 s[26:27], 40, 8
         s_brev_b32 s28, s4\n s_bcnt1_i32_b64 s29, s[4:5]\n s_ff1_i32_b64 s30, s[4:5]\n s_flbit_i32_b32 s31, 1
         s_flbit_i32 s32, -2\n s_ff1_i32_b32 s33, 0\n s_sext_i32_i8 s34, 0x80\n s_sext_i32_i16 s35, s4
         s_abs_i32 s36, -5\n s_mul_hi_i32 s37, -2, 3\n s_mul_hi_u32 s38, -2, 3\n s_absdiff_i32 s39, 3, 9
         s_pack_lh_b32_b16 s40, s4, s5\n s_min_i32 s41, -3, 4\n s_max_u32 s42, -3, 4\n s_bitset1_b32 s42, 0
         s_movk_i32 s43, -7\n s_addk_i32 s43, 10\n s_mulk_i32 s43, -4\n s_wqm_b32 s44, 0x10\n s_quadmask_b32 s45, s4",
        &[
            0x0f01_2340, 0x0000_000f, 0xf800_0000, 0xffff_ffff, 0x23, 0xffff_ffff, 0xffff_ffff, 0xffff_ffff, 0xf8, 0,
            0xffff_ff00, 0x0000_ffff, 0x2c48_0f0f, 14, 2, 31, 31, 0xffff_ffff, 0xffff_ff80, 0x1234, 5, 0xffff_ffff, 2,
            6, 0x8000_1234, 0xffff_fffd, 0xffff_fffd, 0xffff_fff4, 0xf0, 0xaf,
        ],
    );
}

#[test]
fn exec_masks_save_and_restore() {
    scalars(
        "s_mov_b64 exec, 0xff\n s_mov_b64 s[4:5], 0x3c
         s_and_saveexec_b64 s[16:17], s[4:5]\n s_cselect_b32 s18, 1, 0\n s_mov_b64 s[20:21], exec
         s_mov_b64 exec, 0xf0\n s_andn2_saveexec_b64 s[22:23], s[4:5]\n s_mov_b32 s24, exec_lo
         s_mov_b64 exec, 0xf0\n s_orn2_saveexec_b64 s[26:27], s[4:5]\n s_mov_b32 s28, exec_lo
         s_mov_b64 exec, 0xf0\n s_andn1_wrexec_b64 s[30:31], s[4:5]\n s_mov_b32 s32, exec_lo",
        &[0xff, 0, 1, 0, 0x3c, 0, 0xf0, 0, 0x0c, 0, 0xf0, 0, 0xffff_ff3f, 0, 0xc0, 0, 0xc0],
    );
}

#[test]
fn vccz_execz_and_scc_are_sources() {
    scalars(
        "s_mov_b64 vcc, 0\n s_cmp_eq_u32 s0, s0\n s_mov_b32 s16, src_vccz\n s_mov_b32 s17, src_execz\n s_mov_b32 s18, src_scc
         s_mov_b64 vcc, 1\n s_mov_b32 s19, src_vccz\n v_mov_b32 v1, src_scc\n v_readfirstlane_b32 s20, v1",
        &[1, 0, 1, 0, 1],
    );
}

#[test]
fn jumps_through_registers_reach_their_targets_and_return() {
    scalars(
        "s_mov_b32 s16, 0
         s_getpc_b64 s[4:5]\nhere: s_add_u32 s4, s4, subroutine-here\n s_addc_u32 s5, s5, 0
         s_swappc_b64 s[6:7], s[4:5]
         s_swappc_b64 s[6:7], s[4:5]
         s_call_b64 s[6:7], subroutine
         s_branch after
         subroutine: s_add_u32 s16, s16, 5\n s_setpc_b64 s[6:7]
         after: s_mov_b32 s17, 9",
        &[15, 9],
    );
}

#[test]
fn mode_can_be_read_and_written_in_part() {
    scalars(
        "s_getreg_b32 s16, hwreg(HW_REG_MODE, 4, 4)\n s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 1
         s_getreg_b32 s17, hwreg(HW_REG_MODE, 0, 8)\n s_mov_b32 s4, 3\n s_setreg_b32 hwreg(HW_REG_MODE, 0, 2), s4
         s_getreg_b32 s18, hwreg(HW_REG_MODE, 0, 8)",
        &[0xc, 0xd0, 0xd3],
    );
}

#[test]
fn relative_register_indexing_moves_the_enabled_operands() {
    for arch in ARCHS {
        let (_, vectors, _) = run_snippet(
            arch,
            "v_mov_b32 v16, 1\n v_mov_b32 v17, 2\n v_mov_b32 v18, 3\n v_mov_b32 v19, 4\n s_mov_b32 s4, 2
             s_set_gpr_idx_on s4, gpr_idx(SRC0)\n v_mov_b32 v20, v17\n s_set_gpr_idx_off
             s_set_gpr_idx_on s4, gpr_idx(DST)\n v_mov_b32 v21, v16\n s_set_gpr_idx_off\n v_mov_b32 v24, v16",
            &[],
        );
        assert_eq!((vectors[4][0], vectors[7][5], vectors[8][9]), (4, 1, 1), "{arch:?}");
    }
}

#[test]
fn local_memory_instructions_move_and_combine() {
    for arch in ARCHS {
        let (_, v, _) = run_snippet(
            arch,
            "v_lshlrev_b32 v1, 2, v0\n v_mul_u32_u24 v2, 3, v0\n v_add_u32 v3, 0x55, v2
             ds_write_b32 v1, v2\n ds_write2st64_b32 v1, v2, v3 offset0:1 offset1:2\n s_waitcnt lgkmcnt(0)
             v_xor_b32 v4, 0xfc, v1\n ds_read_b32 v16, v4\n ds_read2_b32 v[18:19], v1 offset0:64 offset1:128
             ds_read_u8 v17, v1 offset:512\n v_mov_b32 v20, -1\n ds_read_u16_d16_hi v20, v1\n
             v_mov_b32 v5, 0x7f000\n ds_read_b32 v21, v5\n ds_write_b32 v5, v0
             v_mov_b32 v6, 0\n v_mov_b32 v7, 1\n ds_write_b32 v6, v6 offset:1024\n ds_add_u32 v6, v7 offset:1024
             ds_add_rtn_u32 v22, v6, v0 offset:1024\n ds_read_b32 v23, v6 offset:1024
             v_mov_b32 v8, 0xf0\n v_mov_b32 v9, 0x05\n ds_mskor_b32 v6, v8, v9 offset:1024\n ds_read_b32 v24, v6 offset:1024
             ds_swizzle_b32 v25, v2 offset:swizzle(SWAP,1)\n v_add_u32 v10, 4, v1\n ds_bpermute_b32 v26, v10, v2\n ds_permute_b32 v27, v10, v2
             v_cmp_eq_u32 vcc, 17, v0\n s_and_saveexec_b64 s[4:5], vcc\n ds_write_b64 v6, v[2:3] offset:2048\n s_mov_b64 exec, s[4:5]
             ds_read_b128 v[28:31], v6 offset:2048",
            &[],
        );
        let lanes = |f: &dyn Fn(u32) -> u32| -> [u32; 64] { std::array::from_fn(|lane| f(lane as u32)) };
        assert_eq!(v[0], lanes(&|i| 3 * (63 - i)), "{arch:?} read_b32");
        assert_eq!(v[2], lanes(&|i| 3 * i), "{arch:?} read2 first");
        assert_eq!(v[3], lanes(&|i| 3 * i + 0x55), "{arch:?} read2 second");
        assert_eq!(v[1], lanes(&|i| (3 * i + 0x55) & 0xff), "{arch:?} read_u8");
        assert_eq!(v[4], lanes(&|i| (3 * i) << 16), "{arch:?} d16_hi clears the low half");
        assert_eq!(v[5], [0; 64], "{arch:?} reads past local memory");
        assert_eq!(v[6], lanes(&|i| 64 + i * i.wrapping_sub(1) / 2), "{arch:?} add_rtn in lane order");
        let sum = 64 + 63 * 64 / 2;
        assert_eq!(v[7], [sum; 64]);
        assert_eq!(v[8], [sum & !0xf0 | 5; 64], "{arch:?} mskor");
        assert_eq!(v[9], lanes(&|i| 3 * (i ^ 1)), "{arch:?} swizzle");
        assert_eq!(v[10], lanes(&|i| 3 * ((i + 1) % 64)), "{arch:?} bpermute");
        assert_eq!(v[11], lanes(&|i| 3 * ((i + 63) % 64)), "{arch:?} permute");
        assert_eq!((v[12][9], v[13][40]), (51, 51 + 0x55), "{arch:?} b64 of one lane");
    }
}

#[test]
fn loads_of_one_half_clear_the_other() {
    for arch in ARCHS {
        let data: Vec<u8> = (0..64u32).flat_map(|i| (0x8000_7000 + i * 0x1_0001).to_le_bytes()).collect();
        let (_, v, _) = run_snippet(
            arch,
            "s_mov_b64 s[4:5], s[2:3]\n s_mov_b32 s6, 256\n s_mov_b32 s7, 0x00020000\n v_lshlrev_b32 v1, 2, v0
             v_mov_b32 v16, -1\n v_mov_b32 v17, -1\n v_mov_b32 v18, -1\n v_mov_b32 v19, -1\n v_mov_b32 v20, -1
             buffer_load_short_d16 v16, v1, s[4:7], 0 offen\n buffer_load_short_d16_hi v17, v1, s[4:7], 0 offen offset:2
             global_load_short_d16 v18, v1, s[2:3]\n global_load_ubyte_d16_hi v19, v1, s[2:3]
             ds_write_b32 v1, v0\n ds_read_u16_d16 v20, v1\n s_waitcnt vmcnt(0) lgkmcnt(0)
             v_or_b32 v21, v16, v17",
            &data,
        );
        let lanes = |f: &dyn Fn(u32) -> u32| -> [u32; 64] { std::array::from_fn(|lane| f(lane as u32)) };
        assert_eq!(v[0], lanes(&|i| 0x7000 + i), "{arch:?} buffer_load_short_d16");
        assert_eq!(v[1], lanes(&|i| (0x8000 + i) << 16), "{arch:?} buffer_load_short_d16_hi");
        assert_eq!(v[2], lanes(&|i| 0x7000 + i), "{arch:?} global_load_short_d16");
        assert_eq!(v[3], lanes(&|i| i << 16), "{arch:?} global_load_ubyte_d16_hi");
        assert_eq!(v[4], lanes(&|i| i), "{arch:?} ds_read_u16_d16");
        assert_eq!(v[5], lanes(&|i| 0x8000_7000 + i * 0x1_0001), "{arch:?} both halves joined");
    }
}

#[test]
fn elements_of_private_memory_need_no_alignment_when_reached_through_a_buffer() {
    for arch in ARCHS {
        let (_, v, after) = run_snippet(
            arch,
            "s_mov_b64 s[4:5], s[2:3]\n s_mov_b32 s6, 3584\n s_or_b32 s5, s5, 0x80000000\n s_mov_b32 s7, 0x00e00000
             v_add_u32 v1, 0x44332200, v0\n v_add_u32 v2, 0x88776600, v0\n v_add_u32 v3, 0xccbbaa00, v0
             buffer_store_dword v1, off, s[4:7], 0 offset:4\n buffer_store_dword v2, off, s[4:7], 0 offset:8
             buffer_store_dword v3, off, s[4:7], 0 offset:12\n s_waitcnt vmcnt(0)
             buffer_load_dword v16, off, s[4:7], 0 offset:7\n buffer_load_dwordx2 v[18:19], off, s[4:7], 0 offset:5
             buffer_load_ushort v17, off, s[4:7], 0 offset:11\n buffer_load_ushort v20, off, s[4:7], 0 offset:9
             buffer_store_dword v1, off, s[4:7], 0 offset:21\n buffer_store_short v2, off, s[4:7], 0 offset:31
             s_waitcnt vmcnt(0)\n buffer_load_dword v21, off, s[4:7], 0 offset:21",
            &[0; 4096],
        );
        let lanes = |f: &dyn Fn(u32) -> u32| -> [u32; 64] { std::array::from_fn(|lane| f(lane as u32)) };
        assert_eq!(v[0], lanes(&|i| 0x7766_0044 + (i << 8)), "{arch:?} across one end");
        assert_eq!(v[2], lanes(&|i| 0x0044_3322 + (i << 24)), "{arch:?} the first of two");
        assert_eq!(v[3], lanes(&|i| 0x0088_7766 + (i << 24)), "{arch:?} the second of two");
        assert_eq!(v[1], lanes(&|i| 0x0088 + (i << 8)), "{arch:?} half a dword, across");
        assert_eq!(v[4], lanes(&|_| 0x7766), "{arch:?} half a dword, within");
        assert_eq!(v[5], lanes(&|i| 0x4433_2200 + i), "{arch:?} what was stored across");
        let bytes = |at: usize| &after[at..at + 4];
        assert_eq!(bytes(5 * 256 + 4 * 9), [0, 9, 0x22, 0x33], "{arch:?} lane 9, dword 5");
        assert_eq!(bytes(6 * 256 + 4 * 9), [0x44, 0, 0, 0], "{arch:?} lane 9, dword 6");
        assert_eq!(bytes(7 * 256 + 4 * 9), [0, 0, 0, 9], "{arch:?} lane 9, dword 7");
        assert_eq!(bytes(8 * 256 + 4 * 9), [0x66, 0, 0, 0], "{arch:?} lane 9, dword 8");
    }
}

#[test]
fn buffer_instructions_check_ranges_and_swizzle() {
    for arch in ARCHS {
        let data: Vec<u8> = (0..1024u32).flat_map(|i| (i * 7).to_le_bytes()).collect();
        let (s, v, after) = run_snippet(
            arch,
            "s_mov_b64 s[4:5], s[2:3]\n s_mov_b32 s6, 200\n s_mov_b32 s7, 0x00020000\n v_lshlrev_b32 v1, 2, v0
             buffer_load_dword v16, v1, s[4:7], 0 offen\n s_mov_b32 s8, 100\n buffer_load_dword v17, v1, s[4:7], s8 offen
             v_lshlrev_b32 v2, 4, v0\n s_mov_b32 s6, 4096\n buffer_load_dwordx4 v[18:21], v2, s[4:7], 0 offen offset:8
             s_and_b32 s5, s5, 0xffff\n s_or_b32 s5, s5, 0x00100000\n s_mov_b32 s6, 10\n buffer_load_dword v22, v0, s[4:7], 0 idxen offset:4
             s_mov_b64 s[4:5], s[2:3]\n s_mov_b32 s6, 3584\n s_or_b32 s5, s5, 0x80000000\n s_mov_b32 s7, 0x00e00000
             buffer_store_dword v0, off, s[4:7], 0 offset:4\n s_waitcnt vmcnt(0)\n buffer_load_dword v23, off, s[4:7], 0 offset:4
             s_and_b32 s5, s5, 0xffff\n s_mov_b32 s7, 0x00020000\n s_mov_b32 s6, 8\n v_mov_b32 v3, 5\n v_mov_b32 v4, 0
             buffer_atomic_add v3, v4, s[4:7], 0 offen glc\n s_waitcnt vmcnt(0)\n v_mov_b32 v24, v3
             s_buffer_load_dwordx2 s[16:17], s[4:7], 0x4\n s_waitcnt lgkmcnt(0)"
                .replace(" glc", if arch == isa::Arch::Gfx942 { " sc0" } else { " glc" })
                .as_str(),
            &data,
        );
        let lanes = |f: &dyn Fn(u32) -> u32| -> [u32; 64] { std::array::from_fn(|lane| f(lane as u32)) };
        assert_eq!(v[0], lanes(&|i| if i < 50 { 7 * i } else { 0 }), "{arch:?} raw range");
        assert_eq!(
            v[1],
            lanes(&|i| if i < 25 { 7 * (i + 25) } else { 0 }),
            "{arch:?} raw range with scalar offset"
        );
        for k in 0..4 {
            let expected =
                lanes(&|i| if 4 * i + 2 + (k as u32) < 1024 { 7 * (4 * i + 2 + k as u32) } else { 0 });
            assert_eq!(
                v[2 + k],
                expected,
                "{arch:?} dwordx4 register {k}, the last lane ends past the buffer"
            );
        }
        assert_eq!(v[6], lanes(&|i| if i < 10 { 7 * (4 * i + 1) } else { 0 }), "{arch:?} structured");
        assert_eq!(v[7], lanes(&|i| i), "{arch:?} swizzled");
        let word = |at: usize| u32::from_le_bytes(after[at..at + 4].try_into().unwrap());
        assert_eq!((word(256), word(256 + 4 * 63)), (0, 63), "dword 1 of lane i lies at 256 + 4 i");
        assert_eq!(v[8], lanes(&|i| 5 * i), "{arch:?} atomic returns, one lane after the other");
        assert_eq!(word(0), 320);
        assert_eq!(s[..2], [7, 0], "{arch:?} the second dword is past the buffer");
    }
}

#[test]
fn loads_can_go_straight_to_local_memory() {
    for arch in ARCHS {
        let data: Vec<u8> = (0..64u32).flat_map(|i| (i * 11).to_le_bytes()).collect();
        let (_, v, _) = run_snippet(
            arch,
            "s_mov_b32 m0, 256\n v_lshlrev_b32 v1, 2, v0\n s_mov_b64 s[4:5], s[2:3]\n s_mov_b32 s6, 256\n s_mov_b32 s7, 0x20000
             buffer_load_dword v1, s[4:7], 0 offen lds\n s_waitcnt vmcnt(0)\n ds_read_b32 v16, v1 offset:256",
            &data,
        );
        assert_eq!(v[0], std::array::from_fn(|lane| lane as u32 * 11), "{arch:?}");
    }
}

#[test]
fn private_memory_can_go_straight_to_local_memory() {
    for arch in ARCHS {
        // gfx942 has separate opcodes for it, gfx90a a bit. The offset applies to the source and the destination.
        let load = |kind: &str| match arch {
            Arch::Gfx90a => format!("scratch_load_{kind} v4, off offset:4 lds\n"),
            Arch::Gfx942 => format!("scratch_load_lds_{kind} v4, off offset:4\n"),
        };
        let body = format!(
            "v_lshlrev_b32 v1, 2, v0\n v_mul_i32_i24 v2, -9, v0\n v_mov_b32 v3, 12\n v_mov_b32 v4, 8
             scratch_store_dword v3, v2, off\n s_waitcnt vmcnt(0)\n s_mov_b32 m0, 512\n {} s_mov_b32 m0, 1024\n {}
             s_mov_b32 m0, 4088\n {} s_waitcnt vmcnt(0)
             ds_read_b32 v16, v1 offset:516\n ds_read_b32 v17, v1 offset:1028\n ds_read_b32 v18, v1 offset:3840",
            load("dword"),
            load("sbyte"),
            load("dword"),
        );
        let (_, v, _) = run_snippet(arch, &body, &[]);
        let times = |i: u32| 0_u32.wrapping_sub(9 * i);
        assert_eq!(v[0], lanes(times), "{arch:?} dwords");
        assert_eq!(v[1], lanes(|i| times(i) as i8 as u32), "{arch:?} bytes with their sign");
        assert_eq!(v[2][63], times(0), "{arch:?} lane 0 is the last that local memory has room for");
    }
}

#[test]
fn breakpoints_and_messages_pass_and_other_traps_end_the_kernel() {
    scalars(
        "s_mov_b32 s16, 1\n s_trap 3\n s_sendmsg sendmsg(MSG_INTERRUPT)\n s_sendmsg sendmsg(MSG_SAVEWAVE)
         s_add_u32 s16, s16, 1\n s_mov_b32 m0, 5\n s_sendmsg sendmsg(MSG_INTERRUPT)\n s_mov_b32 s17, m0",
        &[2, 5],
    );
    for arch in ARCHS {
        for id in [1, 2, 4, 255] {
            let rig = Rig::new(arch, snippet(arch, &format!("s_trap {id}")));
            let out = rig.alloc(vec![7u8; SNIPPET_BYTES]);
            let fault = rig.run("snippet", 1, 64, Args::new().ptr(&out)).unwrap_err();
            assert_eq!(fault.kind, FaultKind::Trap { id }, "{arch:?}");
            assert!(out.read().iter().all(|byte| *byte == 7), "{arch:?} nothing after the trap ran");
        }
    }
}

/// Computes one value per lane.
fn lanes(of: impl Fn(u32) -> u32) -> [u32; 64] {
    std::array::from_fn(|lane| of(lane as u32))
}

#[test]
fn relative_indexing_moves_the_operands_that_m0_names() {
    for arch in ARCHS {
        let (s, v, _) = run_snippet(
            arch,
            "v_mov_b32 v10, 0x110\n v_mov_b32 v11, 0x111\n v_mov_b32 v12, 0x112\n v_mov_b32 v13, 0x113
             v_mov_b32 v17, 0\n v_mov_b32 v20, 1.0\n v_mov_b32 v22, 0\n v_mov_b32 v23, 0x123\n v_mov_b32 v26, 2.0
             s_mov_b32 s4, 2\n s_mov_b32 s5, 60\n s_mov_b32 m0, 0xabcd0000
             s_set_gpr_idx_on s4, gpr_idx(SRC0)\n v_mov_b32 v16, v10\n s_mov_b32 s16, m0
             s_set_gpr_idx_mode gpr_idx(DST)\n v_mov_b32 v15, 7\n v_readlane_b32 s17, v10, 3
             v_fmac_f32 v18, v26, v26
             s_set_gpr_idx_mode gpr_idx(SRC1)\n v_lshlrev_b64 v[24:25], 0, v[10:11]
             s_set_gpr_idx_idx s5\n s_set_gpr_idx_mode gpr_idx(SRC0)\n v_mov_b32 v22, v10
             s_set_gpr_idx_mode gpr_idx(DST)\n v_mov_b32 v23, 5
             s_set_gpr_idx_off\n v_mov_b32 v27, v10\n s_mov_b32 s18, m0",
            &[],
        );
        assert_eq!(v[0], [0x112; 64], "{arch:?} source");
        assert_eq!(s[0], 0xabcd_1002, "{arch:?} M0 keeps its other bits");
        assert_eq!(v[1], [7; 64], "{arch:?} destination");
        assert_eq!(s[1], 0x110, "{arch:?} scalar destinations do not move");
        assert_eq!(v[4], [5.0_f32.to_bits(); 64], "{arch:?} an accumulator is its destination");
        assert_eq!((v[8], v[9]), ([0x112; 64], [0x113; 64]), "{arch:?} register pairs");
        assert_eq!(v[6], lanes(|lane| lane), "{arch:?} a source past the last register is v0");
        assert_eq!(v[7], [0x123; 64], "{arch:?} a destination past the last register is not written");
        assert_eq!(v[11], [0x110; 64], "{arch:?} off");
        assert_eq!(s[2], 0xabcd_803c, "{arch:?}");
    }
}

#[test]
fn vector_instructions_can_be_skipped() {
    for arch in ARCHS {
        let (s, v, _) = run_snippet(
            arch,
            "v_mov_b32 v16, 1\n s_mov_b32 s4, 4\n s_setvskip s4, 2\n v_mov_b32 v16, 2\n s_mov_b32 s16, 3
             s_setvskip s4, 1\n v_mov_b32 v17, 4",
            &[],
        );
        assert_eq!((v[0], s[0], v[1]), ([1; 64], 3, [4; 64]), "{arch:?}");
    }
}

#[test]
fn forked_branches_run_both_sides_before_they_join() {
    for arch in ARCHS {
        // The fork stack starts at s0.
        let save =
            "s_mov_b64 s[40:41], s[0:1]\n s_mov_b64 s[42:43], s[2:3]\n s_mov_b32 s44, 0\n s_mov_b32 s16, 0";
        let restore = "s_mov_b64 exec, -1\n s_mov_b64 s[0:1], s[40:41]\n s_mov_b64 s[2:3], s[42:43]";
        for (fork, small) in [("s_cbranch_i_fork vcc, small", 10), ("s_cbranch_g_fork vcc, s[46:47]", 50)] {
            let (s, v, _) = run_snippet(
                arch,
                &format!(
                    "{save}\n v_cmp_gt_u32 vcc, {small}, v0\n v_mov_b32 v16, 0
                     s_getpc_b64 s[46:47]\n here:\n s_add_u32 s46, s46, small-here\n s_addc_u32 s47, s47, 0
                     {fork}\n v_add_u32 v16, 2, v16\n s_lshl_b32 s16, s16, 4\n s_or_b32 s16, s16, 2\n s_branch join
                     small:\n v_add_u32 v16, 1, v16\n s_lshl_b32 s16, s16, 4\n s_or_b32 s16, s16, 1
                     join:\n s_cbranch_join s44\n {restore}"
                ),
                &[],
            );
            assert_eq!(v[0], lanes(|lane| if lane < small { 1 } else { 2 }), "{arch:?} {fork}");
            let order = if small < 32 { 0x12 } else { 0x21 };
            assert_eq!(s[0], order, "{arch:?} {fork}: the smaller side runs first");
            // With all lanes on one side, nothing is pushed onto the fork stack.
            let (_, v, _) = run_snippet(
                arch,
                &format!(
                    "{save}\n s_mov_b64 vcc, 0\n v_mov_b32 v16, 0\n s_cbranch_i_fork vcc, small\n v_add_u32 v16, 2, v16
                     s_branch join\n small:\n v_add_u32 v16, 1, v16\n join:\n s_cbranch_join s44\n {restore}"
                ),
                &[],
            );
            assert_eq!(v[0], [2; 64], "{arch:?}");
        }
    }
}

#[test]
fn typed_buffers_convert_components() {
    for arch in ARCHS {
        let data: Vec<u8> = (0..512u32).map(|i| (i * 37 + i / 7) as u8).collect();
        let dword = |i: u32| u32::from_le_bytes(data[4 * i as usize..][..4].try_into().unwrap());
        let (_, v, after) = run_snippet(
            arch,
            "s_mov_b64 s[4:5], s[2:3]\n s_or_b32 s5, s5, 0x40000\n s_mov_b32 s6, 60\n s_mov_b32 s7, 0x50fac
             buffer_load_format_xyzw v[16:19], v0, s[4:7], 0 idxen
             s_mov_b32 s7, 0x28fac\n tbuffer_load_format_xy v[20:21], v0, s[4:7], 0 format:[BUF_DATA_FORMAT_16_16,BUF_NUM_FORMAT_SINT] idxen
             tbuffer_load_format_xyzw v[22:25], v0, s[4:7], 0 format:[BUF_DATA_FORMAT_2_10_10_10,BUF_NUM_FORMAT_UINT] idxen
             tbuffer_load_format_d16_xy v26, v0, s[4:7], 0 format:[BUF_DATA_FORMAT_8_8,BUF_NUM_FORMAT_USCALED] idxen
             s_add_u32 s4, s4, 256\n s_addc_u32 s5, s5, 0\n v_cvt_f32_u32 v2, v0\n v_mul_f32 v2, 0x3c820821, v2\n v_sub_f32 v3, 1.0, v2
             v_mov_b32 v4, -1.0\n v_mov_b32 v5, 2.0\n s_mov_b32 s7, 0x50fac\n buffer_store_format_xyzw v[2:5], v0, s[4:7], 0 idxen
             s_waitcnt vmcnt(0)",
            &data,
        );
        let inside = |i: u32, value: u32| if i < 60 { value } else { 0 };
        for k in 0..4 {
            let byte = |i: u32| (dword(i) >> (8 * k) & 0xff) as f32 / 255.0;
            assert_eq!(v[k as usize], lanes(|i| inside(i, byte(i).to_bits())), "{arch:?} unorm {k}");
        }
        assert_eq!(v[4], lanes(|i| inside(i, dword(i) as i16 as u32)), "{arch:?} sint x");
        assert_eq!(v[5], lanes(|i| inside(i, (dword(i) as i32 >> 16) as u32)), "{arch:?} sint y");
        for (k, width) in [(0, 10), (1, 10), (2, 10), (3, 2)] {
            let field = |i: u32| dword(i) >> (10 * k) & ((1 << width) - 1);
            assert_eq!(v[6 + k as usize], lanes(|i| inside(i, field(i))), "{arch:?} 2_10_10_10 {k}");
        }
        let half = |value: u32| u32::from(half::f16::from_f32(value as f32).to_bits());
        let pair = |i: u32| half(dword(i) & 0xff) | half(dword(i) >> 8 & 0xff) << 16;
        assert_eq!(v[10], lanes(|i| inside(i, pair(i))), "{arch:?} d16");
        for i in 0..64 {
            let at = 256 + 4 * i as usize;
            if i >= 60 {
                assert_eq!(after[at..at + 4], data[at..at + 4], "{arch:?} past the buffer");
                continue;
            }
            let fraction = i as f32 * f32::from_bits(0x3c82_0821);
            let unorm = |value: f32| (value * 255.0).round_ties_even() as u8;
            assert_eq!(
                after[at..at + 4],
                [unorm(fraction), unorm(1.0 - fraction), 0, 255],
                "{arch:?} lane {i}"
            );
        }
    }
}

#[test]
fn local_memory_can_go_straight_to_a_buffer() {
    for arch in ARCHS {
        let (_, _, after) = run_snippet(
            arch,
            "v_lshlrev_b32 v1, 2, v0\n v_mul_u32_u24 v2, 13, v0\n ds_write_b32 v1, v2 offset:128\n s_waitcnt lgkmcnt(0)
             s_mov_b32 m0, 128\n s_mov_b64 s[4:5], s[2:3]\n s_or_b32 s5, s5, 0x40000\n s_mov_b32 s6, 60\n s_mov_b32 s7, 0x00800000
             buffer_store_lds_dword s[4:7], 0 lds\n s_waitcnt vmcnt(0)",
            &[0xff; 256],
        );
        for lane in 0..64 {
            let word = u32::from_le_bytes(after[4 * lane..][..4].try_into().unwrap());
            assert_eq!(word, if lane < 60 { 13 * lane as u32 } else { !0 }, "{arch:?} lane {lane}");
        }
    }
}

#[test]
fn scalar_scratch_counts_its_offset_in_rows_of_lanes() {
    for arch in ARCHS {
        let (s, _, after) = run_snippet(
            arch,
            "s_mov_b32 s4, 3\n s_mov_b32 s16, 0x1234\n s_scratch_store_dword s16, s[2:3], s4\n s_dcache_wb
             s_scratch_load_dwordx2 s[18:19], s[2:3], 0xc0\n s_waitcnt lgkmcnt(0)",
            &[7; 256],
        );
        assert_eq!(after[192..196], [0x34, 0x12, 0, 0], "{arch:?}");
        assert_eq!(s[2..4], [0x1234, 0x0707_0707], "{arch:?}");
    }
}
