// Matrix product through 16x16 tiles in LDS, for sizes that fit the tiles and for sizes that do not.
#include "check.h"

EXAMPLE("matmul_lds");

constexpr int tile = 16;

__global__ void matmul(const float *a, const float *b, float *c, int rows, int inner, int columns) {
  __shared__ float tile_a[tile][tile];
  __shared__ float tile_b[tile][tile];
  int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  int row = static_cast<int>(blockIdx.y) * tile + y;
  int column = static_cast<int>(blockIdx.x) * tile + x;
  float sum = 0.0f;
  for (int start = 0; start < inner; start += tile) {
    tile_a[y][x] = row < rows && start + x < inner ? a[row * inner + start + x] : 0.0f;
    tile_b[y][x] = start + y < inner && column < columns ? b[(start + y) * columns + column] : 0.0f;
    __syncthreads();
    for (int k = 0; k < tile; ++k)
      sum += tile_a[y][k] * tile_b[k][x];
    __syncthreads();
  }
  if (row < rows && column < columns)
    c[row * columns + column] = sum;
}

// Small integers: sums stay below 2^24, so every order of additions gives the same result.
void check(int rows, int inner, int columns) {
  std::vector<float> a(rows * inner), b(inner * columns);
  Random random(static_cast<uint32_t>(rows));
  for (float &value : a)
    value = static_cast<float>(random.below(17)) - 8.0f;
  for (float &value : b)
    value = static_cast<float>(random.below(17)) - 8.0f;
  DeviceArray<float> device_a(a), device_b(b), device_c(static_cast<size_t>(rows) * columns);
  dim3 grid(blocks_for(columns, tile), blocks_for(rows, tile));
  matmul<<<grid, dim3(tile, tile)>>>(device_a.get(), device_b.get(), device_c.get(), rows, inner, columns);
  HIP_OK(hipGetLastError());
  std::vector<float> c = device_c.read();
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) {
      float wanted = 0.0f;
      for (int k = 0; k < inner; ++k)
        wanted += a[i * inner + k] * b[k * columns + j];
      if (c[i * columns + j] != wanted)
        fail("%dx%dx%d: c[%d][%d] is %g, not %g", rows, inner, columns, i, j, c[i * columns + j], wanted);
    }
}

int main() {
  check(128, 128, 128);
  check(100, 75, 130);
  check(1, 1, 1);
  return pass();
}
