// A histogram with atomics in LDS and in device memory, and the other atomic operations.
#include "check.h"

#include <algorithm>

EXAMPLE("histogram_atomics");

constexpr int bins = 256;

__global__ void histogram(const unsigned char *values, int count, unsigned *counts) {
  __shared__ unsigned local[bins];
  local[threadIdx.x] = 0;
  __syncthreads();
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < count; i += static_cast<int>(gridDim.x * blockDim.x))
    atomicAdd(&local[values[i]], 1u);
  __syncthreads();
  if (local[threadIdx.x] != 0)
    atomicAdd(&counts[threadIdx.x], local[threadIdx.x]);
}

struct Results {
  int smallest, largest;
  unsigned all_bits, any_bits, toggled, wrapped, exchanged;
  unsigned long long product_mod, total;
  float float_total;
  double double_total;
};

__device__ unsigned long long atomic_multiply_mod(unsigned long long *address, unsigned factor) {
  unsigned long long seen = *address, assumed;
  do {
    assumed = seen;
    seen = atomicCAS(address, assumed, assumed * factor % 1000003ull);
  } while (seen != assumed);
  return seen;
}

__global__ void combine(const unsigned char *values, int count, Results *results) {
  int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count)
    return;
  unsigned value = values[i];
  atomicMin(&results->smallest, static_cast<int>(value) - 300);
  atomicMax(&results->largest, static_cast<int>(value) - 300);
  atomicAnd(&results->all_bits, value | 0xffff0000u);
  atomicOr(&results->any_bits, value << 8);
  atomicXor(&results->toggled, value * 2654435761u);
  atomicInc(&results->wrapped, 99u);
  atomicAdd(&results->total, static_cast<unsigned long long>(value) << 32);
  atomicAdd(&results->float_total, static_cast<float>(value));
  atomicAdd(&results->double_total, static_cast<double>(value));
  if (atomicExch(&results->exchanged, 1u) != 1u)
    atomicAdd(&results->exchanged, 0u);
  if (i % 64 == 0)
    atomic_multiply_mod(&results->product_mod, value + 1);
}

int main() {
  const int count = 40000;
  std::vector<unsigned char> values(count);
  Random random(5);
  for (unsigned char &value : values)
    value = static_cast<unsigned char>((random.below(16) * random.below(16)) + 3);
  DeviceArray<unsigned char> device_values(values);
  DeviceArray<unsigned> device_counts(bins);
  HIP_OK(hipMemset(device_counts.get(), 0, device_counts.bytes()));
  histogram<<<20, bins>>>(device_values.get(), count, device_counts.get());
  HIP_OK(hipGetLastError());
  std::vector<unsigned> counts = device_counts.read(), wanted(bins, 0);
  for (unsigned char value : values)
    ++wanted[value];
  for (int bin = 0; bin < bins; ++bin)
    if (counts[bin] != wanted[bin])
      fail("counts[%d] is %u, not %u", bin, counts[bin], wanted[bin]);

  const int combined = 8000;
  Results want{};
  want.smallest = 1000, want.largest = -1000, want.all_bits = 0xffffffffu, want.product_mod = 1;
  DeviceArray<Results> device_results(std::vector<Results>{want});
  combine<<<blocks_for(combined, 128), 128>>>(device_values.get(), combined, device_results.get());
  HIP_OK(hipGetLastError());
  Results got = device_results.read()[0];
  for (int i = 0; i < combined; ++i) {
    unsigned value = values[i];
    want.smallest = std::min(want.smallest, static_cast<int>(value) - 300);
    want.largest = std::max(want.largest, static_cast<int>(value) - 300);
    want.all_bits &= value | 0xffff0000u;
    want.any_bits |= value << 8;
    want.toggled ^= value * 2654435761u;
    want.wrapped = want.wrapped >= 99u ? 0 : want.wrapped + 1;
    want.total += static_cast<unsigned long long>(value) << 32;
    want.double_total += value;
    if (i % 64 == 0)
      want.product_mod = want.product_mod * (value + 1) % 1000003ull;
  }
  if (got.smallest != want.smallest || got.largest != want.largest)
    fail("smallest and largest are %d and %d, not %d and %d", got.smallest, got.largest, want.smallest, want.largest);
  if (got.all_bits != want.all_bits || got.any_bits != want.any_bits || got.toggled != want.toggled)
    fail("the bits are %x %x %x, not %x %x %x", got.all_bits, got.any_bits, got.toggled, want.all_bits, want.any_bits,
         want.toggled);
  if (got.wrapped != want.wrapped || got.exchanged != 1u)
    fail("the wrapped count is %u, not %u; the exchanged value is %u", got.wrapped, want.wrapped, got.exchanged);
  if (got.total != want.total || got.product_mod != want.product_mod)
    fail("total and product are %llu and %llu, not %llu and %llu", got.total, got.product_mod, want.total,
         want.product_mod);
  // Integers below 2^24, so the order of the additions makes no difference.
  if (got.float_total != static_cast<float>(want.double_total) || got.double_total != want.double_total)
    fail("the floating-point totals are %g and %g, not %g", static_cast<double>(got.float_total), got.double_total,
         want.double_total);
  return pass();
}
