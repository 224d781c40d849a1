// A call that needs more host memory than the worker's limit fails; allocations within the limit work, and freed memory is reusable.
#include "check.h"

#include <sys/mman.h>

EXAMPLE("host_limits");

constexpr size_t MIB = size_t(1) << 20;

__global__ void increment(int *data) { data[0] += 1; }

static hipError_t launch(int *data) {
  increment<<<1, 1>>>(data);
  hipError_t result = hipGetLastError();
  return result == hipSuccess ? hipDeviceSynchronize() : result;
}

static int *pinned(size_t bytes) {
  int *made = nullptr;
  HIP_OK(hipHostMalloc(reinterpret_cast<void **>(&made), bytes, hipHostMallocDefault));
  return made;
}

int main() {
  int *large = pinned(3072 * MIB);
  large[0] = 1;
  HIP_FAILS(hipErrorOutOfMemory, launch(large));
  HIP_OK(hipHostFree(large));

  void *own = mmap(nullptr, 1024 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (own == MAP_FAILED)
    fail("no memory to register");
  HIP_FAILS(hipErrorOutOfMemory, hipHostRegister(own, 1024 * MIB, hipHostRegisterDefault));
  (void)hipGetLastError();

  // Each round fits the limit only if the previous one was freed.
  for (int round = 0; round < 6; round++) {
    int *some = pinned(200 * MIB);
    some[0] = round;
    HIP_OK(launch(some));
    if (some[0] != round + 1)
      fail("%d came back as %d", round + 1, some[0]);
    HIP_OK(hipHostFree(some));
    HIP_OK(hipHostRegister(own, 200 * MIB, hipHostRegisterDefault));
    HIP_OK(hipHostUnregister(own));
  }
  return pass();
}
