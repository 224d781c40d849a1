#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const uint32_t* bases, const uint32_t* exponents, uint32_t* output, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint64_t result = 1, square = bases[i] % 0x7fffffff;
    for (uint32_t rest = exponents[i]; rest > 0; rest >>= 1) {
        if (rest & 1) result = result * square % 0x7fffffff;
        square = square * square % 0x7fffffff;
    }
    output[i] = (uint32_t)result;
}
