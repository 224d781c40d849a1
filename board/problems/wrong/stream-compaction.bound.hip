#include <hip/hip_runtime.h>

// The inclusive prefix sums of a work-group.
__device__ int block_scan(int value) {
    __shared__ int sums[256];
    __syncthreads();
    sums[threadIdx.x] = value;
    __syncthreads();
    for (unsigned step = 1; step < blockDim.x; step *= 2) {
        int before = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
        __syncthreads();
        sums[threadIdx.x] = before + sums[threadIdx.x];
        __syncthreads();
    }
    return sums[threadIdx.x];
}

extern "C" __global__ void solution(const int* input, int* output, int* count, size_t n) {
    __shared__ int carry;
    if (threadIdx.x == 0) carry = 0;
    __syncthreads();
    for (size_t start = 0; start < n; start += blockDim.x) {
        size_t i = start + threadIdx.x;
        int value = i < n ? input[i] : 0;
        int mine = block_scan(value > 0) + carry;
        if (value > 0) output[mine - 1] = value;
        __syncthreads();
        if (threadIdx.x == blockDim.x - 1) carry = mine;
        __syncthreads();
    }
    if (threadIdx.x == 0) count[0] = carry;
}
