#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* points, const float* centroids, int* labels, size_t n, size_t d, size_t k) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= n) return;
    float best = INFINITY;
    int label = 0;
    for (size_t c = 0; c < k; ++c) {
        float distance = 0.0f;
        for (size_t j = 0; j < d; ++j) {
            float step = points[i * d + j] - centroids[c * d + j];
            distance += step * step;
        }
        if (distance < best) {
            best = distance;
            label = (int)c;
        }
    }
    labels[i] = label;
}
