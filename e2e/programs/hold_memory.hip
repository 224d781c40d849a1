// Holds device memory (first argument: MiB) until its standard input ends, then exits without freeing it.
#include "check.h"

EXAMPLE("hold_memory");

__global__ void touch(int *data) { data[threadIdx.x] = 1; }

int main(int argc, char **argv) {
  size_t bytes = static_cast<size_t>(argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 64) << 20;
  int *data = nullptr;
  hipStream_t stream;
  HIP_OK(hipMalloc(&data, bytes));
  HIP_OK(hipStreamCreate(&stream));
  touch<<<1, 64, 0, stream>>>(data);
  HIP_OK(hipStreamSynchronize(stream));
  std::printf("holding %zu\n", bytes);
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  std::printf("leaving\n");
  return 0;
}
