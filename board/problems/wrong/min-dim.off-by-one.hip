#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* input, float* output, size_t outer, size_t length, size_t inner) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i + 1 >= outer * inner) return;
    const float* line = input + i / inner * length * inner + i % inner;
    float value = line[0];
    for (size_t l = 0; l < length; ++l) {
        float x = line[l * inner];
        value = fminf(value, x);
    }
    output[i] = value;
}
