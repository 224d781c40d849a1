#include <hip/hip_runtime.h>

__device__ float e2m1(unsigned bits) {
    const float numbers[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
    return bits & 8 ? -numbers[bits & 7] : numbers[bits & 7];
}

extern "C" __global__ void solution(const uint8_t* q_a, const uint8_t* scale_a, const uint8_t* q_b, const uint8_t* scale_b, float* c,
                                    size_t m, size_t n, size_t k) {
    size_t row = blockIdx.y * (size_t)blockDim.y + threadIdx.y, column = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (row >= m || column >= n) return;
    float sum = 0.0f;
    for (size_t start = 0; start < k; start += 32) {
        float part = 0.0f;
        for (size_t l = start; l < start + 32; ++l) part += e2m1(q_a[(row * k + l) / 2] >> l % 2 * 4 & 15) * e2m1(q_b[(column * k + l) / 2] >> l % 2 * 4 & 15);
        sum += ldexpf(part, (int)scale_a[(row * k + start) / 32] + (int)scale_b[(column * k + start) / 32] - 254);
    }
    c[row * n + column] = sum;
}
