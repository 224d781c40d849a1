#include <hip/hip_runtime.h>

// One thread per query, with an online softmax over the keys.
extern "C" __global__ void solution(const float* Q, const float* K, const float* V, float* output, size_t B, size_t H, size_t S, size_t E) {
    size_t place = blockIdx.x * (size_t)blockDim.x + threadIdx.x, head = blockIdx.y;
    if (place >= S) return;
    const float* query = Q + (head * S + place) * E;
    const float* keys = K + head * S * E;
    const float* values = V + head * S * E;
    float* out = output + (head * S + place) * E;
    float largest = -INFINITY, sum = 0.0f, scale = 1.0f / sqrtf((float)E);
    for (size_t e = 0; e < E; ++e) out[e] = 0.0f;
    for (size_t j = 0; j < S; ++j) {
        float score = 0.0f;
        for (size_t e = 0; e < E; ++e) score += query[e] * keys[j * E + e];
        score *= scale;
        float next = fmaxf(largest, score), keep = expf(largest - next), share = (float)(_Float16)expf(score - next);
        for (size_t e = 0; e < E; ++e) out[e] = out[e] * keep + share * values[j * E + e];
        sum = sum * keep + share;
        largest = next;
    }
    for (size_t e = 0; e < E; ++e) out[e] /= sum;
}
