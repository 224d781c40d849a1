// hipLimitMallocHeapSize limits device-side malloc, and freed memory can be allocated again.
#include "check.h"

EXAMPLE("heap_limit");

__global__ void take(void **blocks, size_t bytes) { blocks[blockIdx.x * blockDim.x + threadIdx.x] = malloc(bytes); }

__global__ void give(void **blocks) { free(blocks[blockIdx.x * blockDim.x + threadIdx.x]); }

static size_t free_memory() {
  size_t free_bytes = 0, total_bytes = 0;
  HIP_OK(hipMemGetInfo(&free_bytes, &total_bytes));
  return free_bytes;
}

int main() {
  const size_t limit = 64 << 20, block = 1 << 20;
  size_t got = 0, total_bytes = 0;
  DeviceArray<void *> blocks(128);
  HIP_OK(hipDeviceSetLimit(hipLimitMallocHeapSize, limit));
  HIP_OK(hipDeviceGetLimit(&got, hipLimitMallocHeapSize));
  if (got != limit)
    fail("the limit is %zu, not %zu", got, limit);
  // The heap's metadata is allocated with the first kernel.
  HIP_OK(hipMemset(blocks.get(), 0, blocks.bytes()));
  give<<<2, 64>>>(blocks.get());
  HIP_OK(hipDeviceSynchronize());
  // Blocks of this size are not part of slabs, so the number that fits the limit is known exactly.
  size_t before = free_memory();
  for (int round = 0; round < 2; ++round) {
    take<<<2, 64>>>(blocks.get(), block);
    size_t count = 0;
    for (void *it : blocks.read())
      count += it != nullptr;
    if (count != limit / block)
      fail("%zu blocks were given where the limit leaves room for %zu", count, limit / block);
    if (size_t held = before - free_memory(); held != limit)
      fail("the device counts %zu bytes as taken, not %zu", held, limit);
    give<<<2, 64>>>(blocks.get());
    HIP_OK(hipDeviceSynchronize());
    if (size_t after = free_memory(); after != before)
      fail("%zu bytes are free where %zu were before", after, before);
  }
  HIP_OK(hipDeviceTotalMem(&total_bytes, 0));
  HIP_FAILS(hipErrorInvalidValue, hipDeviceSetLimit(hipLimitMallocHeapSize, total_bytes));
  HIP_FAILS(hipErrorInvalidValue, hipDeviceSetLimit(hipLimitStackSize, 1 << 20));
  HIP_FAILS(hipErrorInvalidValue, hipDeviceSetLimit(static_cast<hipLimit_t>(123456), 1));
  // A device reset frees memory that kernels still hold.
  take<<<2, 64>>>(blocks.get(), block);
  HIP_OK(hipDeviceSynchronize());
  if (free_memory() >= before)
    fail("nothing was allocated");
  HIP_OK(hipDeviceReset());
  if (size_t after = free_memory(); after < before)
    fail("%zu bytes are free after a reset where %zu were before", after, before);
  // The reset has freed the array; it must not be freed again.
  std::_Exit(pass());
}
