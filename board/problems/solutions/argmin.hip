#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* input, int* output, size_t outer, size_t length, size_t inner) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= outer * inner) return;
    const float* line = input + i / inner * length * inner + i % inner;
    float best = line[0];
    int place = 0;
    for (size_t l = 0; l < length; ++l) {
        float x = line[l * inner];
        if (x < best) {
            best = x;
            place = (int)l;
        }
    }
    output[i] = place;
}
