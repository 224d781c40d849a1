#include <hip/hip_runtime.h>

// Only GPU 0 gets the sum.
__global__ void add(const float* own, const float* other, float* sum, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) sum[i] = own[i] + other[i];
}

extern "C" void solution(const float* input0, const float* input1, float* output0, float* output1, size_t n) {
    add<<<unsigned((n + 255) / 256), 256>>>(input0, input1, output0, n);
    hipMemcpyPeer(output1, 1, input1, 1, n * sizeof(float));
}
