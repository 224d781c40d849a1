#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* image, const float* kernel, float* output, size_t H, size_t W, size_t Kh, size_t Kw) {
    long x = blockIdx.x * (long)blockDim.x + threadIdx.x, y = blockIdx.y * (long)blockDim.y + threadIdx.y;
    if (x >= (long)W || y >= (long)H) return;
    float sum = 0.0f;
    for (long i = 0; i < (long)Kh; ++i) {
        for (long j = 0; j < (long)Kw; ++j) {
            long py = y + i - ((long)Kh - 1) / 2, px = x + j - ((long)Kw - 1) / 2;
            if (py >= 0 && py < (long)H && px >= 0 && px < (long)W) sum += image[py * W + px] * kernel[i * Kw + j];
        }
    }
    sum = fmaxf(sum, 0.0f);
    output[y * W + x] = sum * fminf(sum + 3.0f, 6.0f) / 6.0f;
}
