#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* input, const float* weight, float* output, size_t C, size_t H, size_t W, size_t K) {
    long x = blockIdx.x * (long)blockDim.x + threadIdx.x, y = blockIdx.y * (long)blockDim.y + threadIdx.y;
    long c = blockIdx.z, k = (long)K, reach = (k - 1) / 2;
    if (x >= (long)W || y >= (long)H) return;
    float sum = 0.0f;
    for (long i = 0; i < k; ++i)
        for (long j = 0; j < k; ++j) {
            long py = y + i - reach, px = x + j - reach;
            if (py + c * (long)H >= 0 && py < (long)(H * (C - c)) && px >= 0 && px < (long)W)
                sum += input[(c * H + py) * W + px] * weight[(c * k + i) * k + j];
        }
    output[(c * H + y) * W + x] = sum;
}
