#include <hip/hip_runtime.h>

__device__ float e4m3(unsigned bits) {
    int exponent = bits >> 3 & 15, mantissa = bits & 7;
    float value = exponent == 0 ? ldexpf((float)mantissa, -9) : ldexpf((float)(8 + mantissa), exponent - 10);
    return bits & 0x80 ? -value : value;
}

extern "C" __global__ void solution(const uint8_t* q_a, const uint8_t* scale_a, const uint8_t* q_b, const uint8_t* scale_b, float* c,
                                    size_t m, size_t n, size_t k) {
    size_t row = blockIdx.y * (size_t)blockDim.y + threadIdx.y, column = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (row >= m || column >= n) return;
    float sum = 0.0f;
    for (size_t start = 0; start < k; start += 32) {
        float part = 0.0f;
        for (size_t l = start; l < start + 32; ++l) part += e4m3(q_a[row * k + l]) * e4m3(q_b[column * k + l]);
        sum += ldexpf(part, (int)scale_a[(row * k + start) / 32] + (int)scale_b[column * k / 32] - 254);
    }
    c[row * n + column] = sum;
}
