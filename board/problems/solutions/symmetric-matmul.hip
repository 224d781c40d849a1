#include <hip/hip_runtime.h>

#define TILE 16

extern "C" __global__ void solution(const float* input_a, const float* input_b, float* output_c, size_t n) {
    __shared__ float left[TILE][TILE + 1], right[TILE][TILE + 1];
    size_t row = blockIdx.y * (size_t)TILE + threadIdx.y, column = blockIdx.x * (size_t)TILE + threadIdx.x;
    float sum = 0;
    for (size_t start = 0; start < n; start += TILE) {
        size_t x = start + threadIdx.x, y = start + threadIdx.y;
        left[threadIdx.y][threadIdx.x] = row < n && x < n ? input_a[row * n + x] : 0;
        right[threadIdx.y][threadIdx.x] = y < n && column < n ? input_b[y * n + column] : 0;
        __syncthreads();
        for (int l = 0; l < TILE; ++l) sum += left[threadIdx.y][l] * right[l][threadIdx.x];
        __syncthreads();
    }
    if (row < n && column < n) output_c[row * n + column] = sum;
}
