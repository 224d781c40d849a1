// Keeps the device busy with consecutive kernels: N launches ("launches" N), or S seconds ("seconds" S). Prints the result.
#include "check.h"

#include <chrono>
#include <cstring>

EXAMPLE("busy");

__global__ void work(float *data, int rounds) {
  float value = data[blockIdx.x * blockDim.x + threadIdx.x];
  for (int i = 0; i < rounds; ++i)
    value = value * 0.999f + 0.5f;
  data[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

int main(int argc, char **argv) {
  if (argc < 3)
    fail("usage: busy launches N, or busy seconds S");
  const bool timed = std::strcmp(argv[1], "seconds") == 0;
  const double most = std::strtod(argv[2], nullptr);
  constexpr int blocks = 64, threads = 64;
  float *data = nullptr;
  HIP_OK(hipMalloc(&data, blocks * threads * sizeof(float)));
  HIP_OK(hipMemset(data, 0, blocks * threads * sizeof(float)));
  HIP_OK(hipDeviceSynchronize());
  const auto start = std::chrono::steady_clock::now();
  auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  long launches = 0;
  while (timed ? elapsed() < most : launches < most) {
    work<<<blocks, threads>>>(data, 2000);
    HIP_OK(hipGetLastError());
    ++launches;
    if (launches % 4 == 0)
      HIP_OK(hipDeviceSynchronize());
  }
  HIP_OK(hipDeviceSynchronize());
  std::printf("launches=%ld seconds=%.6f\n", launches, elapsed());
  pass();
}
