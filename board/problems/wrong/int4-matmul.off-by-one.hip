#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* x, const uint8_t* q, const float* scales, float* y, size_t m, size_t n, size_t k) {
    size_t row = blockIdx.y * (size_t)blockDim.y + threadIdx.y, column = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (row >= m || column >= n) return;
    float sum = 0.0f;
    for (size_t l = 0; l < k; ++l) {
        int weight = (q[(column * k + l) / 2] >> l % 2 * 4 & 15) - 7;
        sum += x[row * k + l] * (weight * scales[(column * k + l) / 32]);
    }
    y[row * n + column] = sum;
}
