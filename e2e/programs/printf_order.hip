// Host and kernels print alternately, with a synchronisation in between.
#include "check.h"

EXAMPLE("printf_order");

__global__ void say(int turn) { printf("kernel %d\n", turn); }

int main() {
  hipStream_t stream;
  HIP_OK(hipStreamCreate(&stream));
  std::setvbuf(stdout, nullptr, _IOFBF, 1 << 16);
  for (int turn = 0; turn < 20; ++turn) {
    std::printf("host %d\n", turn);
    std::fflush(stdout);
    say<<<1, 1, 0, turn % 2 == 0 ? nullptr : stream>>>(turn);
    if (turn % 4 < 2)
      HIP_OK(hipDeviceSynchronize());
    else
      HIP_OK(hipStreamSynchronize(turn % 2 == 0 ? nullptr : stream));
  }
  return pass();
}
