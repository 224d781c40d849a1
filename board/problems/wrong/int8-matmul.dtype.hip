#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const int8_t* a, const int8_t* b, int* c, size_t m, size_t n, size_t k) {
    size_t row = blockIdx.y * (size_t)blockDim.y + threadIdx.y, column = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (row >= m || column >= n) return;
    int16_t sum = 0;
    for (size_t l = 0; l < k; ++l) sum += a[row * k + l] * b[l * n + column];
    c[row * n + column] = sum;
}
