#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* logits, int* experts, float* weights, size_t n, size_t e) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float* x = logits + i * e;
    int first = -1, second = -1;
    for (int j = 0; j < (int)e; ++j) {
        if (first < 0 || x[j] > x[first]) {
            first = j;
        } else if (second < 0 || x[j] > x[second]) {
            second = j;
        }
    }
    float share = 1.0f / (1.0f + expf(x[second] - x[first]));
    experts[2 * i] = first;
    experts[2 * i + 1] = second;
    weights[2 * i] = share;
    weights[2 * i + 1] = 1.0f - share;
}
