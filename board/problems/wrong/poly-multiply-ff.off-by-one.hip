#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const uint32_t* input1, const uint32_t* input2, uint32_t* output, size_t n) {
    size_t c = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (c >= 2 * n - 1) return;
    uint64_t sum = 0;
    size_t first = c <= n ? 0 : c - n, last = c < n ? c : n - 1;
    for (size_t i = first; i <= last; ++i) sum = (sum + (uint64_t)input1[i] * input2[c - i]) % 0x7fffffff;
    output[c] = (uint32_t)sum;
}
