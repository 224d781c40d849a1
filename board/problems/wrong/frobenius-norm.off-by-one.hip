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

extern "C" __global__ void solution(const float* X, float* Y, size_t size) {
    float sum = 0.0f;
    for (size_t i = threadIdx.x; i + 1 < size; i += blockDim.x) sum += X[i] * X[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) Y[0] = sqrtf(sum);
}
