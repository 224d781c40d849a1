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

// One work-group per head, one thread per position; the softmax weights go through LDS in tiles.
extern "C" __global__ void solution(const float* q, const float* K, const float* V, float* output, size_t H, size_t S, size_t E) {
    __shared__ float shares[256];
    size_t head = blockIdx.x;
    float scale = 1.0f / sqrtf((float)E), largest = -INFINITY, sum = 0.0f;
    auto score = [&](size_t j) {
        float dot = 0.0f;
        for (size_t e = 0; e < E; ++e) dot += q[head * E + e] * K[(j * H + head) * E + e];
        return dot * scale;
    };
    for (size_t j = threadIdx.x; j < S; j += blockDim.x) largest = fmaxf(largest, score(j));
    largest = block_max(largest);
    for (size_t j = threadIdx.x; j < S; j += blockDim.x) sum += expf(score(j) - largest);
    sum = block_sum(sum);
    for (size_t e = threadIdx.x; e < E; e += blockDim.x) output[head * E + e] = 0.0f;
    for (size_t start = 0; start < S; start += blockDim.x) {
        size_t j = start + threadIdx.x;
        __syncthreads();
        shares[threadIdx.x] = j < S ? expf(score(j) - largest) / sum : 0.0f;
        __syncthreads();
        for (size_t e = threadIdx.x; e < E; e += blockDim.x) {
            float part = 0.0f;
            for (size_t l = 0; l < blockDim.x && start + l < S; ++l) part += shares[l] * V[((start + l) * H + head) * E + e];
            output[head * E + e] += part;
        }
    }
}
