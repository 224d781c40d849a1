#include <hip/hip_runtime.h>

extern "C" __global__ void write_at(int* p, long offset) { p[offset + threadIdx.x] = 1; }
extern "C" __global__ void read_at(const int* p, long offset, int* out) { out[threadIdx.x] = p[offset + threadIdx.x]; }
extern "C" __global__ void one_bad_lane(int* p, int* q) { *(threadIdx.x == 37 && blockIdx.x == 2 ? q : p + threadIdx.x) = 5; }
extern "C" __global__ void forever(volatile int* p) { while (*p == 0) {} }
extern "C" __global__ void forever_asleep(volatile int* p) { while (*p == 0) __builtin_amdgcn_s_sleep(8); }
extern "C" __global__ void gives_up(int n) { if (threadIdx.x == n) __builtin_trap(); }
extern "C" __global__ void deep(int* out, int n) {
    int v[64];
    for (int i = 0; i < 64; ++i) v[i] = i;
    out[0] = v[n];
}
__device__ __noinline__ int endless(int n, volatile int* p) { int big[64]; for (int i = 0; i < 64; ++i) big[i] = n + p[0]; return endless(n + 1, p) + big[n & 63]; }
extern "C" __global__ void overflow(int* out) { out[0] = endless(0, out); }
extern "C" __global__ void calls(int* out, int (*f)(int)) { out[0] = f(1); }

// The consumer may come before the producer in any order of workgroups.
extern "C" __global__ void relay(volatile int* flags, int* out, int reversed) {
    int me = reversed ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
    if (threadIdx.x == 0) {
        if (me > 0) while (flags[me - 1] == 0) {}
        __threadfence();
        out[me] = me == 0 ? 1 : out[me - 1] + 1;
        __threadfence();
        flags[me] = 1;
    }
}

// Waves of one workgroup wait for each other without a barrier.
extern "C" __global__ void wave_relay(int* out) {
    __shared__ volatile int turn;
    int wave = threadIdx.x / 64;
    if (threadIdx.x == 0) turn = blockDim.x / 64 - 1;
    __syncthreads();
    if (threadIdx.x % 64 == 0) {
        while (turn != wave) {}
        out[wave] = turn * 10;
        turn = wave - 1;
    }
}

extern "C" __global__ void spin_lock(int* lock, int* counter) {
    for (int lane = 0; lane < 64; ++lane) {
        if ((threadIdx.x & 63) == lane) {
            while (atomicCAS(lock, 0, 1) != 0) __builtin_amdgcn_s_sleep(1);
            __threadfence();
            *(volatile int*)counter = *(volatile int*)counter + 1;
            __threadfence();
            atomicExch(lock, 0);
        }
    }
}
