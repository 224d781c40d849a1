// Queries the number of devices, and prints each result and how long it took.
#include "check.h"

#include <chrono>

EXAMPLE("device_count");

int main() {
  for (int time = 0; time < 3; ++time) {
    auto before = std::chrono::steady_clock::now();
    int count = 77;
    hipError_t error = hipGetDeviceCount(&count);
    auto took = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - before);
    std::printf("result%d=%s\ncount%d=%d\nmilliseconds%d=%lld\n", time, hipGetErrorName(error), time, count, time,
                static_cast<long long>(took.count()));
  }
  void *data = nullptr;
  std::printf("malloc=%s\n", hipGetErrorName(hipMalloc(&data, 64)));
  return 0;
}
