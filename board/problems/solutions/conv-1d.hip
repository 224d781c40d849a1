#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* A, const float* B, float* C, size_t N, size_t K) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x, reach = ((long)K - 1) / 2;
    if (i >= (long)N) return;
    float sum = 0.0f;
    for (long j = 0; j < (long)K; ++j) {
        long at = i + j - reach;
        if (at >= 0 && at < (long)N) sum += A[at] * B[j];
    }
    C[i] = sum;
}
