// Computes and checks results in rounds until its input ends, so that any disturbance is detected.
#include "check.h"

#include <atomic>
#include <thread>

EXAMPLE("steady");

__global__ void step(unsigned *state, unsigned round) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  state[i] = state[i] * 1664525u + 1013904223u + round + i;
}

int main() {
  constexpr unsigned count = 1024;
  std::atomic<bool> enough{false};
  std::thread reader([&] {
    while (std::getchar() != EOF) {
    }
    enough = true;
  });
  std::vector<unsigned> wanted(count, 7);
  DeviceArray<unsigned> state(wanted);
  unsigned round = 0;
  for (; !enough; ++round) {
    step<<<count / 256, 256>>>(state.get(), round);
    HIP_OK(hipGetLastError());
    std::vector<unsigned> got = state.read();
    for (unsigned i = 0; i < count; ++i) {
      wanted[i] = wanted[i] * 1664525u + 1013904223u + round + i;
      if (got[i] != wanted[i])
        fail("in round %u state[%u] is %u, not %u", round, i, got[i], wanted[i]);
    }
    if (round % 16 == 0) {
      std::printf("round %u\n", round);
      std::fflush(stdout);
    }
  }
  reader.join();
  return pass();
}
