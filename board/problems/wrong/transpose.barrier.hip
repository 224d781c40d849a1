#include <hip/hip_runtime.h>

#define TILE 16

extern "C" __global__ void solution(const float* input, float* output, size_t rows, size_t columns) {
    __shared__ float tile[TILE][TILE + 1];
    size_t x = blockIdx.x * (size_t)TILE + threadIdx.x, y = blockIdx.y * (size_t)TILE + threadIdx.y;
    if (x < columns && y < rows) tile[threadIdx.y][threadIdx.x] = input[y * columns + x];
    x = blockIdx.y * (size_t)TILE + threadIdx.x;
    y = blockIdx.x * (size_t)TILE + threadIdx.y;
    if (x < rows && y < columns) output[y * rows + x] = tile[threadIdx.x][threadIdx.y];
}
