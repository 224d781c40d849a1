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

extern "C" __global__ void solution(const float* input_a, const float* input_b, float* output_c, size_t m, size_t k) {
    float sum = 0.0f;
    for (size_t l = threadIdx.x; l < k; l += blockDim.x) sum += input_a[blockIdx.x * k + l] * input_b[l];
    sum = block_sum(sum);
    if (threadIdx.x == 0) output_c[blockIdx.x] = sum;
}
