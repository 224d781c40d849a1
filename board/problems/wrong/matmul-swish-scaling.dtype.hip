#include <hip/hip_runtime.h>

#define TILE 16

extern "C" __global__ void solution(const float* A, const float* B, float scale, float* output, size_t M, size_t N, size_t K) {
    __shared__ float left[TILE][TILE + 1], right[TILE][TILE + 1];
    size_t row = blockIdx.y * (size_t)TILE + threadIdx.y, column = blockIdx.x * (size_t)TILE + threadIdx.x;
    float sum = 0;
    for (size_t start = 0; start < K; start += TILE) {
        size_t x = start + threadIdx.x, y = start + threadIdx.y;
        left[threadIdx.y][threadIdx.x] = row < M && x < K ? A[row * K + x] : 0;
        right[threadIdx.y][threadIdx.x] = y < K && column < N ? (float)(_Float16)B[y * N + column] : 0;
        __syncthreads();
        for (int l = 0; l < TILE; ++l) sum += left[threadIdx.y][l] * right[l][threadIdx.x];
        __syncthreads();
    }
    if (row < M && column < N) output[row * N + column] = scale * sum / (1.0f + expf(-sum));
}
