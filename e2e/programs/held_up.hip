// Queues more copies than a worker may hold, behind a kernel that never ends, until it blocks.
#include "check.h"

EXAMPLE("held_up");

__global__ void endless(volatile int *flag) {
  while (*flag == 0) {
  }
}

int main() {
  // The client does not wait for copies like these.
  constexpr size_t piece = 256 << 10;
  DeviceArray<int> flag(std::vector<int>(1, 0));
  DeviceArray<char> target(piece);
  char *source = nullptr;
  HIP_OK(hipHostMalloc(reinterpret_cast<void **>(&source), piece));
  endless<<<1, 1>>>(flag.get());
  std::printf("queueing\n");
  std::fflush(stdout);
  for (;;)
    HIP_OK(hipMemcpyAsync(target.get(), source, piece, hipMemcpyHostToDevice, nullptr));
}
