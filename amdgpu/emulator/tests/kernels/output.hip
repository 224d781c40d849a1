#include <hip/hip_runtime.h>

extern "C" __global__ void hello(int n, const char* word) {
    if (threadIdx.x < n) printf("item %d of %s: %5.2f %c %llx 100%%\n", (int)threadIdx.x, word, threadIdx.x * 1.5, 'a' + (char)threadIdx.x, 0xfeedfacecafeull);
}

extern "C" __global__ void many() { printf("%u,", (unsigned)(blockIdx.x * blockDim.x + threadIdx.x)); }

extern "C" __global__ void long_text() {
    if (threadIdx.x == 0)
        printf("%s|%s|%d %d %d %d %d %d %d %d %d\n", "a string that is longer than fifty-six bytes, so that it takes several packets",
               "", 1, 2, 3, 4, 5, 6, 7, 8, 9);
}
