#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* input, int kernel_size, int stride, int padding, int dilation, float* output, size_t H, size_t W) {
    long oh = ((long)H + 2 * padding - (dilation * (kernel_size - 1) + 1)) / stride + 1;
    long ow = ((long)W + 2 * padding - (dilation * (kernel_size - 1) + 1)) / stride + 1;
    long index = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (index >= oh * ow) return;
    long rest = index;
    long at_w = rest % ow * stride - padding;
    rest /= ow;
    long at_h = rest % oh * stride - padding;
    rest /= oh;
    float value = -INFINITY;
    for (int kh = 0; kh < kernel_size; ++kh) {
        long h = at_h + dilation * kh;
        if (h < 0 || h >= (long)H) continue;
        for (int kw = 0; kw < kernel_size; ++kw) {
            long w = at_w + dilation * kw;
            if (w < 0 || w >= (long)W - 1) continue;
            value = fmaxf(value, input[h * W + w]);
        }
    }
    output[index] = value;
}
