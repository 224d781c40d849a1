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

extern "C" __global__ void solution(const float* predictions, const float* targets, float* output, size_t n, size_t d) {
    const float* p = predictions + blockIdx.x * d;
    const float* t = targets + blockIdx.x * d;
    float both = 0.0f, first = 0.0f, second = 0.0f;
    for (size_t i = threadIdx.x; i < d; i += blockDim.x) {
        both += p[i] * t[i];
        first += p[i] * p[i];
        second += t[i] * t[i];
    }
    both = block_sum(both);
    first = block_sum(first);
    second = block_sum(second);
    if (threadIdx.x == 0) output[blockIdx.x] = both / (sqrtf(first) * sqrtf(second));
}
