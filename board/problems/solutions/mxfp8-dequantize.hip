#include <hip/hip_runtime.h>

__device__ float e4m3(unsigned bits) {
    int exponent = bits >> 3 & 15, mantissa = bits & 7;
    float value = exponent == 0 ? ldexpf((float)mantissa, -9) : ldexpf((float)(8 + mantissa), exponent - 10);
    return bits & 0x80 ? -value : value;
}

extern "C" __global__ void solution(const uint8_t* q, const uint8_t* scale, float* out, size_t m, size_t k) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= m * k) return;
    out[i] = ldexpf(e4m3(q[i]), (int)scale[i / 32] - 127);
}
