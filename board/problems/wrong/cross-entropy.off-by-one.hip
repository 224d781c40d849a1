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

extern "C" __global__ void solution(const float* logits, const int* labels, float* loss, size_t n, size_t c) {
    float total = 0.0f;
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) {
        const float* x = logits + i * c;
        float largest = x[0], sum = 0.0f;
        for (size_t j = 1; j < c; ++j) largest = fmaxf(largest, x[j]);
        for (size_t j = 1; j < c; ++j) sum += expf(x[j] - largest);
        total += largest + logf(sum) - x[labels[i]];
    }
    total = block_sum(total);
    if (threadIdx.x == 0) loss[0] = total / n;
}
