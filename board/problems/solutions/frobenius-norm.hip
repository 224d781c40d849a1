#include <hip/hip_runtime.h>

// Each thread adds up to a million squares, too many for single precision.
__device__ double block_sum(double value) {
    __shared__ double parts[256];
    __syncthreads();
    parts[threadIdx.x] = value;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }
    return parts[0];
}

extern "C" __global__ void solution(const float* X, float* Y, size_t size) {
    double sum = 0.0;
    for (size_t i = threadIdx.x; i < size; i += blockDim.x) sum += (double)X[i] * X[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) Y[0] = (float)sqrt(sum);
}
