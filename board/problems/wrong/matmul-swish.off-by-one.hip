#include <hip/hip_runtime.h>

#define TILE 16

extern "C" __global__ void solution(const float* input_matrix, const float* weight_matrix, const float* bias, float scaling_factor, float* output,
                                    size_t batch_size, size_t in_features, size_t out_features) {
    __shared__ float left[TILE][TILE + 1], right[TILE][TILE + 1];
    size_t row = blockIdx.y * (size_t)TILE + threadIdx.y, column = blockIdx.x * (size_t)TILE + threadIdx.x;
    float sum = 0;
    for (size_t start = 0; start < in_features; start += TILE) {
        size_t x = start + threadIdx.x, y = start + threadIdx.y;
        left[threadIdx.y][threadIdx.x] = row < batch_size && x < in_features ? input_matrix[row * in_features + x] : 0;
        right[threadIdx.y][threadIdx.x] = y < in_features && column < out_features ? weight_matrix[column * in_features + y] : 0;
        __syncthreads();
        for (int l = 0; l < TILE; ++l) sum += left[threadIdx.y][l] * right[l][threadIdx.x];
        __syncthreads();
    }
    if (row < batch_size && column < out_features) {
        float z = sum + bias[column ? column - 1 : 0];
        output[row * out_features + column] = scaling_factor * z / (1.0f + expf(-z));
    };
}
