// The kernel of `remora try`. `cargo xtask codegen` compiles it to saxpy.hipfb, which the program contains.
#include <hip/hip_runtime.h>

extern "C" __global__ void saxpy(float a, const float* x, float* y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = a * x[i] + y[i];
    }
}
