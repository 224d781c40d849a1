#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* input1, const float* input2, float* output, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) output[i] = input1[i] + input2[i];
}
