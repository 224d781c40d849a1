#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const int* row_offsets, const int* columns, int source, int* levels, size_t n, size_t e) {
    __shared__ int changed;
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) levels[i] = (int)i == source ? 0 : -1;
    int level = 0;
    do {
        __syncthreads();
        if (threadIdx.x == 0) changed = 0;
        __syncthreads();
        for (size_t i = threadIdx.x; i < n; i += blockDim.x) {
            if (levels[i] != level) continue;
            for (int edge = row_offsets[i]; edge < row_offsets[i + 1]; ++edge) {
                if (levels[columns[edge]] == -1) {
                    levels[columns[edge]] = level + 1;
                    changed = 1;
                }
            }
        }
        ++level;
        __syncthreads();
    } while (changed);
}
