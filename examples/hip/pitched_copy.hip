// Rectangles of memory: pitched allocation, copies in every direction, and fills.
#include "check.h"

#include <cstring>

EXAMPLE("pitched_copy");

constexpr int width = 45, height = 33;

__global__ void double_all(unsigned *image, size_t pitch, int columns, int rows) {
  int x = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  int y = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  if (x < columns && y < rows) {
    unsigned *row = reinterpret_cast<unsigned *>(reinterpret_cast<char *>(image) + static_cast<size_t>(y) * pitch);
    row[x] *= 2;
  }
}

int main() {
  const size_t row_bytes = width * sizeof(unsigned);
  unsigned *image = nullptr, *second = nullptr;
  size_t pitch = 0, second_pitch = 0;
  HIP_OK(hipMallocPitch(reinterpret_cast<void **>(&image), &pitch, row_bytes, height));
  HIP_OK(hipMallocPitch(reinterpret_cast<void **>(&second), &second_pitch, 2 * row_bytes, height));
  if (pitch < row_bytes || second_pitch < 2 * row_bytes)
    fail("a pitch of %zu does not hold %zu bytes", pitch, row_bytes);

  // From packed rows on the host to pitched rows on the device.
  std::vector<unsigned> host(width * height);
  for (size_t i = 0; i < host.size(); ++i)
    host[i] = static_cast<unsigned>(i) * 3 + 1;
  HIP_OK(hipMemcpy2D(image, pitch, host.data(), row_bytes, row_bytes, height, hipMemcpyHostToDevice));
  double_all<<<dim3(3, 5), dim3(16, 8)>>>(image, pitch, width, height);
  HIP_OK(hipGetLastError());

  // Between two pitches on the device, then back into the middle of wider rows on the host.
  hipStream_t stream;
  HIP_OK(hipStreamCreate(&stream));
  HIP_OK(hipStreamSynchronize(nullptr));
  HIP_OK(hipMemset2DAsync(second, second_pitch, 0x5a, 2 * row_bytes, height, stream));
  HIP_OK(hipMemcpy2DAsync(second, second_pitch, image, pitch, row_bytes, height, hipMemcpyDeviceToDevice, stream));
  const int wide = 60, left = 9;
  std::vector<unsigned> out(wide * height, 0xdeadbeefu);
  HIP_OK(hipMemcpy2DAsync(&out[left], wide * sizeof(unsigned), second, second_pitch, row_bytes, height,
                          hipMemcpyDeviceToHost, stream));
  HIP_OK(hipStreamSynchronize(stream));
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < wide; ++x) {
      bool inside = x >= left && x < left + width;
      unsigned wanted = inside ? host[y * width + x - left] * 2 : 0xdeadbeefu;
      if (out[y * wide + x] != wanted)
        fail("row %d column %d is %x, not %x", y, x, out[y * wide + x], wanted);
    }

  // Memory that was filled and not overwritten still has the fill value.
  std::vector<unsigned> right(width * height);
  HIP_OK(hipMemcpy2D(right.data(), row_bytes, reinterpret_cast<char *>(second) + row_bytes, second_pitch, row_bytes,
                     height, hipMemcpyDeviceToHost));
  for (unsigned value : right)
    if (value != 0x5a5a5a5au)
      fail("the filling is %x", value);

  // A row wider than its pitch is rejected.
  HIP_FAILS(hipErrorInvalidPitchValue,
            hipMemcpy2D(image, pitch, host.data(), row_bytes - 4, row_bytes, height, hipMemcpyHostToDevice));
  HIP_OK(hipStreamDestroy(stream));
  HIP_OK(hipFree(image));
  HIP_OK(hipFree(second));
  return pass();
}
