#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* A, const float* B, float* C, size_t H, size_t W, size_t Kh, size_t Kw) {
    long x = blockIdx.x * (long)blockDim.x + threadIdx.x, y = blockIdx.y * (long)blockDim.y + threadIdx.y;
    if (x >= (long)W || y >= (long)H) return;
    float sum = 0.0f;
    for (long i = 0; i < (long)Kh; ++i) {
        for (long j = 0; j < (long)Kw; ++j) {
            long py = y + i - ((long)Kh - 1) / 2, px = x + j - ((long)Kw - 1) / 2;
            if (py >= 0 && py < (long)H && px >= 0 && px < (long)W) sum += A[py * W + px] * B[i * Kw + j];
        }
    }
    C[y * W + x] = sum;
}
