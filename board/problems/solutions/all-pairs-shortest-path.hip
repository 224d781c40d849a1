#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* adj_matrix, float* output, size_t n) {
    for (size_t i = threadIdx.x; i < n * n; i += blockDim.x) {
        float weight = adj_matrix[i];
        output[i] = i / n == i % n ? 0.0f : weight > 0.0f ? weight : INFINITY;
    }
    for (size_t k = 0; k < n; ++k) {
        __syncthreads();
        for (size_t i = threadIdx.x; i < n * n; i += blockDim.x) {
            float through = output[i / n * n + k] + output[k * n + i % n];
            if (through < output[i]) output[i] = through;
        }
    }
}
