#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* adj_matrix, int source, float* distances, size_t n) {
    __shared__ int changed;
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) distances[i] = (int)i == source ? 0.0f : INFINITY;
    do {
        __syncthreads();
        if (threadIdx.x == 0) changed = 0;
        __syncthreads();
        for (size_t i = threadIdx.x; i < n; i += blockDim.x) {
            float best = distances[i];
            for (size_t from = 0; from < n; ++from) {
                float weight = adj_matrix[i * n + from];
                if (weight > 0.0f) best = fminf(best, distances[from] + weight);
            }
            if (best < distances[i]) {
                distances[i] = best;
                changed = 1;
            }
        }
        __syncthreads();
    } while (changed);
}
