#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const int* a, const int* b, int* c, size_t n, size_t m) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= n + m) return;
    bool first = i < n;
    int mine = first ? a[i] : b[i - n];
    const int* other = first ? b : a;
    size_t low = 0, high = first ? m : n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        // Of equal elements those of a come first.
        if (first ? other[middle] < mine : other[middle] <= mine) low = middle + 1;
        else high = middle;
    }
    c[(first ? i : i - n) + low] = mine;
}
