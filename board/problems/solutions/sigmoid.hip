#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* input, float* output, size_t n, size_t m) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n * m) {
        float x = input[i];
        output[i] = 1.0f / (1.0f + expf(-x));
    }
}
