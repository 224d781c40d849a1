// Uploads a few large tensors and a small one, sums them with a kernel, and reads them back.
#include "check.h"

#include <cstdint>

EXAMPLE("weights");

__global__ void sum(const uint32_t *data, size_t count, uint32_t *out) {
  uint32_t total = 0;
  for (size_t i = threadIdx.x; i < count; i += blockDim.x)
    total += data[i];
  atomicAdd(out, total);
}

int main(int argc, char **) {
  // With an argument the tensors are compressible.
  const uint32_t mask = argc > 1 ? 0xff : ~0u;
  // Sizes that are not multiples of the chunk size; one tensor is uploaded twice.
  const size_t counts[] = {(5 << 20) / 4 + 3, (9 << 20) / 4 + 1, 1000, (5 << 20) / 4 + 3};
  const uint32_t seeds[] = {1, 2, 3, 1};
  DeviceArray<uint32_t> out(1);
  for (int tensor = 0; tensor < 4; ++tensor) {
    std::vector<uint32_t> host(counts[tensor]);
    uint32_t state = seeds[tensor], expected = 0;
    for (uint32_t &word : host) {
      state = state * 1664525u + 1013904223u;
      word = state & mask;
      expected += word;
    }
    DeviceArray<uint32_t> data(host);
    // The client must have read the program's memory by now.
    std::vector<uint32_t> kept = host;
    std::fill(host.begin(), host.end(), 0);
    HIP_OK(hipMemset(out.get(), 0, 4));
    sum<<<1, 256>>>(data.get(), kept.size(), out.get());
    if (out.read()[0] != expected)
      fail("tensor %d has the wrong sum", tensor);
    if (data.read() != kept)
      fail("tensor %d came back wrong", tensor);
  }
  return pass();
}
