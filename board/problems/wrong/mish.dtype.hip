#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* input, float* output, size_t n, size_t m) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n * m) {
        float x = (float)(_Float16)input[i];
        output[i] = x * tanhf(fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x))));
    }
}
