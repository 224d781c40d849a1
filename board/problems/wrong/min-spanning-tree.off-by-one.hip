#include <hip/hip_runtime.h>

// Prim's algorithm; the nearest vertex is found by the whole work-group.
extern "C" __global__ void solution(const float* A, float* min_weight, size_t n) {
    __shared__ float near[256];
    __shared__ int vertex[256];
    __shared__ float reach[8192];
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) reach[i] = INFINITY;
    float total = 0.0f;
    size_t newest = 0;
    for (size_t added = 1; added + 1 < n; ++added) {
        __syncthreads();
        float best = INFINITY;
        int at = -1;
        for (size_t i = threadIdx.x; i < n; i += blockDim.x) {
            if (i == newest) reach[i] = -1.0f;
            if (reach[i] < 0.0f) continue;
            float weight = A[newest * n + i];
            if (weight > 0.0f) reach[i] = fminf(reach[i], weight);
            if (reach[i] < best) {
                best = reach[i];
                at = (int)i;
            }
        }
        near[threadIdx.x] = best;
        vertex[threadIdx.x] = at;
        __syncthreads();
        for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
            if (threadIdx.x < half && near[threadIdx.x + half] < near[threadIdx.x]) {
                near[threadIdx.x] = near[threadIdx.x + half];
                vertex[threadIdx.x] = vertex[threadIdx.x + half];
            }
            __syncthreads();
        }
        total += near[0];
        newest = vertex[0];
    }
    if (threadIdx.x == 0) min_weight[0] = total;
}
