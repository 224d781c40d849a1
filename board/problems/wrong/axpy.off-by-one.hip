#include <hip/hip_runtime.h>

extern "C" __global__ void solution(float alpha, const float* x, float* y, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i + 1 < n) y[i] = alpha * x[i] + y[i];
}
