//! MIMG: images (gfx90a only). Sources are address, data and resource.

#[rustfmt::skip]
macro_rules! mimg {
    ($next:ident $($rest:tt)*) => { $next! { $($rest)* [Mimg {
    // 90a  942  mnemonic               dst sources        flags
       0x00 -    image_load             B32 [U32 _ B256]   {D16}
       0x01 -    image_load_mip         B32 [U32 _ B256]   {D16}
       0x02 -    image_load_pck         B32 [U32 _ B256]   {}
       0x03 -    image_load_pck_sgn     B32 [U32 _ B256]   {}
       0x04 -    image_load_mip_pck     B32 [U32 _ B256]   {}
       0x05 -    image_load_mip_pck_sgn B32 [U32 _ B256]   {}
       0x08 -    image_store            _   [U32 B32 B256] {STORE D16}
       0x09 -    image_store_mip        _   [U32 B32 B256] {STORE D16}
       0x0a -    image_store_pck        _   [U32 B32 B256] {STORE}
       0x0b -    image_store_mip_pck    _   [U32 B32 B256] {STORE}
       0x0e -    image_get_resinfo      B32 [U32 _ B256]   {}
       0x10 -    image_atomic_swap      B32 [U32 B32 B256] {ATOMIC}
       0x11 -    image_atomic_cmpswap   B32 [U32 B32 B256] {ATOMIC COMPARE}
       0x12 -    image_atomic_add       B32 [U32 B32 B256] {ATOMIC}
       0x13 -    image_atomic_sub       B32 [U32 B32 B256] {ATOMIC}
       0x14 -    image_atomic_smin      B32 [U32 B32 B256] {ATOMIC}
       0x15 -    image_atomic_umin      B32 [U32 B32 B256] {ATOMIC}
       0x16 -    image_atomic_smax      B32 [U32 B32 B256] {ATOMIC}
       0x17 -    image_atomic_umax      B32 [U32 B32 B256] {ATOMIC}
       0x18 -    image_atomic_and       B32 [U32 B32 B256] {ATOMIC}
       0x19 -    image_atomic_or        B32 [U32 B32 B256] {ATOMIC}
       0x1a -    image_atomic_xor       B32 [U32 B32 B256] {ATOMIC}
       0x1b -    image_atomic_inc       B32 [U32 B32 B256] {ATOMIC}
       0x1c -    image_atomic_dec       B32 [U32 B32 B256] {ATOMIC}
       0x20 -    image_sample           B32 [U32 _ B256]   {SAMPLER D16}
    }] } };
}
