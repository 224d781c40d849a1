// Kernels whose cost on a real GPU is known in kind: what limits them, and which of two is slower.
#include <hip/hip_runtime.h>

// Consecutive lanes access consecutive elements, or elements `stride` apart.
extern "C" __global__ void copy(const float *in, float *out, unsigned stride, unsigned mask) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned at = (i * stride) & mask;
  out[at] = in[at];
}

// A column of a tile in LDS, read again and again. Rows of 32 words put the whole column into one bank.
template <int Width> __device__ void column(float *out, int rounds) {
  __shared__ float tile[64 * Width];
  for (int k = threadIdx.x; k < 64 * Width; k += blockDim.x)
    tile[k] = k;
  __syncthreads();
  float sum = 0;
  for (int round = 0; round < rounds; ++round)
    for (int column = 0; column < 16; ++column)
      sum += tile[threadIdx.x % 64 * Width + ((column + round) & 31)];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
extern "C" __global__ void column_of_32(float *out, int rounds) { column<32>(out, rounds); }
extern "C" __global__ void column_of_33(float *out, int rounds) { column<33>(out, rounds); }

// Fused multiply-adds without memory.
extern "C" __global__ void multiply_add(float *out, float factor, int rounds) {
  float values[8];
  for (int k = 0; k < 8; ++k)
    values[k] = threadIdx.x + k;
  for (int round = 0; round < rounds; ++round)
    for (int k = 0; k < 8; ++k)
      values[k] = values[k] * factor + 1.0f;
  float sum = 0;
  for (int k = 0; k < 8; ++k)
    sum += values[k];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// One lane follows a chain of indices.
extern "C" __global__ void chase(const unsigned *next, unsigned *out, int steps) {
  unsigned at = 0;
  for (int step = 0; step < steps; ++step)
    at = next[at + threadIdx.x];
  out[threadIdx.x] = at;
}

// All waves wait for the slowest one.
extern "C" __global__ void uneven(float *out, int rounds) {
  float value = threadIdx.x;
  if (threadIdx.x < 64)
    for (int round = 0; round < rounds; ++round)
      value = value * 1.5f + 1.0f;
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}
