#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* input, float* output, size_t n, size_t m) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n * m) {
        size_t row = i / m, column = i % m;
        float g = input[row * 2 * m + column];
        float value = input[row * 2 * m + 2 * column + 1];
        output[i] = 0.5f * g * (1.0f + tanhf(0.7978845608f * (g + 0.044715f * g * g * g))) * value;
    }
}
