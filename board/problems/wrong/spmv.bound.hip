#include <hip/hip_runtime.h>

extern "C" __global__ void solution(const int* row_offsets, const int* columns, const float* values, const float* x, float* y,
                                    size_t rows, size_t width, size_t nnz) {
    size_t row = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int at = row_offsets[row]; at < row_offsets[row + 1]; ++at) sum += values[at] * x[columns[at]];
    if (row_offsets[row] < row_offsets[row + 1]) y[row] = sum;
}
