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

extern "C" __global__ void solution(const float* A, const float* B, float* output, size_t M, size_t N, size_t K) {
    float total = 0.0f;
    for (size_t i = threadIdx.x; i < M * N; i += blockDim.x) {
        float sum = 0.0f;
        for (size_t l = 0; l < K; ++l) sum += A[i / N * K + l] * B[l * N + i % N];
        total += 1.0f / (1.0f + expf(-sum));
    }
    total = block_sum(total);
    if (threadIdx.x == 0) output[0] = total;
}
