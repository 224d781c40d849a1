#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* input_image, int kernel_size, float* output_image, size_t height, size_t width) {
    long x = blockIdx.x * (long)blockDim.x + threadIdx.x, y = blockIdx.y * (long)blockDim.y + threadIdx.y;
    if (x >= (long)width || y >= (long)height) return;
    long reach = (kernel_size - 1) / 2, count = 0;
    float sum = 0.0f;
    for (long py = y - reach; py <= y + reach; ++py)
        for (long px = x - reach; px <= x + reach; ++px)
            if (py >= 0 && py < (long)height && px >= 0 && px < (long)width) {
                sum += input_image[py * width + px];
                ++count;
            }
    output_image[y * width + x] = sum / count;
}
