#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const uint64_t* xs, const uint64_t* ys, uint64_t p, uint64_t* out_xy, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= n) return;
    out_xy[2 * i] = xs[i];
    out_xy[2 * i + 1] = ys[i] == 0 ? 0 : p - ys[i];
}
