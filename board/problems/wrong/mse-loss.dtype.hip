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

extern "C" __global__ void solution(const float* predictions, const float* targets, float* output, size_t n) {
    float sum = 0.0f;
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) {
        float difference = (float)(_Float16)(predictions[i] - targets[i]);
        sum += difference * difference;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) output[0] = sum / n;
}
