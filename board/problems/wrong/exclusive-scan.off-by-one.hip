#include <hip/hip_runtime.h>

// The inclusive prefix sums of a work-group.
__device__ long long block_scan(long long value) {
    __shared__ long long sums[256];
    __syncthreads();
    sums[threadIdx.x] = value;
    __syncthreads();
    for (unsigned step = 1; step < blockDim.x; step *= 2) {
        long long before = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
        __syncthreads();
        sums[threadIdx.x] = before + sums[threadIdx.x];
        __syncthreads();
    }
    return sums[threadIdx.x];
}

extern "C" __global__ void solution(const int* input, int64_t* output, size_t n) {
    __shared__ long long carry;
    if (threadIdx.x == 0) carry = 0;
    __syncthreads();
    for (size_t start = 0; start < n; start += blockDim.x) {
        size_t i = start + threadIdx.x;
        long long value = i < n ? input[i] : 0;
        long long mine = block_scan(value) + carry;
        if (i < n) output[i] = mine;
        __syncthreads();
        if (threadIdx.x == blockDim.x - 1) carry = mine;
        __syncthreads();
    }
}
