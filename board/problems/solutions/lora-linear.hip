#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* x, const float* W, const float* A, const float* B, float scaling, float* y,
                                    size_t m, size_t n, size_t k, size_t r) {
    size_t row = blockIdx.y * (size_t)blockDim.y + threadIdx.y, column = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (row >= m || column >= n) return;
    float base = 0.0f, low = 0.0f;
    for (size_t l = 0; l < k; ++l) base += x[row * k + l] * W[l * n + column];
    for (size_t q = 0; q < r; ++q) {
        float inner = 0.0f;
        for (size_t l = 0; l < k; ++l) inner += x[row * k + l] * A[l * r + q];
        low += inner * B[q * n + column];
    }
    y[row * n + column] = base + scaling * low;
}
