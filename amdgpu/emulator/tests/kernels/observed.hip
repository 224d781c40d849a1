// Kernels for the observer tests: some are correct, some contain errors that the observer must find.
#include <hip/hip_runtime.h>

extern "C" __global__ void tiny(float *out, float scale) {
  int i = threadIdx.x;
  if (i < 3)
    out[i] = i * scale;
}

template <typename T> __global__ void half_of(const T *in, T *out) { out[threadIdx.x] = in[threadIdx.x] / 2; }
template __global__ void half_of<float>(const float *, float *);

// Sums 256 numbers. The fixed variant has the barrier that the racy one lacks.
template <bool Waits> __device__ void sum(const int *in, int *out) {
  __shared__ int part[256];
  int i = threadIdx.x;
  part[i] = in[blockIdx.x * 256 + i];
  __syncthreads();
  for (int step = 128; step > 0; step /= 2) {
    if (i < step)
      part[i] += part[i + step];
    if (Waits)
      __syncthreads();
  }
  if (i == 0)
    out[blockIdx.x] = part[0];
}

extern "C" __global__ void racy_sum(const int *in, int *out) { sum<false>(in, out); }
extern "C" __global__ void fixed_sum(const int *in, int *out) { sum<true>(in, out); }

// Every work-item writes one element; `past` moves them out of bounds.
extern "C" __global__ void overrun(int *out, int past) { out[int(blockIdx.x * blockDim.x + threadIdx.x) + past] = 1; }

// Workgroups that write what other workgroups write or read.
extern "C" __global__ void all_write(int *out) { out[threadIdx.x] = blockIdx.x; }
extern "C" __global__ void all_add(int *out) { atomicAdd(out + threadIdx.x, 1); }
extern "C" __global__ void neighbours(int *data) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  data[i + blockDim.x] = data[i] + 1;
}
extern "C" __global__ void bytes(unsigned char *data) {
  data[blockIdx.x + threadIdx.x * gridDim.x] = static_cast<unsigned char>(blockIdx.x);
}

// The last workgroup to arrive sums up what the others wrote; the counter that all of them increment orders them.
extern "C" __global__ void last_adds_up(int *parts, unsigned *arrived, int *out) {
  parts[blockIdx.x] = blockIdx.x + 1;
  __threadfence();
  if (atomicAdd(arrived, 1) == gridDim.x - 1) {
    __threadfence();
    int total = 0;
    for (unsigned k = 0; k < gridDim.x; ++k)
      total += parts[k];
    *out = total;
  }
}

// Lanes of one wave in the columns of a tile whose rows are `Width` words long.
template <int Width> __device__ void column(float *out) {
  extern __shared__ float tile[];
  tile[threadIdx.x * Width] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x * Width];
}
extern "C" __global__ void column_of_32(float *out) { column<32>(out); }
extern "C" __global__ void column_of_33(float *out) { column<33>(out); }

// LDS accesses out of bounds or uninitialised. This compiler uses FLAT instructions for volatile accesses.
extern "C" __global__ void local_overrun(int *out, int past) {
  __shared__ int part[64];
  volatile int *cell = part + threadIdx.x + past;
  *cell = 1;
  out[blockIdx.x * 64 + threadIdx.x] = *cell;
}
extern "C" __global__ void local_unset(int *out) {
  __shared__ volatile int part[64];
  if (threadIdx.x < 60)
    part[threadIdx.x] = 1;
  out[blockIdx.x * 64 + threadIdx.x] = part[threadIdx.x];
}
extern "C" __global__ void one_cell(int *out) {
  __shared__ volatile int cell;
  cell = threadIdx.x;
  out[threadIdx.x] = cell;
}

// A lock in local memory orders the waves that take it.
extern "C" __global__ void locked(int *out) {
  __shared__ int lock, total;
  if (threadIdx.x == 0)
    lock = total = 0;
  __syncthreads();
  if (threadIdx.x % 64 == 0) {
    while (atomicCAS(&lock, 0, 1) != 0) {
    }
    total += threadIdx.x;
    __threadfence_block();
    atomicExch(&lock, 0);
  }
  __syncthreads();
  if (threadIdx.x == 0)
    *out = total;
}

// An array that cannot be kept in registers.
extern "C" __global__ void private_array(int *out, const int *order) {
  int values[100];
  for (int k = 0; k < 16; ++k)
    values[order[k] & 63] = k;
  int total = 0;
  for (int k = 0; k < 16; ++k)
    total += values[k] * k;
  out[threadIdx.x] = total;
}

// Half of the lanes take the longer path.
extern "C" __global__ void split(const int *in, int *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int value = in[i];
  if (i & 1)
    for (int k = 0; k < 10; ++k)
      value = value * 3 + out[i];
  out[i] = value;
}
