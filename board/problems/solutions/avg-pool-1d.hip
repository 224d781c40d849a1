#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* input, int kernel_size, int stride, int padding, float* output, size_t H) {
    long oh = ((long)H + 2 * padding - (kernel_size)) / stride + 1;
    long index = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (index >= oh) return;
    long rest = index;
    long at_h = rest % oh * stride - padding;
    rest /= oh;
    float value = 0.0f;
    for (int kh = 0; kh < kernel_size; ++kh) {
        long h = at_h + kh;
        if (h < 0 || h >= (long)H) continue;
        value += input[h];
    }
    output[index] = value / (kernel_size);
}
