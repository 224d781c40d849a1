// Transposes matrices through a padded tile in LDS, for element types of several widths.
#include "check.h"

EXAMPLE("transpose");

constexpr int tile = 32, tile_rows = 8;

template <typename T> __global__ void transpose(const T *in, T *out, int rows, int columns) {
  __shared__ T staged[tile][tile + 1];
  int x = static_cast<int>(blockIdx.x) * tile + static_cast<int>(threadIdx.x);
  int y = static_cast<int>(blockIdx.y) * tile + static_cast<int>(threadIdx.y);
  for (int j = 0; j < tile; j += tile_rows)
    if (x < columns && y + j < rows)
      staged[threadIdx.y + j][threadIdx.x] = in[(y + j) * columns + x];
  __syncthreads();
  x = static_cast<int>(blockIdx.y) * tile + static_cast<int>(threadIdx.x);
  y = static_cast<int>(blockIdx.x) * tile + static_cast<int>(threadIdx.y);
  for (int j = 0; j < tile; j += tile_rows)
    if (x < rows && y + j < columns)
      out[(y + j) * rows + x] = staged[threadIdx.x][threadIdx.y + j];
}

template <typename T> void check(int rows, int columns) {
  std::vector<T> in(static_cast<size_t>(rows) * columns);
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = static_cast<T>(i * 2654435761u);
  DeviceArray<T> device_in(in), device_out(in.size());
  dim3 grid(blocks_for(columns, tile), blocks_for(rows, tile));
  transpose<T><<<grid, dim3(tile, tile_rows)>>>(device_in.get(), device_out.get(), rows, columns);
  HIP_OK(hipGetLastError());
  std::vector<T> out = device_out.read();
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j)
      if (out[j * rows + i] != in[i * columns + j])
        fail("%zu bytes, %dx%d: the element at %d, %d is not where it belongs", sizeof(T), rows, columns, i, j);
}

int main() {
  check<unsigned char>(64, 96);
  check<unsigned short>(77, 33);
  check<unsigned>(200, 333);
  check<unsigned long long>(129, 65);
  return pass();
}
