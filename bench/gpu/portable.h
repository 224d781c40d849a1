// One source for two compilers: clang makes a HIP program of it, nvcc a CUDA program. `GPU(Malloc)` is hipMalloc or
// cudaMalloc.
#pragma once

#include "../command.h"

#ifdef __HIP__
#define GPU(name) hip##name
constexpr int wave = 64;
using mask = unsigned long long;
#else
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#define GPU(name) cuda##name
constexpr int wave = 32;
using mask = unsigned;
#endif

#define GPU_OK(call)                                                                                                   \
  do {                                                                                                                 \
    GPU(Error_t) gpu_ok_result = (call);                                                                               \
    if (gpu_ok_result != GPU(Success))                                                                                 \
      fail("%s:%d: %s: %s", __FILE__, __LINE__, #call, GPU(GetErrorString)(gpu_ok_result));                            \
  } while (0)

// Shuffles and votes of all lanes of a wave.
#ifdef __HIP__
template <typename T> __device__ inline T from_below(T value, int distance) { return __shfl_down(value, distance); }
template <typename T> __device__ inline T from_first(T value) { return __shfl(value, 0); }
__device__ inline mask votes(bool yes) { return __ballot(yes); }
__device__ inline int count_bits(mask bits) { return __popcll(bits); }
#else
constexpr unsigned all_lanes = 0xffffffffu;
template <typename T> __device__ inline T from_below(T value, int distance) {
  return __shfl_down_sync(all_lanes, value, distance);
}
template <typename T> __device__ inline T from_first(T value) { return __shfl_sync(all_lanes, value, 0); }
__device__ inline mask votes(bool yes) { return __ballot_sync(all_lanes, yes); }
__device__ inline int count_bits(mask bits) { return __popc(bits); }
#endif

__device__ inline int global_x() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }
__device__ inline int global_y() { return static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y); }
__device__ inline int global_z() { return static_cast<int>(blockIdx.z * blockDim.z + threadIdx.z); }
__device__ inline int whole_grid() { return static_cast<int>(blockDim.x * gridDim.x); }

// Page-locked host memory.
inline void *allocate_pinned(size_t bytes) {
  void *memory;
#ifdef __HIP__
  GPU_OK(hipHostMalloc(&memory, bytes, 0));
#else
  GPU_OK(cudaHostAlloc(&memory, bytes, 0));
#endif
  return memory;
}

template <typename T> T *allocate(size_t count) {
  void *memory;
  GPU_OK(GPU(Malloc)(&memory, count * sizeof(T)));
  return static_cast<T *>(memory);
}
