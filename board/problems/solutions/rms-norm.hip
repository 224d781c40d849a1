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

extern "C" __global__ void solution(const float* X, float* Y, size_t B, size_t N) {
    const float* x = X + blockIdx.x * N;
    float* y = Y + blockIdx.x * N;
    float sum = 0.0f;
    for (size_t i = threadIdx.x; i < N; i += blockDim.x) sum += x[i] * x[i];
    float norm = sqrtf(block_sum(sum) / N + 1e-5f);
    for (size_t i = threadIdx.x; i < N; i += blockDim.x) y[i] = x[i] / norm;
}
