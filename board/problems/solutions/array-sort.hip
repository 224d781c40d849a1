#include <hip/hip_runtime.h>

// Bitonic sort. Every comparison puts the smaller number first, so numbers behind the end need not exist: they would be the largest.
__global__ void exchange(int* data, size_t n, size_t mask) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x, other = i ^ mask;
    if (other <= i || other >= n) return;
    int first = data[i], second = data[other];
    if (first > second) {
        data[i] = second;
        data[other] = first;
    }
}

extern "C" void solution(const int* a, int* b, size_t n) {
    hipMemcpyAsync(b, a, n * sizeof *b, hipMemcpyDeviceToDevice, nullptr);
    unsigned groups = unsigned((n + 255) / 256);
    for (size_t run = 2; run < 2 * n; run *= 2) {
        // The second half of a run is compared backwards, then both halves are merged.
        exchange<<<groups, 256>>>(b, n, run - 1);
        for (size_t step = run / 4; step > 0; step /= 2) exchange<<<groups, 256>>>(b, n, step);
    }
}
