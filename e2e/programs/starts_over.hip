// Computes until its GPU is lost, resets the device, and starts over: every thread must be able to go on.
#include "check.h"

#include <thread>

EXAMPLE("starts_over");

__global__ void add(unsigned *values, unsigned amount) {
  values[blockIdx.x * blockDim.x + threadIdx.x] += amount;
}

// Returns the first error, or hipSuccess after `rounds` right results.
static hipError_t compute(unsigned rounds, hipStream_t stream, int attempt) {
  constexpr unsigned count = 1024;
  unsigned *values = nullptr;
  if (hipError_t error = hipMalloc(&values, count * sizeof *values))
    return error;
  if (hipError_t error = hipMemsetAsync(values, 0, count * sizeof *values, stream))
    return error;
  std::vector<unsigned> got(count);
  for (unsigned round = 1; round <= rounds; ++round) {
    add<<<count / 256, 256, 0, stream>>>(values, 3);
    hipError_t error = hipGetLastError();
    if (!error)
      error = hipMemcpyAsync(got.data(), values, count * sizeof *values, hipMemcpyDeviceToHost, stream);
    if (!error)
      error = hipStreamSynchronize(stream);
    if (error)
      return error;
    for (unsigned value : got)
      if (value != 3 * round)
        fail("%u instead of %u in round %u", value, 3 * round, round);
    if (round == 1) {
      std::printf("computing %d\n", attempt);
      std::fflush(stdout);
    }
  }
  return hipFree(values);
}

int main(int argc, char **argv) {
  int losses = argc > 1 ? std::atoi(argv[1]) : 1;
  int loss = 1;
  for (; loss <= losses; ++loss) {
    // Endless, for a program whose GPU is lost.
    hipError_t error = compute(~0u, hipStreamPerThread, loss);
    std::printf("lost: %s\n", hipGetErrorName(error));
    void *none = nullptr;
    hipError_t again = hipMalloc(&none, 1);
    if (again == hipSuccess)
      fail("a lost session allocates memory");
    HIP_OK(hipDeviceReset());
    (void)hipGetLastError();
    std::printf("reset %d\n", loss);
    std::fflush(stdout);
  }
  HIP_OK(compute(10, hipStreamPerThread, loss));
  hipError_t elsewhere = hipErrorUnknown;
  std::thread([&] { elsewhere = compute(10, hipStreamPerThread, loss); }).join();
  HIP_OK(elsewhere);
  return pass();
}
