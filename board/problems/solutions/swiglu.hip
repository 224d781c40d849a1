#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* gate, const float* up, float* output, size_t n, size_t m) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n * m) {
        float g = gate[i];
        output[i] = g / (1.0f + expf(-g)) * up[i];
    }
}
