#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* input, size_t W, float* output, size_t N) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= N) return;
    size_t start = i + 1 > W ? i + 1 - W : 0;
    float sum = 0.0f;
    for (size_t j = start; j <= i; ++j) sum += input[j];
    output[i] = sum;
}
