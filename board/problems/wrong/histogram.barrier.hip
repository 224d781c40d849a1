#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const uint8_t* image, int num_bins, int* histogram, size_t height, size_t width) {
    __shared__ int counts[256];
    counts[threadIdx.x] = 0;
    __syncthreads();
    for (size_t i = threadIdx.x; i < height * width; i += blockDim.x) atomicAdd(&counts[image[i] * num_bins / 256], 1);
    if ((int)threadIdx.x < num_bins) histogram[threadIdx.x] = counts[threadIdx.x];
}
