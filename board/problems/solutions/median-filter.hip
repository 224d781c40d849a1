#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* input_image, float* output_image, size_t height, size_t width) {
    long x = blockIdx.x * (long)blockDim.x + threadIdx.x, y = blockIdx.y * (long)blockDim.y + threadIdx.y;
    if (x >= (long)width || y >= (long)height) return;
    float window[9];
    int count = 0;
    for (long py = y - 1; py <= y + 1; ++py)
        for (long px = x - 1; px <= x + 1; ++px)
            if (py >= 0 && py < (long)height && px >= 0 && px < (long)width) {
                float value = input_image[py * width + px];
                int at = count++;
                for (; at > 0 && window[at - 1] > value; --at) window[at] = window[at - 1];
                window[at] = value;
            }
    output_image[y * width + x] = window[(count - 1) / 2];
}
