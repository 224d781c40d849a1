// Half and bfloat16: conversions, arithmetic and packed arithmetic, compared bit for bit with the host.
#include "check.h"

#include <hip/hip_bf16.h>
#include <hip/hip_fp16.h>

#include <cstring>

EXAMPLE("fp16_bf16");

// Rounds a value to `mantissa` stored bits with a minimum exponent of `lowest`, ties to even, as the formats do.
static double round_to(double value, int mantissa, int lowest, double largest) {
  if (value == 0.0 || std::isnan(value) || std::isinf(value))
    return value;
  int exponent;
  std::frexp(value, &exponent); // value = f * 2^exponent, 0.5 <= |f| < 1
  int step = std::max(exponent - 1, lowest) - mantissa;
  double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -step)), step);
  return std::fabs(rounded) > largest ? std::copysign(INFINITY, value) : rounded;
}
static double round_half(double value) { return round_to(value, 10, -14, 65504.0); }
static double round_bf16(double value) { return round_to(value, 7, -126, 3.3895313892515355e38); }

constexpr int operations = 6;

__global__ void halves(const float *a, const float *b, float *out, int count) {
  int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count)
    return;
  __half x = __float2half(a[i]), y = __float2half(b[i]);
  float *results = out + i * operations;
  results[0] = __half2float(x);
  results[1] = __half2float(__hadd(x, y));
  results[2] = __half2float(__hmul(x, y));
  results[3] = __half2float(__hfma(x, y, x));
  results[4] = __half2float(__hsub(x, y));
  results[5] = __hgt(x, y) ? 1.0f : 0.0f;
}

__global__ void packed_halves(const float *a, const float *b, float *out, int pairs) {
  int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= pairs)
    return;
  __half2 x = __floats2half2_rn(a[2 * i], a[2 * i + 1]), y = __floats2half2_rn(b[2 * i], b[2 * i + 1]);
  __half2 sum = __hadd2(x, y), fused = __hfma2(x, y, x);
  out[4 * i] = __low2float(sum);
  out[4 * i + 1] = __high2float(sum);
  out[4 * i + 2] = __low2float(fused);
  out[4 * i + 3] = __high2float(fused);
}

__global__ void bfloats(const float *a, const float *b, float *out, int count) {
  int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count)
    return;
  __hip_bfloat16 x = __float2bfloat16(a[i]), y = __float2bfloat16(b[i]);
  float *results = out + i * operations;
  results[0] = __bfloat162float(x);
  results[1] = __bfloat162float(__hadd(x, y));
  results[2] = __bfloat162float(__hmul(x, y));
  results[3] = __bfloat162float(__hsub(x, y));
  results[4] = __hlt(x, y) ? 1.0f : 0.0f;
  results[5] = __bfloat162float(__hneg(x));
}

static void expect_same(const char *what, size_t index, float got, double wanted) {
  float want = static_cast<float>(wanted);
  if (std::memcmp(&got, &want, sizeof got) != 0 && !(got == 0.0f && want == 0.0f))
    fail("%s[%zu] is %.9g, not %.9g", what, index, static_cast<double>(got), wanted);
}

int main() {
  const int count = 4096;
  std::vector<float> a(count), b(count);
  Random random(7);
  for (int i = 0; i < count; ++i) {
    // From subnormal halves to overflowing products.
    a[i] = std::ldexp(random.signed_unit(), static_cast<int>(random.below(24)) - 14);
    b[i] = std::ldexp(random.signed_unit(), static_cast<int>(random.below(24)) - 14);
  }
  a[0] = 65519.0f, a[1] = 65520.0f, a[2] = 6e-8f, a[3] = 1.0f + 0x1p-11f;
  DeviceArray<float> device_a(a), device_b(b), out(static_cast<size_t>(count) * operations);
  unsigned grid = blocks_for(count, 256);

  halves<<<grid, 256>>>(device_a.get(), device_b.get(), out.get(), count);
  HIP_OK(hipGetLastError());
  std::vector<float> got = out.read();
  for (int i = 0; i < count; ++i) {
    double x = round_half(a[i]), y = round_half(b[i]);
    const float *results = &got[i * operations];
    expect_same("half", i, results[0], x);
    expect_same("half sum", i, results[1], round_half(x + y));
    expect_same("half product", i, results[2], round_half(x * y));
    expect_same("half fma", i, results[3], round_half(x * y + x));
    expect_same("half difference", i, results[4], round_half(x - y));
    expect_same("half comparison", i, results[5], x > y ? 1.0 : 0.0);
  }

  packed_halves<<<blocks_for(count / 2, 256), 256>>>(device_a.get(), device_b.get(), out.get(), count / 2);
  HIP_OK(hipGetLastError());
  got = out.read();
  for (int i = 0; i < count; ++i) {
    double x = round_half(a[i]), y = round_half(b[i]);
    expect_same("packed sum", i, got[4 * (i / 2) + i % 2], round_half(x + y));
    expect_same("packed fma", i, got[4 * (i / 2) + 2 + i % 2], round_half(x * y + x));
  }

  bfloats<<<grid, 256>>>(device_a.get(), device_b.get(), out.get(), count);
  HIP_OK(hipGetLastError());
  got = out.read();
  for (int i = 0; i < count; ++i) {
    double x = round_bf16(a[i]), y = round_bf16(b[i]);
    const float *results = &got[i * operations];
    // bfloat16 arithmetic is float arithmetic, rounded once more.
    expect_same("bfloat16", i, results[0], x);
    expect_same("bfloat16 sum", i, results[1], round_bf16(static_cast<float>(x + y)));
    expect_same("bfloat16 product", i, results[2], round_bf16(static_cast<float>(x * y)));
    expect_same("bfloat16 difference", i, results[3], round_bf16(static_cast<float>(x - y)));
    expect_same("bfloat16 comparison", i, results[4], x < y ? 1.0 : 0.0);
    expect_same("bfloat16 negation", i, results[5], -x);
  }
  return pass();
}
