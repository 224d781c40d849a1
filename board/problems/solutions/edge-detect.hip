#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* input_image, float* output_image, size_t height, size_t width) {
    long x = blockIdx.x * (long)blockDim.x + threadIdx.x, y = blockIdx.y * (long)blockDim.y + threadIdx.y;
    if (x >= (long)width || y >= (long)height) return;
    float length = 0.0f;
    if (x > 0 && y > 0 && x + 1 < (long)width && y + 1 < (long)height) {
        const float* p = input_image + y * width + x;
        long w = (long)width;
        float gx = p[-w + 1] + 2.0f * p[1] + p[w + 1] - p[-w - 1] - 2.0f * p[-1] - p[w - 1];
        float gy = p[w - 1] + 2.0f * p[w] + p[w + 1] - p[-w - 1] - 2.0f * p[-w] - p[-w + 1];
        length = sqrtf(gx * gx + gy * gy);
    }
    output_image[y * width + x] = length;
}
