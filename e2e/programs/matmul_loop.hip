// Multiplies matrices repeatedly, each with the previous product, until its input ends or for the given number of rounds. A single
// wrong bit at any time changes all later results.
#include "check.h"

#include <atomic>
#include <thread>

EXAMPLE("matmul_loop");

constexpr int size = 64, tile = 16;

__global__ void multiply(const float *a, const float *b, float *c) {
  __shared__ float tile_a[tile][tile], tile_b[tile][tile];
  int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  int row = static_cast<int>(blockIdx.y) * tile + y, column = static_cast<int>(blockIdx.x) * tile + x;
  float sum = 0.0f;
  for (int start = 0; start < size; start += tile) {
    tile_a[y][x] = a[row * size + start + x];
    tile_b[y][x] = b[(start + y) * size + column];
    __syncthreads();
    for (int k = 0; k < tile; ++k)
      sum += tile_a[y][k] * tile_b[k][x];
    __syncthreads();
  }
  // Values neither grow nor vanish, and every bit of the sum matters.
  c[row * size + column] = __sinf(sum) + 0.25f * b[row * size + column];
}

int main(int count, char **arguments) {
  unsigned limit = count > 1 ? static_cast<unsigned>(std::atoi(arguments[1])) : ~0u;
  std::atomic<bool> enough{false};
  std::thread reader([&] {
    while (count == 1 && std::getchar() != EOF) {
    }
    enough = count == 1;
  });
  Random random(1);
  std::vector<float> start(size * size), factor(size * size);
  for (float &value : start)
    value = random.signed_unit();
  for (float &value : factor)
    value = random.signed_unit() / 4;
  DeviceArray<float> a(factor), b(start), c(start);
  float *from = b.get(), *to = c.get();
  unsigned round = 0;
  for (; round < limit && !enough; ++round) {
    for (int times = 0; times < 4; ++times, std::swap(from, to))
      multiply<<<dim3(size / tile, size / tile), dim3(tile, tile)>>>(a.get(), from, to);
    HIP_OK(hipGetLastError());
    HIP_OK(hipMemcpy(start.data(), from, size * size * sizeof(float), hipMemcpyDeviceToHost));
    uint64_t hash = 14695981039346656037u;
    for (float value : start) {
      uint32_t bits;
      __builtin_memcpy(&bits, &value, sizeof bits);
      hash = (hash ^ bits) * 1099511628211u;
    }
    std::printf("round %u %016llx\n", round, static_cast<unsigned long long>(hash));
    std::fflush(stdout);
  }
  reader.join();
  std::printf("rounds=%u\n", round);
  return pass();
}
