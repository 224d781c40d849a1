// Device code only, for hipModuleLoad.
#include <hip/hip_runtime.h>

__device__ int table[64];

extern "C" __global__ void fill(int *data, int value) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  data[i] = value + table[i % 64];
}
