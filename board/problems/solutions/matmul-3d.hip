#include <hip/hip_runtime.h>

#define TILE 16

extern "C" __global__ void solution(const float* A, const float* B, float* C, size_t n, size_t m, size_t k, size_t l_) {
    __shared__ float left[TILE][TILE + 1], right[TILE][TILE + 1];
    size_t row = blockIdx.y * (size_t)TILE + threadIdx.y, column = blockIdx.x * (size_t)TILE + threadIdx.x;
    const float* a = A + blockIdx.z * m * k;
    float sum = 0;
    for (size_t start = 0; start < k; start += TILE) {
        size_t x = start + threadIdx.x, y = start + threadIdx.y;
        left[threadIdx.y][threadIdx.x] = row < m && x < k ? a[row * k + x] : 0;
        right[threadIdx.y][threadIdx.x] = y < k && column < l_ ? B[y * l_ + column] : 0;
        __syncthreads();
        for (int l = 0; l < TILE; ++l) sum += left[threadIdx.y][l] * right[l][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < l_) C[(blockIdx.z * m + row) * l_ + column] = sum;
}
