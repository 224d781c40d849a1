#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* A, const float* B, float* C, size_t size, size_t K) {
    long x = blockIdx.x * (long)blockDim.x + threadIdx.x, y = blockIdx.y * (long)blockDim.y + threadIdx.y;
    long z = blockIdx.z * (long)blockDim.z + threadIdx.z, n = (long)size, k = (long)K, reach = (k - 1) / 2;
    if (x >= n || y >= n || z >= n) return;
    float sum = 0.0f;
    for (long i = 0; i < k; ++i)
        for (long j = 0; j < k; ++j)
            for (long l = 0; l < k; ++l) {
                long pz = z + i - reach, py = y + j - reach, px = x + l - reach;
                bool inside = pz >= 0 && pz < n && py >= 0 && py < n && px >= 0 && px < n;
                if (inside) sum += A[(pz * n + py) * n + px] * B[(i * k + j) * k + l];
            }
    C[(z * n + y) * n + x] = sum;
}
