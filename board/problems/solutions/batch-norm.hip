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

extern "C" __global__ void solution(const float* X, float* Y, size_t B, size_t F, size_t D1, size_t D2) {
    size_t area = D1 * D2, count = B * area, feature = blockIdx.x;
    auto place = [&](size_t i) { return (i / area * F + feature) * area + i % area; };
    float sum = 0.0f;
    for (size_t i = threadIdx.x; i < count; i += blockDim.x) sum += X[place(i)];
    float mean = block_sum(sum) / count, squares = 0.0f;
    for (size_t i = threadIdx.x; i < count; i += blockDim.x) squares += (X[place(i)] - mean) * (X[place(i)] - mean);
    float deviation = sqrtf(block_sum(squares) / count + 1e-5f);
    for (size_t i = threadIdx.x; i < count; i += blockDim.x) Y[place(i)] = (X[place(i)] - mean) / deviation;
}
