#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* input_image, float threshold_value, float* output_image, size_t height, size_t width) {
    long x = blockIdx.x * (long)blockDim.x + threadIdx.x, y = blockIdx.y * (long)blockDim.y + threadIdx.y;
    if (x >= (long)width || y >= (long)height) return;
    output_image[y * width + x] = input_image[y * width + x] > threshold_value ? 255.0f : 0.0f;
}
