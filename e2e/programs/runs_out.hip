// Prints the device's memory size; with an argument N, writes N MiB of it and prints the result.
#include "check.h"

EXAMPLE("runs_out");

int main(int argc, char **argv) {
  size_t free_bytes = 0, total = 0;
  HIP_OK(hipMemGetInfo(&free_bytes, &total));
  std::printf("total=%zu\n", total);
  if (argc < 2)
    return pass();
  const size_t bytes = std::strtoul(argv[1], nullptr, 10) << 20;
  void *data = nullptr;
  hipError_t result = hipMalloc(&data, bytes);
  if (result == hipSuccess)
    result = hipMemset(data, 1, bytes);
  if (result == hipSuccess)
    result = hipDeviceSynchronize();
  std::printf("outcome=%s\n", hipGetErrorName(result));
  return pass();
}
