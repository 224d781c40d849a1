#include <hip/hip_runtime.h>

// The inclusive prefix sums of a work-group.
__device__ float block_scan(float value) {
    __shared__ float sums[256];
    __syncthreads();
    sums[threadIdx.x] = value;
    __syncthreads();
    for (unsigned step = 1; step < blockDim.x; step *= 2) {
        float before = threadIdx.x >= step ? sums[threadIdx.x - step] : 0.0f;
        sums[threadIdx.x] = before + sums[threadIdx.x];
        __syncthreads();
    }
    return sums[threadIdx.x];
}

extern "C" __global__ void solution(const float* input, float* output, size_t n) {
    __shared__ float carry;
    if (threadIdx.x == 0) carry = 0.0f;
    __syncthreads();
    for (size_t start = 0; start < n; start += blockDim.x) {
        size_t i = start + threadIdx.x;
        float mine = block_scan(i < n ? input[i] : 0.0f) + carry;
        if (i < n) output[i] = mine;
        __syncthreads();
        if (threadIdx.x == blockDim.x - 1) carry = mine;
        __syncthreads();
    }
}
