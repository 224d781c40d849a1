#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* input, int kernel_size, int stride, int padding, float* output, size_t H, size_t W, size_t D) {
    long oh = ((long)H + 2 * padding - (kernel_size)) / stride + 1;
    long ow = ((long)W + 2 * padding - (kernel_size)) / stride + 1;
    long od = ((long)D + 2 * padding - (kernel_size)) / stride + 1;
    long index = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (index >= oh * ow * od) return;
    long rest = index;
    long at_d = rest % od * stride - padding;
    rest /= od;
    long at_w = rest % ow * stride - padding;
    rest /= ow;
    long at_h = rest % oh * stride - padding;
    rest /= oh;
    float value = 0.0f;
    for (int kh = 0; kh < kernel_size; ++kh) {
        long h = at_h + kh;
        if (h < 0 || h >= (long)H) continue;
        for (int kw = 0; kw < kernel_size; ++kw) {
            long w = at_w + kw;
            if (w < 0 || w >= (long)W) continue;
            for (int kd = 0; kd < kernel_size; ++kd) {
                long d = at_d + kd;
                if (d < 0 || d >= (long)D) continue;
                value += input[(h * W + w) * D + d];
            }
        }
    }
    output[index] = value / (kernel_size * kernel_size * kernel_size);
}
