#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* x, const float* cos, const float* sin, float* output, size_t S, size_t H, size_t E) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x, half = E / 2;
    if (i >= S * H * half) return;
    size_t row = i / half, pair = i % half, angle = row / H * half + pair;
    float first = x[row * E + pair], second = x[row * E + half + pair];
    output[row * E + pair] = first * cos[angle] - second * sin[angle];
    output[row * E + half + pair] = second * cos[angle] + first * sin[angle];
}
