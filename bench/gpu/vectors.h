// Kernels over long vectors: memory bandwidth, shuffles, votes, atomics, lanes in lockstep.
#pragma once

#include "portable.h"

extern "C" __global__ void saxpy(int count, float a, const float *x, float *y) {
  for (int i = global_x(); i < count; i += whole_grid())
    y[i] = a * x[i] + y[i];
}

// The sum: shuffles in a wave, then local memory, then one atomic operation a workgroup.
extern "C" __global__ void reduce(int count, const float *x, float *total) {
  __shared__ float parts[32];
  float sum = 0.0f;
  for (int i = global_x(); i < count; i += whole_grid())
    sum += x[i];
  for (int distance = wave / 2; distance > 0; distance /= 2)
    sum += from_below(sum, distance);
  int lane = static_cast<int>(threadIdx.x) % wave, mine = static_cast<int>(threadIdx.x) / wave;
  if (lane == 0)
    parts[mine] = sum;
  __syncthreads();
  if (mine == 0) {
    sum = lane < static_cast<int>(blockDim.x) / wave ? parts[lane] : 0.0f;
    for (int distance = wave / 2; distance > 0; distance /= 2)
      sum += from_below(sum, distance);
    if (lane == 0)
      atomicAdd(total, sum);
  }
}

// Keeps what is above one half: a vote, the number of votes below, one atomic operation a wave.
extern "C" __global__ void compact(int count, const float *x, float *kept, unsigned *kept_count) {
  int lane = static_cast<int>(threadIdx.x) % wave;
  for (int base = global_x() - lane; base < count; base += whole_grid()) {
    int i = base + lane;
    float value = i < count ? x[i] : 0.0f;
    bool keep = value > 0.5f;
    mask all = votes(keep);
    int below = count_bits(all & ((mask{1} << lane) - 1));
    unsigned start = 0;
    if (lane == 0)
      start = atomicAdd(kept_count, static_cast<unsigned>(count_bits(all)));
    start = from_first(start);
    if (keep)
      kept[start + static_cast<unsigned>(below)] = value;
  }
}

// Running sums within each 64 elements. HIP: DPP steps in one wave, as rocPRIM does it. CUDA: two warps and local memory.
extern "C" __global__ void wavescan(int count, const int *x, int *sums) {
  int i = global_x();
  int sum = i < count ? x[i] : 0;
#ifdef __HIP__
#ifdef __HIP_DEVICE_COMPILE__
  sum += __builtin_amdgcn_update_dpp(0, sum, 0x111, 0xf, 0xf, false); // from 1, 2, 4 and 8 lanes to the left in a row of 16
  sum += __builtin_amdgcn_update_dpp(0, sum, 0x112, 0xf, 0xf, false);
  sum += __builtin_amdgcn_update_dpp(0, sum, 0x114, 0xf, 0xe, false);
  sum += __builtin_amdgcn_update_dpp(0, sum, 0x118, 0xf, 0xc, false);
  sum += __builtin_amdgcn_update_dpp(0, sum, 0x142, 0xa, 0xf, false); // the last lane of a row to the next row
  sum += __builtin_amdgcn_update_dpp(0, sum, 0x143, 0xc, 0xf, false); // lane 31 to the upper half
#endif
#else
  __shared__ int last[32];
  int lane = static_cast<int>(threadIdx.x) % 32, mine = static_cast<int>(threadIdx.x) / 32;
  for (int distance = 1; distance < 32; distance *= 2) {
    int left = __shfl_up_sync(all_lanes, sum, distance);
    if (lane >= distance)
      sum += left;
  }
  if (lane == 31)
    last[mine] = sum;
  __syncthreads();
  if (mine % 2 == 1)
    sum += last[mine - 1];
#endif
  if (i < count)
    sums[i] = sum;
}

#ifdef __HIP__
// Lanes of a wave run in lockstep: only the compiler has to keep the order.
__device__ inline void order_lanes() {
#ifdef __HIP_DEVICE_COMPILE__
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
#endif
}
#else
__device__ inline void order_lanes() { __syncthreads(); }
#endif

// Sums of 64 elements each, by a tree in local memory.
extern "C" __global__ void wavesync(int count, const float *x, float *sums) {
  __shared__ volatile float tree[256];
  int thread = static_cast<int>(threadIdx.x), i = global_x(), lane = thread % 64;
  tree[thread] = i < count ? x[i] : 0.0f;
  order_lanes();
#pragma unroll
  for (int distance = 32; distance > 0; distance /= 2) {
    float other = lane < distance ? tree[thread + distance] : 0.0f;
    order_lanes();
    if (lane < distance)
      tree[thread] = tree[thread] + other;
    order_lanes();
  }
  if (lane == 0)
    sums[i / 64] = tree[thread];
}
