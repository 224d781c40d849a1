#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* predictions, const float* targets, float* output, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= n) return;
    float p = predictions[i], t = targets[i];
    output[i] = t * (logf(t) - logf(p));
}
