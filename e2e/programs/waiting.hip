// Waits for one long operation: `kernel S` for a kernel of S seconds, `upload BYTES` for a copy to the device, which a kernel then sums.
#include "check.h"

#include <chrono>
#include <cstring>
#include <thread>

EXAMPLE("waiting");

__global__ void spin(const volatile int *flag) {
  while (*flag == 0) {
  }
}

__global__ void sum(const unsigned *data, size_t count, unsigned *out) {
  unsigned total = 0;
  for (size_t i = threadIdx.x; i < count; i += blockDim.x)
    total += data[i];
  atomicAdd(out, total);
}

static void kernel(double seconds) {
  hipStream_t busy, free;
  HIP_OK(hipStreamCreateWithFlags(&busy, hipStreamNonBlocking));
  HIP_OK(hipStreamCreateWithFlags(&free, hipStreamNonBlocking));
  DeviceArray<int> flag(std::vector<int>(1, 0));
  HIP_OK(hipDeviceSynchronize());
  spin<<<1, 1, 0, busy>>>(flag.get());
  HIP_OK(hipGetLastError());
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    HIP_OK(hipMemsetAsync(flag.get(), 1, sizeof(int), free));
  });
  HIP_OK(hipStreamSynchronize(busy));
  other.join();
}

static void upload(size_t bytes) {
  std::vector<unsigned> host(bytes / sizeof(unsigned));
  Random random(5);
  unsigned expected = 0;
  for (unsigned &word : host)
    expected += word = random.next();
  DeviceArray<unsigned> data(host), out(std::vector<unsigned>(1, 0));
  sum<<<1, 256>>>(data.get(), host.size(), out.get());
  HIP_OK(hipGetLastError());
  if (out.read()[0] != expected)
    fail("the sum is %u, not %u", out.read()[0], expected);
}

int main(int argc, char **argv) {
  if (argc < 3)
    fail("usage: waiting kernel S, or waiting upload BYTES");
  if (std::strcmp(argv[1], "kernel") == 0)
    kernel(std::strtod(argv[2], nullptr));
  else
    upload(std::strtoul(argv[2], nullptr, 10));
  return pass();
}
