#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* table, const int* ids, float* output, size_t v, size_t d, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n / 2 * 2 * d) output[i] = table[ids[i / d] * d + i % d];
}
