#include <hip/hip_runtime.h>

#define TILE 16

extern "C" __global__ void solution(const float* A, const float* W, const float* b, float* C, size_t B, size_t N, size_t M) {
    __shared__ float left[TILE][TILE + 1], right[TILE][TILE + 1];
    size_t row = blockIdx.y * (size_t)TILE + threadIdx.y, column = blockIdx.x * (size_t)TILE + threadIdx.x;
    float sum = 0;
    for (size_t start = 0; start < N; start += TILE) {
        size_t x = start + threadIdx.x, y = start + threadIdx.y;
        left[threadIdx.y][threadIdx.x] = row < B && x < N ? A[row * N + x] : 0;
        right[threadIdx.y][threadIdx.x] = y < N && column < M ? W[column * N + y] : 0;
        __syncthreads();
        for (int l = 0; l < TILE; ++l) sum += left[threadIdx.y][l] * right[l][threadIdx.x];
        __syncthreads();
    }
    if (row < B && column < M) C[row * M + column] = fmaxf(0.0f, sum + b[column]);
}
