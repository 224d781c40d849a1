#include <hip/hip_runtime.h>

extern "C" __global__ void solution(float* data, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i + 1 < n / 2) {
        float first = data[i];
        data[i] = data[n - 1 - i];
        data[n - 1 - i] = first;
    }
}
