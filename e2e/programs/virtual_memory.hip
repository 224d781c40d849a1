// Virtual memory management: address reservation, physical memory and access rights. With an argument: a forbidden access.
#include "check.h"

#include <cstring>

EXAMPLE("virtual_memory");

__global__ void add(int *values, int count, int amount) {
  int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (at < count)
    values[at] += amount;
}

__global__ void sum(const int *values, int count, int *result) {
  int total = 0;
  for (int at = 0; at < count; ++at)
    total += values[at];
  *result = total;
}

static hipMemAllocationProp properties() {
  hipMemAllocationProp properties = {};
  properties.type = hipMemAllocationTypePinned;
  properties.location.type = hipMemLocationTypeDevice;
  properties.location.id = 0;
  return properties;
}

static hipMemAccessDesc access(hipMemAccessFlags flags) {
  hipMemAccessDesc access = {};
  access.location.type = hipMemLocationTypeDevice;
  access.location.id = 0;
  access.flags = flags;
  return access;
}

int main(int count, char **arguments) {
  hipMemAllocationProp prop = properties();
  size_t grain = 0;
  HIP_OK(hipMemGetAllocationGranularity(&grain, &prop, hipMemAllocationGranularityMinimum));
  if (grain < 4096 || grain % 4096 != 0)
    fail("a granularity of %zu", grain);
  hipMemAccessDesc both = access(hipMemAccessFlagsProtReadWrite), reading = access(hipMemAccessFlagsProtRead),
                   nothing = access(hipMemAccessFlagsProtNone);

  char *base = nullptr;
  HIP_OK(hipMemAddressReserve(reinterpret_cast<void **>(&base), 8 * grain, 0, nullptr, 0));
  hipMemGenericAllocationHandle_t first, second;
  HIP_OK(hipMemCreate(&first, grain, &prop, 0));
  HIP_OK(hipMemCreate(&second, grain, &prop, 0));
  HIP_OK(hipMemMap(base, grain, 0, first, 0));
  HIP_OK(hipMemSetAccess(base, grain, &both, 1));

  if (count > 1) {
    int *result;
    HIP_OK(hipMalloc(reinterpret_cast<void **>(&result), 4));
    if (std::strcmp(arguments[1], "write") == 0) {
      HIP_OK(hipMemSetAccess(base, grain, &reading, 1));
      sum<<<1, 1>>>(reinterpret_cast<int *>(base), 16, result);
      HIP_OK(hipDeviceSynchronize());
      add<<<1, 16>>>(reinterpret_cast<int *>(base), 16, 1);
    } else {
      add<<<1, 16>>>(reinterpret_cast<int *>(base), 16, 1);
      HIP_OK(hipDeviceSynchronize());
      if (std::strcmp(arguments[1], "read") == 0)
        HIP_OK(hipMemSetAccess(base, grain, &nothing, 1));
      else
        HIP_OK(hipMemUnmap(base, grain));
      sum<<<1, 1>>>(reinterpret_cast<int *>(base), 16, result);
    }
    HIP_FAILS(hipErrorIllegalAddress, hipDeviceSynchronize());
    return pass();
  }

  // A vector that grows in place.
  const int half = static_cast<int>(grain / sizeof(int)), whole = 2 * half;
  int *vector = reinterpret_cast<int *>(base);
  add<<<(half + 255) / 256, 256>>>(vector, half, 3);
  HIP_OK(hipMemMap(base + grain, grain, 0, second, 0));
  HIP_OK(hipMemSetAccess(base, 2 * grain, &both, 1));
  add<<<(whole + 255) / 256, 256>>>(vector, whole, 4);
  std::vector<int> got(whole);
  HIP_OK(hipMemcpy(got.data(), vector, 2 * grain, hipMemcpyDeviceToHost));
  for (int at = 0; at < whole; ++at)
    if (got[at] != (at < half ? 7 : 4))
      fail("element %d is %d", at, got[at]);
  HIP_OK(hipMemset(base + grain - 8, 0xff, 16));
  HIP_OK(hipMemcpy(got.data(), base + grain - 8, 16, hipMemcpyDefault));
  if (got[0] != -1 || got[3] != -1)
    fail("a fill over the edge gave %d %d", got[0], got[3]);
  HIP_FAILS(hipErrorInvalidValue, hipMemcpy(got.data(), base + grain, grain + 4, hipMemcpyDeviceToHost));

  // Queries of its attributes.
  hipPointerAttribute_t attributes = {};
  HIP_OK(hipPointerGetAttributes(&attributes, base + 100));
  if (attributes.devicePointer != base + 100 || attributes.device != 0)
    fail("a mapped pointer is not the device's");
  unsigned long long flags = 77;
  HIP_OK(hipMemGetAccess(&flags, &both.location, base));
  if (flags != hipMemAccessFlagsProtReadWrite)
    fail("access is %llu", flags);
  hipMemAllocationProp told = {};
  HIP_OK(hipMemGetAllocationPropertiesFromHandle(&told, first));
  if (told.type != hipMemAllocationTypePinned || told.location.id != 0)
    fail("the properties of the handle are others");
  hipMemGenericAllocationHandle_t again;
  HIP_OK(hipMemRetainAllocationHandle(&again, base + 5));
  if (again != first)
    fail("the memory behind the address is another");
  HIP_OK(hipMemRelease(again));

  // The same physical memory mapped at two addresses.
  HIP_OK(hipMemMap(base + 4 * grain, grain, 0, second, 0));
  HIP_OK(hipMemSetAccess(base + 4 * grain, grain, &both, 1));
  add<<<1, 1>>>(reinterpret_cast<int *>(base + 4 * grain) + 100, 1, 96);
  HIP_OK(hipMemcpy(got.data(), base + grain + 400, 4, hipMemcpyDeviceToHost));
  if (got[0] != 100)
    fail("the alias shows %d", got[0]);

  // Memory exists as long as it is mapped, and can be mapped again as long as its handle is not released.
  HIP_OK(hipMemRelease(first));
  HIP_OK(hipMemcpy(got.data(), base, 4, hipMemcpyDeviceToHost));
  if (got[0] != 7)
    fail("released memory that is mapped shows %d", got[0]);
  HIP_OK(hipMemUnmap(base, 2 * grain));
  HIP_FAILS(hipErrorInvalidValue, hipMemcpy(got.data(), base, 4, hipMemcpyDeviceToHost));
  HIP_OK(hipMemMap(base, grain, 0, second, 0));
  HIP_OK(hipMemGetAccess(&flags, &both.location, base));
  if (flags != 0)
    fail("a fresh mapping has access %llu", flags);
  HIP_OK(hipMemSetAccess(base, grain, &reading, 1));
  HIP_OK(hipMemcpy(got.data(), base + 400, 4, hipMemcpyDeviceToHost));
  if (got[0] != 100)
    fail("mapped again it shows %d", got[0]);

  // Invalid calls.
  void *pointer = nullptr;
  HIP_FAILS(hipErrorInvalidValue, hipMemAddressReserve(nullptr, grain, 0, nullptr, 0));
  HIP_FAILS(hipErrorOutOfMemory, hipMemAddressReserve(&pointer, grain + 1, 0, nullptr, 0));
  HIP_FAILS(hipErrorInvalidValue, hipMemAddressFree(base, grain));
  HIP_FAILS(hipErrorInvalidValue, hipMemAddressFree(base, 8 * grain));
  HIP_FAILS(hipErrorInvalidValue, hipMemMap(base, grain, 0, second, 0));
  HIP_FAILS(hipErrorInvalidValue, hipMemMap(base + 8 * grain, grain, 0, second, 0));
  HIP_FAILS(hipErrorInvalidValue, hipMemMap(base + 6 * grain, 2 * grain, 0, second, 0));
  HIP_FAILS(hipErrorInvalidValue, hipMemUnmap(base + grain, grain));
  HIP_FAILS(hipErrorInvalidValue, hipMemSetAccess(base, 2 * grain, &both, 1));
  HIP_FAILS(hipErrorInvalidValue, hipMemRelease(first));
  HIP_FAILS(hipErrorInvalidValue, hipFree(base));
  prop.location.id = 99;
  HIP_FAILS(hipErrorInvalidValue, hipMemCreate(&first, grain, &prop, 0));
  prop.location.id = 0;
  HIP_FAILS(hipErrorInvalidValue, hipMemCreate(&first, 100, &prop, 0));
  HIP_FAILS(hipErrorOutOfMemory, hipMemCreate(&first, size_t(1) << 46, &prop, 0));

  HIP_OK(hipMemUnmap(base, grain));
  HIP_OK(hipMemUnmap(base + 4 * grain, grain));
  HIP_OK(hipMemRelease(second));
  HIP_OK(hipMemAddressFree(base, 8 * grain));
  HIP_OK(hipMemAddressReserve(&pointer, 2 * grain, 8 * grain, nullptr, 0));
  if (reinterpret_cast<size_t>(pointer) % (8 * grain) != 0)
    fail("%p is not aligned", pointer);
  HIP_OK(hipMemAddressFree(pointer, 2 * grain));
  return pass();
}
