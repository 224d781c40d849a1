#include <hip/hip_runtime.h>

// One work-group, one bit per pass: a stable partition into zeros and ones.
// The inclusive prefix sums of a work-group.
__device__ unsigned block_scan(unsigned value) {
    __shared__ unsigned sums[256];
    __syncthreads();
    sums[threadIdx.x] = value;
    __syncthreads();
    for (unsigned step = 1; step < blockDim.x; step *= 2) {
        unsigned before = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
        __syncthreads();
        sums[threadIdx.x] = before + sums[threadIdx.x];
        __syncthreads();
    }
    return sums[threadIdx.x];
}

__global__ void pass(const uint32_t* keys, const uint32_t* values, uint32_t* keys_out, uint32_t* values_out,
                     unsigned n, int bit) {
    __shared__ unsigned zeros, before_zeros, before_ones;
    if (threadIdx.x == 0) zeros = before_zeros = before_ones = 0;
    __syncthreads();
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x)
        if (!(keys[i] >> bit & 1)) atomicAdd(&zeros, 1u);
    __syncthreads();
    for (unsigned start = 0; start < n; start += blockDim.x) {
        unsigned i = start + threadIdx.x;
        bool zero = i < n && !(keys[i] >> bit & 1), one = i < n && !zero;
        unsigned zero_place = block_scan(zero), one_place = block_scan(one);
        if (i < n) {
            unsigned to = zero ? before_zeros + zero_place - 1 : zeros + before_ones + one_place - 1;
            keys_out[to] = keys[i];
            values_out[to] = values[i];
        }
        __syncthreads();
        if (threadIdx.x == blockDim.x - 1) {
            before_zeros += zero_place;
            before_ones += one_place;
        }
        __syncthreads();
    }
}

extern "C" void solution(const uint32_t* keys, const uint32_t* values, uint32_t* keys_out, uint32_t* values_out, size_t n) {
    uint32_t *other_keys = nullptr, *other_values = nullptr;
    (void)hipMalloc((void**)&other_keys, n * sizeof(uint32_t));
    (void)hipMalloc((void**)&other_values, n * sizeof(uint32_t));
    for (int bit = 0; bit < 32; bit += 2) {
        pass<<<1, 256>>>(bit ? keys_out : keys, bit ? values_out : values, other_keys, other_values, (unsigned)n, bit);
        pass<<<1, 256>>>(other_keys, other_values, keys_out, values_out, (unsigned)n, bit + 1);
    }
    (void)hipDeviceSynchronize();
    (void)hipFree(other_keys);
    (void)hipFree(other_values);
}
