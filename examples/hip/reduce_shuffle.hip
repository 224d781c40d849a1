// Sums and prefix sums with wave shuffles, and votes.
#include "check.h"

EXAMPLE("reduce_shuffle");

constexpr int block = 256;

__global__ void sum_all(const int *values, int count, unsigned long long *total) {
  __shared__ int partial[block / 32];
  int sum = 0;
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < count; i += static_cast<int>(gridDim.x) * block)
    sum += values[i];
  for (int offset = warpSize / 2; offset > 0; offset /= 2)
    sum += __shfl_down(sum, offset);
  int lane = static_cast<int>(threadIdx.x) % warpSize, wave = static_cast<int>(threadIdx.x) / warpSize;
  if (lane == 0)
    partial[wave] = sum;
  __syncthreads();
  if (wave == 0) {
    sum = lane < block / warpSize ? partial[lane] : 0;
    for (int offset = warpSize / 2; offset > 0; offset /= 2)
      sum += __shfl_xor(sum, offset);
    if (lane == 0)
      atomicAdd(total, static_cast<unsigned long long>(sum));
  }
}

// The inclusive prefix sum of each wave, and the number of odd values before each lane.
__global__ void scan(const int *values, int *prefix, int *odd_before) {
  int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  int lane = static_cast<int>(threadIdx.x) % warpSize;
  int value = values[i];
  int sum = value;
  for (int offset = 1; offset < warpSize; offset *= 2) {
    int below = __shfl_up(sum, offset);
    if (lane >= offset)
      sum += below;
  }
  prefix[i] = sum;
  unsigned long long odd = __ballot(value & 1);
  odd_before[i] = __popcll(odd & ((1ull << lane) - 1));
  // Lane 0's value, broadcast; it equals lane 0's prefix sum.
  if (__shfl(sum, 0) != __shfl(value, 0))
    prefix[i] = -1;
}

int main() {
  const int count = 1 << 17;
  std::vector<int> values(count);
  Random random(3);
  unsigned long long wanted = 0;
  for (int &value : values) {
    value = static_cast<int>(random.below(1000));
    wanted += static_cast<unsigned>(value);
  }
  DeviceArray<int> device_values(values);
  DeviceArray<unsigned long long> total(std::vector<unsigned long long>{0});
  sum_all<<<32, block>>>(device_values.get(), count, total.get());
  HIP_OK(hipGetLastError());
  if (total.read()[0] != wanted)
    fail("the sum is %llu, not %llu", total.read()[0], wanted);

  int wave = 0;
  HIP_OK(hipDeviceGetAttribute(&wave, hipDeviceAttributeWarpSize, 0));
  const int scanned = 1 << 13;
  DeviceArray<int> prefix(scanned), odd_before(scanned);
  scan<<<scanned / block, block>>>(device_values.get(), prefix.get(), odd_before.get());
  HIP_OK(hipGetLastError());
  std::vector<int> got = prefix.read(), odd = odd_before.read();
  int sum = 0, odd_count = 0;
  for (int i = 0; i < scanned; ++i) {
    if (i % wave == 0)
      sum = odd_count = 0;
    sum += values[i];
    if (got[i] != sum)
      fail("prefix[%d] is %d, not %d", i, got[i], sum);
    if (odd[i] != odd_count)
      fail("odd_before[%d] is %d, not %d", i, odd[i], odd_count);
    odd_count += values[i] & 1;
  }
  return pass();
}
