// Kernels of the back-end conformance suite. `suite.gfx942.co` is this file, compiled with
//   clang++-19 -x hip --offload-arch=gfx942 --offload-device-only --no-gpu-bundle-output -O2 -nogpulib -D__HIPCC_RTC__ -include hip/hip_runtime.h
#define KERNEL extern "C" __global__ void

__device__ int counter = 41;

KERNEL add_one(int *p, int n) {
    int i = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();
    if (i < n) p[i] += 1;
}

// Runs for a while, then stores: shows whether later work has waited for it.
KERNEL slow_store(volatile int *p, int value, int loops) {
    for (int i = 0; i < loops; i++) p[1] = i;
    p[0] = value;
}

KERNEL write_through(int *p) { *p = 1; }

KERNEL forever(volatile int *p) { while (p[0] == 0) p[1] = p[1] + 1; }

KERNEL bump_counter(int *out) { counter += 1; *out = counter; }
