#include <hip/hip_runtime.h>

__device__ float block_sum(float value) {
    __shared__ float parts[256];
    __syncthreads();
    parts[threadIdx.x] = value;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }
    return parts[0];
}

extern "C" __global__ void solution(const float* anchor, const float* positive, const float* negative, float* loss,
                                    size_t B, size_t E, float margin) {
    float total = 0.0f;
    for (size_t b = threadIdx.x; b < B; b += blockDim.x) {
        float near = 0.0f, far = 0.0f;
        for (size_t i = b * E; i < (b + 1) * E; ++i) {
            near += (anchor[i] - positive[i]) * (anchor[i] - positive[i]);
            far += (anchor[i] - negative[i]) * (anchor[i] - negative[i]);
        }
        total += fmaxf(0.0f, near - far + margin);
    }
    total = block_sum(total);
    if (threadIdx.x == 0) loss[0] = total / B;
}
