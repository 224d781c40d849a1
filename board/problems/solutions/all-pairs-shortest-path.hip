#include <hip/hip_runtime.h>

__global__ void begin(const float* adj_matrix, float* output, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= n * n) return;
    float weight = adj_matrix[i];
    output[i] = i / n == i % n ? 0.0f : weight > 0.0f ? weight : INFINITY;
}

// Row and column k do not change: the path from k to itself has length 0.
__global__ void pass_through(float* output, size_t n, size_t k) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= n * n) return;
    float through = output[i / n * n + k] + output[k * n + i % n];
    if (through < output[i]) output[i] = through;
}

extern "C" void solution(const float* adj_matrix, float* output, size_t n) {
    unsigned groups = unsigned((n * n + 255) / 256);
    begin<<<groups, 256>>>(adj_matrix, output, n);
    for (size_t k = 0; k < n; ++k) pass_through<<<groups, 256>>>(output, n, k);
}
