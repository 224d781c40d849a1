#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const float* A, float* L, size_t n) {
    for (size_t i = threadIdx.x; i < n * n; i += blockDim.x) L[i] = 0.0f;
    for (size_t column = 0; column < n; ++column) {
        __syncthreads();
        float known = 0.0f;
        for (size_t l = 0; l < column; ++l) known += L[column * n + l] * L[column * n + l];
        float diagonal = sqrtf(A[column * n + column] - known);
        for (size_t row = column + threadIdx.x; row < n; row += blockDim.x) {
            float sum = 0.0f;
            for (size_t l = 0; l < column; ++l) sum += L[row * n + l] * L[column * n + l];
            if (row > column) L[row * n + column] = (A[row * n + column] - sum) / diagonal;
        }
        if (threadIdx.x == 0) L[column * n + column] = diagonal;
    }
}
