#include <hip/hip_runtime.h>

// One work-group sorts up to 4096 numbers in LDS; longer vectors are sorted in place by odd-even transposition.
extern "C" __global__ void solution(const int* a, int* b, size_t n) {
    __shared__ int tile[4096];
    if (n <= 4096) {
        unsigned size = 1;
        while (size < n) size *= 2;
        for (unsigned i = threadIdx.x; i < size; i += blockDim.x) tile[i] = i < n ? a[i] : 0x7fffffff;
        for (unsigned run = 2; run <= size; run *= 2) {
            for (unsigned step = run / 2; step > 0; step /= 2) {
                for (unsigned i = threadIdx.x; i < size; i += blockDim.x) {
                    unsigned other = i ^ step;
                    if (other > i && (tile[i] > tile[other]) == ((i & run) == 0)) {
                        int kept = tile[i];
                        tile[i] = tile[other];
                        tile[other] = kept;
                    }
                }
            }
        }
        __syncthreads();
        for (unsigned i = threadIdx.x; i < n; i += blockDim.x) b[i] = tile[i];
        return;
    }
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) b[i] = a[i];
    for (size_t round = 0; round < n; ++round) {
        __syncthreads();
        for (size_t i = 2 * threadIdx.x + round % 2; i + 1 < n; i += 2 * blockDim.x) {
            int first = b[i], second = b[i + 1];
            if (first > second) {
                b[i] = second;
                b[i + 1] = first;
            }
        }
    }
}
