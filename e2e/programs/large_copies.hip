// Copies large arrays to the device and back in rounds until its input ends, and checks every byte.
#include "check.h"

#include <atomic>
#include <thread>

EXAMPLE("large_copies");

__global__ void add(unsigned *values, unsigned amount, unsigned count) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    values[i * 64] += amount;
}

int main() {
  // 2 MiB: copies of this size bypass the socket if the worker is on this machine.
  constexpr unsigned count = 512 << 10, changed = count / 64;
  std::atomic<bool> enough{false};
  std::thread reader([&] {
    while (std::getchar() != EOF) {
    }
    enough = true;
  });
  std::vector<unsigned> sent(count), got(count);
  DeviceArray<unsigned> array(sent);
  unsigned round = 0;
  for (; !enough; ++round) {
    for (unsigned i = 0; i < count; ++i)
      sent[i] = i * 2654435761u + round;
    HIP_OK(hipMemcpy(array.get(), sent.data(), count * sizeof(unsigned), hipMemcpyHostToDevice));
    add<<<changed / 256, 256>>>(array.get(), round + 1, changed);
    HIP_OK(hipGetLastError());
    HIP_OK(hipMemcpy(got.data(), array.get(), count * sizeof(unsigned), hipMemcpyDeviceToHost));
    for (unsigned i = 0; i < count; ++i) {
      unsigned wanted = sent[i] + (i % 64 == 0 ? round + 1 : 0);
      if (got[i] != wanted)
        fail("in round %u element %u is %u, not %u", round, i, got[i], wanted);
    }
    if (round % 4 == 0) {
      std::printf("round %u\n", round);
      std::fflush(stdout);
    }
  }
  reader.join();
  return pass();
}
