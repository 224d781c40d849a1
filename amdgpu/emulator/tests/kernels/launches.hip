#include <hip/hip_runtime.h>
#include <hip/hip_cooperative_groups.h>

extern "C" __global__ void fill(unsigned* out, unsigned seed, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned x = seed ^ i;
    for (int k = 0; k < 50; ++k) x = x * 1664525u + 1013904223u;
    out[i] = x;
}

// Each round reads what other workgroups wrote in the round before.
extern "C" __global__ void rounds(int* a, int* b, int n) {
    auto grid = cooperative_groups::this_grid();
    int i = grid.thread_rank();
    for (int round = 0; round < 8; ++round) {
        b[i] = a[(i + 97) % n] + 1;
        grid.sync();
        a[i] = b[(i + 31) % n] + 1;
        grid.sync();
    }
}
