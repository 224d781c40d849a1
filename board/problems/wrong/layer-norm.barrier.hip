#include <hip/hip_runtime.h>

__device__ float block_sum(float value) {
    __shared__ float parts[256];
    __syncthreads();
    parts[threadIdx.x] = value;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    }
    return parts[0];
}

extern "C" __global__ void solution(const float* X, const float* gamma, const float* beta, float* Y, size_t B, size_t F, size_t D1, size_t D2) {
    size_t length = F * D1 * D2;
    const float* x = X + blockIdx.x * length;
    float* y = Y + blockIdx.x * length;
    float sum = 0.0f;
    for (size_t i = threadIdx.x; i < length; i += blockDim.x) sum += x[i];
    float mean = block_sum(sum) / length, squares = 0.0f;
    for (size_t i = threadIdx.x; i < length; i += blockDim.x) squares += (x[i] - mean) * (x[i] - mean);
    float deviation = sqrtf(block_sum(squares) / length + 1e-5f);
    for (size_t i = threadIdx.x; i < length; i += blockDim.x) y[i] = gamma[i] * ((x[i] - mean) / deviation) + beta[i];
}
