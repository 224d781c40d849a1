#include <hip/hip_runtime.h>

__device__ unsigned to_e4m3(float value) {
    unsigned sign = signbit(value) ? 0x80 : 0;
    float magnitude = fabsf(value);
    if (magnitude >= 448.0f) return sign | 0x7e;
    int exponent = 0;
    frexpf(magnitude, &exponent);
    // Steps are eight to a power of two, and never finer than those of the least.
    int step = max(exponent - 4, -9);
    int digits = (int)rintf(ldexpf(magnitude, -step));
    // A carry into the next power of two is right by itself.
    return sign | (unsigned)((step + 9) * 8 + digits);
}

extern "C" __global__ void solution(const float* a, uint8_t* q, uint8_t* scale, size_t m, size_t k) {
    size_t block = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (block >= m * k / 32) return;
    const float* x = a + block * 32;
    float largest = 0.0f;
    for (int i = 0; i < 32; ++i) largest = fmaxf(largest, fabsf(x[i]));
    int exponent = 0;
    if (largest > 0.0f) {
        frexpf(largest, &exponent);
        // frexp's mantissa is below one: the power of two below the number has an exponent less by one.
        exponent += 127 - 1 - 8;
    }
    scale[block] = (uint8_t)exponent;
    for (int i = 0; i < 32; ++i) q[block * 32 + i] = (uint8_t)to_e4m3(ldexpf(x[i], 127 - exponent));
}
