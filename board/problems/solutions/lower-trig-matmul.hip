#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* input_a, const float* input_b, float* output_c, size_t n) {
    size_t row = blockIdx.y * (size_t)blockDim.y + threadIdx.y, column = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (row >= n || column >= n) return;
    float sum = 0.0f;
    for (size_t l = column; l <= row; ++l) sum += input_a[row * n + l] * input_b[l * n + column];
    output_c[row * n + column] = sum;
}
