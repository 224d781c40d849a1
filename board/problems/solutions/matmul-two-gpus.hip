#include <hip/hip_runtime.h>

constexpr int kTile = 16;

__global__ void product(const float* a, const float* b, float* c, size_t m, size_t n, size_t k) {
    __shared__ float left[kTile][kTile], right[kTile][kTile];
    size_t row = blockIdx.y * kTile + threadIdx.y, column = blockIdx.x * kTile + threadIdx.x;
    float sum = 0;
    for (size_t start = 0; start < k; start += kTile) {
        size_t x = start + threadIdx.x, y = start + threadIdx.y;
        left[threadIdx.y][threadIdx.x] = row < m && x < k ? a[row * k + x] : 0;
        right[threadIdx.y][threadIdx.x] = y < k && column < n ? b[y * n + column] : 0;
        __syncthreads();
        for (int i = 0; i < kTile; ++i) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}

extern "C" void solution(const float* a0, const float* a1, const float* b, float* c0, float* c1, size_t m, size_t n,
                         size_t k) {
    dim3 grid(unsigned((n + kTile - 1) / kTile), unsigned((m + kTile - 1) / kTile)), block(kTile, kTile);
    product<<<grid, block>>>(a0, b, c0, m, n, k);
    hipSetDevice(1);
    float* copy;
    hipMalloc(&copy, k * n * sizeof(float));
    hipMemcpyPeerAsync(copy, 1, b, 0, k * n * sizeof(float), nullptr);
    product<<<grid, block>>>(a1, copy, c1, m, n, k);
    hipDeviceSynchronize();
    hipFree(copy);
    hipSetDevice(0);
}
