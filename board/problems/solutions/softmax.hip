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

__device__ float block_max(float value) {
    __shared__ float parts[256];
    __syncthreads();
    parts[threadIdx.x] = value;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) parts[threadIdx.x] = fmaxf(parts[threadIdx.x], parts[threadIdx.x + half]);
        __syncthreads();
    }
    return parts[0];
}

extern "C" __global__ void solution(const float* input, float* output, size_t m, size_t n) {
    const float* x = input + blockIdx.x * n;
    float* y = output + blockIdx.x * n;
    float largest = -INFINITY, sum = 0.0f;
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) largest = fmaxf(largest, x[i]);
    largest = block_max(largest);
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) sum += expf(x[i] - largest);
    sum = block_sum(sum);
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) y[i] = expf(x[i] - largest) / sum;
}
