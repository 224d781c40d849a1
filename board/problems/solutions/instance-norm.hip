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

extern "C" __global__ void solution(const float* X, float* Y, size_t B, size_t C, size_t S) {
    const float* x = X + blockIdx.x * S;
    float* y = Y + blockIdx.x * S;
    float sum = 0.0f;
    for (size_t i = threadIdx.x; i < S; i += blockDim.x) sum += x[i];
    float mean = block_sum(sum) / S, squares = 0.0f;
    for (size_t i = threadIdx.x; i < S; i += blockDim.x) squares += (x[i] - mean) * (x[i] - mean);
    float deviation = sqrtf(block_sum(squares) / S + 1e-5f);
    for (size_t i = threadIdx.x; i < S; i += blockDim.x) y[i] = (x[i] - mean) / deviation;
}
