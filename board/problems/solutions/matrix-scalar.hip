#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* input_matrix, float scalar, float* output_matrix, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n * n) output_matrix[i] = scalar * input_matrix[i];
}
