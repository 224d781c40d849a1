#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const uint32_t* input1, const uint32_t* input2, uint32_t* output, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) output[i] = (uint32_t)(input1[i] * input2[i] % 0x7fffffff);
}
