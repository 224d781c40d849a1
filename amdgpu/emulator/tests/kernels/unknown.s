.amdhsa_code_object_version 5
.text
.globl unknown
.p2align 8
.type unknown,@function
unknown:
  s_load_dword s0, s[4:5], 0x0
  s_waitcnt lgkmcnt(0)
  s_cmp_eq_u32 s0, 0
  s_cbranch_scc1 done
  s_cmp_eq_u32 s0, 1
  s_cbranch_scc1 named
  .long 0xdeadbeef
named:
  ds_gws_sema_v gds
done:
  s_endpgm
.size unknown, .-unknown
.globl offtheend
.p2align 8
.type offtheend,@function
offtheend:
  s_nop 0
  s_branch 0x8000
.size offtheend, .-offtheend

.rodata
.p2align 6
.amdhsa_kernel unknown
  .amdhsa_user_sgpr_private_segment_buffer 1
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_kernarg_size 8
  .amdhsa_next_free_vgpr 8
  .amdhsa_next_free_sgpr 16
  .amdhsa_accum_offset 8
.end_amdhsa_kernel
.p2align 6
.amdhsa_kernel offtheend
  .amdhsa_next_free_vgpr 8
  .amdhsa_next_free_sgpr 16
  .amdhsa_accum_offset 8
.end_amdhsa_kernel
