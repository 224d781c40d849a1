// Atomic operations of every type, with device and system scope.
#include "check.h"

#include <hip/hip_bf16.h>
#include <hip/hip_fp16.h>

EXAMPLE("atomic_scopes");

const unsigned groups = 8, threads = 160, items = groups * threads;

struct Cells {
  int i32[8];
  unsigned u32[10];
  long long i64[3];
  unsigned long long u64[8];
  float f32[4];
  double f64[4];
};

__device__ unsigned me() { return blockIdx.x * blockDim.x + threadIdx.x; }

__global__ void integers(Cells *cells) {
  unsigned item = me();
  int with_sign = static_cast<int>(item) - 600;
  atomicAdd(&cells->i32[0], with_sign);
  atomicSub(&cells->i32[1], with_sign);
  atomicMin(&cells->i32[2], with_sign);
  atomicMax(&cells->i32[3], with_sign);
  atomicExch(&cells->i32[4], with_sign);
  atomicAdd(&cells->u32[0], item);
  atomicSub(&cells->u32[1], item);
  atomicMin(&cells->u32[2], item + 7);
  atomicMax(&cells->u32[3], item + 7);
  atomicAnd(&cells->u32[4], ~(1u << item % 32));
  atomicOr(&cells->u32[5], 1u << item % 32);
  atomicXor(&cells->u32[6], item * 2654435761u);
  atomicInc(&cells->u32[7], 99u);
  atomicDec(&cells->u32[8], 99u);
  unsigned seen = cells->u32[9], before;
  do {
    before = seen;
    seen = atomicCAS(&cells->u32[9], before, before * 5 + 1);
  } while (seen != before);
  atomicMin(&cells->i64[0], static_cast<long long>(with_sign) << 33);
  atomicMax(&cells->i64[1], static_cast<long long>(with_sign) << 33);
  unsigned long long wide = static_cast<unsigned long long>(item) << 34 | item;
  atomicAdd(&cells->u64[0], wide);
  atomicMin(&cells->u64[1], wide + 3);
  atomicMax(&cells->u64[2], wide + 3);
  atomicAnd(&cells->u64[3], ~(1ull << item % 64));
  atomicOr(&cells->u64[4], 1ull << item % 64);
  atomicXor(&cells->u64[5], wide * 0x9e3779b97f4a7c15ull);
  atomicExch(&cells->u64[6], wide);
  unsigned long long seen_wide = cells->u64[7], before_wide;
  do {
    before_wide = seen_wide;
    seen_wide = atomicCAS(&cells->u64[7], before_wide, before_wide * 5 + 1);
  } while (seen_wide != before_wide);
}

// Tests the atomic instruction, and the compare-and-swap loop that the compiler emits where it may not use it; sums of halves are exact.
__global__ void floats(Cells *cells) {
  unsigned item = me();
  atomicAdd(&cells->f32[0], 0.5f * static_cast<float>(item));
  unsafeAtomicAdd(&cells->f32[1], 0.5f * static_cast<float>(item));
  atomicMin(&cells->f32[2], 10.0f - static_cast<float>(item));
  atomicMax(&cells->f32[3], static_cast<float>(item) * 0.25f);
  atomicAdd(&cells->f64[0], 0.5 * item);
  unsafeAtomicAdd(&cells->f64[1], 0.5 * item);
  atomicMin(&cells->f64[2], 10.0 - item);
  atomicMax(&cells->f64[3], item * 0.25);
}

__global__ void system_scope(Cells *cells) {
  unsigned item = me();
  atomicAdd_system(&cells->u32[0], item);
  atomicMax_system(&cells->u32[1], item);
  atomicOr_system(&cells->u32[2], 1u << item % 32);
  atomicAdd_system(&cells->u64[0], static_cast<unsigned long long>(item) << 34);
  atomicAdd_system(&cells->f32[0], 0.5f * static_cast<float>(item));
  atomicAdd_system(&cells->f64[0], 0.5 * item);
  __hip_atomic_fetch_add(&cells->i32[0], 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
  // A narrower scope (device), because only this device accesses these cells.
  __hip_atomic_fetch_add(&cells->i32[1 + blockIdx.x % 4], 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

// Two halves of a word at once: small integers, so that every order gives the same sum.
__global__ void packed(__half2 *halves, unsigned *bfloats) {
  unsafeAtomicAdd(halves, __half2{__float2half(1.0f), __float2half(-2.0f)});
#if defined(__gfx942__)
  using Pair = short __attribute__((ext_vector_type(2)));
  // 1 and -1 in bfloat16. The instruction is available only as a compiler builtin.
  __builtin_amdgcn_global_atomic_fadd_v2bf16((__attribute__((address_space(1))) Pair *)bfloats,
                                             Pair{0x3f80, static_cast<short>(0xbf80)});
#else
  unsigned seen = *bfloats, before;
  do {
    before = seen;
    auto part = [](unsigned word) { return __uint_as_float(word << 16); };
    unsigned low = __float_as_uint(part(before & 0xffff) + 1.0f) >> 16;
    unsigned high = __float_as_uint(part(before >> 16) - 1.0f) >> 16;
    seen = atomicCAS(bfloats, before, high << 16 | low);
  } while (seen != before);
#endif
}

static Cells begin() {
  Cells cells = {};
  cells.i32[2] = 1 << 30;
  cells.u32[2] = cells.u32[4] = ~0u;
  cells.i64[0] = 1ll << 60;
  cells.i64[1] = -(1ll << 60);
  cells.u64[1] = cells.u64[3] = ~0ull;
  cells.f32[2] = 1e9f;
  cells.f64[2] = 1e9;
  return cells;
}

template <typename T> static void expect(const char *what, T got, T wanted) {
  if (got != wanted)
    fail("%s is %.17g, not %.17g", what, static_cast<double>(got), static_cast<double>(wanted));
}

int main() {
  const unsigned long long total = static_cast<unsigned long long>(items) * (items - 1) / 2;
  const int with_sign = static_cast<int>(total) - 600 * static_cast<int>(items);
  std::vector<Cells> first{begin()};
  DeviceArray<Cells> cells(first);
  integers<<<groups, threads>>>(cells.get());
  floats<<<groups, threads>>>(cells.get());
  Cells got = cells.read()[0];
  unsigned mix = 0, chain = 0;
  unsigned long long mix_wide = 0, chain_wide = 0;
  for (unsigned item = 0; item < items; ++item) {
    mix ^= item * 2654435761u;
    mix_wide ^= (static_cast<unsigned long long>(item) << 34 | item) * 0x9e3779b97f4a7c15ull;
    chain = chain * 5 + 1;
    chain_wide = chain_wide * 5 + 1;
  }
  const long long top = static_cast<long long>(items) - 601;
  const unsigned long long widest = static_cast<unsigned long long>(items - 1) << 34 | (items - 1);
  expect("i32 add", got.i32[0], with_sign);
  expect("i32 sub", got.i32[1], -with_sign);
  expect("i32 min", got.i32[2], -600);
  expect("i32 max", got.i32[3], static_cast<int>(top));
  expect("i32 exchange", got.i32[4] >= -600 && got.i32[4] <= top, true);
  expect("u32 add", got.u32[0], static_cast<unsigned>(total));
  expect("u32 sub", got.u32[1], 0u - static_cast<unsigned>(total));
  expect("u32 min", got.u32[2], 7u);
  expect("u32 max", got.u32[3], items + 6);
  expect("u32 and", got.u32[4], 0u);
  expect("u32 or", got.u32[5], ~0u);
  expect("u32 xor", got.u32[6], mix);
  expect("u32 inc", got.u32[7], items % 100);
  expect("u32 dec", got.u32[8], (100 - items % 100) % 100);
  expect("u32 compare and swap", got.u32[9], chain);
  expect("i64 min", got.i64[0], -600ll * (1ll << 33));
  expect("i64 max", got.i64[1], top * (1ll << 33));
  expect("u64 add", got.u64[0], (total << 34) + total);
  expect("u64 min", got.u64[1], 3ull);
  expect("u64 max", got.u64[2], widest + 3);
  expect("u64 and", got.u64[3], 0ull);
  expect("u64 or", got.u64[4], ~0ull);
  expect("u64 xor", got.u64[5], mix_wide);
  expect("u64 exchange", (got.u64[6] & 0xffffffff) == got.u64[6] >> 34, true);
  expect("u64 compare and swap", got.u64[7], chain_wide);
  for (int k = 0; k < 2; ++k) {
    expect("f32 add", got.f32[k], 0.5f * static_cast<float>(total));
    expect("f64 add", got.f64[k], 0.5 * static_cast<double>(total));
  }
  expect("f32 min", got.f32[2], 11.0f - static_cast<float>(items));
  expect("f32 max", got.f32[3], static_cast<float>(items - 1) * 0.25f);
  expect("f64 min", got.f64[2], 11.0 - items);
  expect("f64 max", got.f64[3], (items - 1) * 0.25);

  DeviceArray<Cells> shared(std::vector<Cells>(1, Cells{}));
  system_scope<<<groups, threads>>>(shared.get());
  got = shared.read()[0];
  expect("system u32 add", got.u32[0], static_cast<unsigned>(total));
  expect("system u32 max", got.u32[1], items - 1);
  expect("system u32 or", got.u32[2], ~0u);
  expect("system u64 add", got.u64[0], total << 34);
  expect("system f32 add", got.f32[0], 0.5f * static_cast<float>(total));
  expect("system f64 add", got.f64[0], 0.5 * static_cast<double>(total));
  expect("system i32 add", got.i32[0], static_cast<int>(items));
  for (int k = 1; k <= 4; ++k)
    expect("device i32 add", got.i32[k], static_cast<int>(items / 4));

  DeviceArray<__half2> halves(std::vector<__half2>(1, __half2{__float2half(0.0f), __float2half(0.0f)}));
  DeviceArray<unsigned> bfloats(std::vector<unsigned>(1, 0u));
  packed<<<2, 64>>>(halves.get(), bfloats.get());
  __half2 pair = halves.read()[0];
  expect("low half", __half2float(pair.x), 128.0f);
  expect("high half", __half2float(pair.y), -256.0f);
  expect("bfloat pair", bfloats.read()[0], 0xc3004300u);
  return pass();
}
