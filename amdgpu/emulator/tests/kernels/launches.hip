#include <hip/hip_runtime.h>
#include <hip/hip_cooperative_groups.h>

extern "C" __global__ void fill(unsigned* out, unsigned seed, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned x = seed ^ i;
    for (int k = 0; k < 50; ++k) x = x * 1664525u + 1013904223u;
    out[i] = x;
}

// Workgroup `late` waits for the one after it; all others only count.
extern "C" __global__ void waits_for_next(unsigned* flag, unsigned* ended, unsigned late) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == late)
        while (!*(volatile unsigned*)flag) {}
    if (blockIdx.x == late + 1) *(volatile unsigned*)flag = 1;
    atomicAdd(ended, 1u);
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

// The first workgroup repeatedly writes elements whose dwords are all equal; the others count elements they read that are not.
template <int Dwords>
__device__ void tear(unsigned* memory, int step, unsigned* done, unsigned* torn, int rounds) {
    typedef unsigned Element __attribute__((ext_vector_type(Dwords)));
    volatile Element* mine = (Element*)memory + threadIdx.x * step;
    if (blockIdx.x == 0) {
        for (int round = 0; round < rounds; ++round) *mine = Element(round);
        __threadfence();
        if (threadIdx.x == 0) *(volatile unsigned*)done = 1;
        return;
    }
    unsigned wrong = 0;
    while (!*(volatile unsigned*)done) {
        Element got = *mine;
        for (int k = 1; k < Dwords; ++k) wrong += got[k] != got[0];
    }
    atomicAdd(torn, wrong);
}

extern "C" __global__ void tear_pairs(unsigned* memory, int step, unsigned* done, unsigned* torn, int rounds) {
    tear<2>(memory, step, done, torn, rounds);
}

extern "C" __global__ void tear_fours(unsigned* memory, int step, unsigned* done, unsigned* torn, int rounds) {
    tear<4>(memory, step, done, torn, rounds);
}
