#include <hip/hip_runtime.h>

#define TILE 16

extern "C" __global__ void solution(const float* A, const float* B, float* C, size_t b, size_t i, size_t j, size_t l_, size_t k) {
    __shared__ float left[TILE][TILE + 1], right[TILE][TILE + 1];
    size_t row = blockIdx.y * (size_t)TILE + threadIdx.y, column = blockIdx.x * (size_t)TILE + threadIdx.x;
    size_t rows = b * i * j;
    float sum = 0;
    for (size_t start = 0; start < l_; start += TILE) {
        size_t x = start + threadIdx.x, y = start + threadIdx.y;
        left[threadIdx.y][threadIdx.x] = row < rows && x < l_ ? A[row * l_ + x] : 0;
        right[threadIdx.y][threadIdx.x] = y < l_ && column < k ? B[y * k + column] : 0;
        __syncthreads();
        for (int l = 0; l < TILE; ++l) sum += left[threadIdx.y][l] * right[l][threadIdx.x];
        __syncthreads();
    }
    if (row < rows && column < k) C[row * k + column] = sum;
}
