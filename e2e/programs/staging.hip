// Pinned memory as a staging buffer, as most programs use it: each copy transfers it once, and it is not kept coherent otherwise.
#include "check.h"

EXAMPLE("staging");

__global__ void touch(int *data) { data[threadIdx.x] += 1; }

int main(int argc, char **) {
  constexpr size_t bytes = 8 << 20;
  int *pinned = nullptr, *device = nullptr;
  HIP_OK(hipHostMalloc(reinterpret_cast<void **>(&pinned), bytes, hipHostMallocDefault));
  HIP_OK(hipMalloc(reinterpret_cast<void **>(&device), bytes));
  // With an argument a kernel uses the buffer: then only changes are sent and received.
  if (argc > 1)
    touch<<<1, 1>>>(pinned);
  for (int turn = 0; turn < 4; ++turn) {
    for (size_t i = turn % 2; i < bytes / sizeof(int); i += 2)
      pinned[i] = static_cast<int>(i * 0x01234567 + turn);
    HIP_OK(hipMemcpyAsync(device, pinned, bytes, hipMemcpyHostToDevice, nullptr));
    for (int launch = 0; launch < 50; ++launch)
      touch<<<1, 64>>>(device);
    HIP_OK(hipDeviceSynchronize());
  }
  HIP_OK(hipMemcpyAsync(pinned, device, bytes, hipMemcpyDeviceToHost, nullptr));
  HIP_OK(hipDeviceSynchronize());
  for (size_t i = 0; i < bytes / sizeof(int); ++i) {
    const int turn = i % 2 == 0 ? 2 : 3;
    const int wanted = static_cast<int>(i * 0x01234567 + turn) + (i < 64 ? 50 : 0);
    if (pinned[i] != wanted)
      fail("element %zu is %d, not %d", i, pinned[i], wanted);
  }
  HIP_OK(hipHostFree(pinned));
  HIP_OK(hipFree(device));
  return pass();
}
