#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* rgb_image, float* grayscale_output, size_t height, size_t width, size_t channels) {
    long x = blockIdx.x * (long)blockDim.x + threadIdx.x, y = blockIdx.y * (long)blockDim.y + threadIdx.y;
    if (x >= (long)width || y >= (long)height) return;
    const float* pixel = rgb_image + (y * width + x) * channels;
    grayscale_output[y * width + x] = 0.299f * pixel[0] + 0.587f * pixel[1] + 0.114f * pixel[2];
}
