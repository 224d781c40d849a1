#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* diagonal_a, const float* input_b, float* output_c, size_t n, size_t m) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n * m) output_c[i] = diagonal_a[i / m] * input_b[i];
}
