// Prints all device properties and attributes, and checks that both queries agree.
#include "check.h"

#include <string>

EXAMPLE("properties");

static int attribute(hipDeviceAttribute_t which) {
  int value = -1;
  HIP_OK(hipDeviceGetAttribute(&value, which, 0));
  return value;
}

static void agree(const char *name, hipDeviceAttribute_t which, long long property) {
  long long clipped = std::min<long long>(property, 0x7fffffff);
  if (int value = attribute(which); value != clipped)
    fail("%s is %lld as a property and %d as an attribute", name, property, value);
  std::printf("%s=%lld\n", name, property);
}

// Device settings that last until a reset.
static void settings() {
  constexpr hipError_t invalid = hipErrorInvalidValue;
  unsigned flags = 99;
  HIP_OK(hipSetDeviceFlags(hipDeviceScheduleYield | hipDeviceMapHost | hipDeviceLmemResizeToMax));
  HIP_OK(hipGetDeviceFlags(&flags));
  if (flags != hipDeviceScheduleYield)
    fail("the flags are %u and not how to wait", flags);
  HIP_FAILS(invalid, hipSetDeviceFlags(hipDeviceScheduleSpin | hipDeviceScheduleYield));
  HIP_FAILS(invalid, hipSetDeviceFlags(0x20));
  hipSharedMemConfig banks;
  HIP_OK(hipDeviceSetSharedMemConfig(hipSharedMemBankSizeEightByte));
  HIP_OK(hipDeviceGetSharedMemConfig(&banks));
  if (banks != hipSharedMemBankSizeFourByte)
    fail("banks are %d, which AMD's devices do not have", banks);
  HIP_FAILS(invalid, hipDeviceSetSharedMemConfig(static_cast<hipSharedMemConfig>(3)));
  hipMemPool_t pool;
  HIP_OK(hipDeviceGetMemPool(&pool, 0));
  HIP_FAILS(invalid, hipDeviceGetMemPool(&pool, 99));
  HIP_FAILS(invalid, hipDeviceSetMemPool(99, pool));
  HIP_OK(hipDeviceReset());
  HIP_OK(hipGetDeviceFlags(&flags));
  if (flags != hipDeviceScheduleAuto)
    fail("the flags are %u after a reset", flags);
}

int main() {
  hipDeviceProp_t p;
  HIP_OK(hipGetDeviceProperties(&p, 0));
  std::printf("name=%s\ngcnArchName=%s\n", p.name, p.gcnArchName);
#define AGREE(field, which) agree(#field, hipDeviceAttribute##which, static_cast<long long>(p.field))
  AGREE(totalGlobalMem, TotalGlobalMem);
  AGREE(sharedMemPerBlock, MaxSharedMemoryPerBlock);
  AGREE(maxSharedMemoryPerMultiProcessor, MaxSharedMemoryPerMultiprocessor);
  AGREE(sharedMemPerBlockOptin, SharedMemPerBlockOptin);
  AGREE(regsPerBlock, MaxRegistersPerBlock);
  AGREE(regsPerMultiprocessor, MaxRegistersPerMultiprocessor);
  AGREE(warpSize, WarpSize);
  AGREE(maxThreadsPerBlock, MaxThreadsPerBlock);
  AGREE(maxThreadsPerMultiProcessor, MaxThreadsPerMultiProcessor);
  AGREE(maxBlocksPerMultiProcessor, MaxBlocksPerMultiProcessor);
  AGREE(maxThreadsDim[0], MaxBlockDimX);
  AGREE(maxThreadsDim[1], MaxBlockDimY);
  AGREE(maxThreadsDim[2], MaxBlockDimZ);
  AGREE(maxGridSize[0], MaxGridDimX);
  AGREE(maxGridSize[1], MaxGridDimY);
  AGREE(maxGridSize[2], MaxGridDimZ);
  AGREE(totalConstMem, TotalConstantMemory);
  AGREE(clockRate, ClockRate);
  AGREE(memoryClockRate, MemoryClockRate);
  AGREE(memoryBusWidth, MemoryBusWidth);
  AGREE(l2CacheSize, L2CacheSize);
  AGREE(multiProcessorCount, MultiprocessorCount);
  AGREE(major, ComputeCapabilityMajor);
  AGREE(minor, ComputeCapabilityMinor);
  AGREE(integrated, Integrated);
  AGREE(canMapHostMemory, CanMapHostMemory);
  AGREE(concurrentKernels, ConcurrentKernels);
  AGREE(cooperativeLaunch, CooperativeLaunch);
  AGREE(ECCEnabled, EccEnabled);
  AGREE(pciDomainID, PciDomainID);
  AGREE(pciBusID, PciBusId);
  AGREE(pciDeviceID, PciDeviceId);
  AGREE(asyncEngineCount, AsyncEngineCount);
  AGREE(managedMemory, ManagedMemory);
  AGREE(unifiedAddressing, UnifiedAddressing);
  AGREE(memoryPoolsSupported, MemoryPoolsSupported);
  AGREE(streamPrioritiesSupported, StreamPrioritiesSupported);
  AGREE(clockInstructionRate, ClockInstructionRate);
  AGREE(isLargeBar, IsLargeBar);
  AGREE(asicRevision, AsicRevision);
  std::printf("wallClockRate=%d\n", attribute(hipDeviceAttributeWallClockRate));
  std::printf("xccs=%d\n", attribute(hipDeviceAttributeNumberOfXccs));
  std::printf("pciChipId=%d\n", attribute(hipDeviceAttributePciChipId));
  size_t total = 0, free_bytes = 0;
  HIP_OK(hipDeviceTotalMem(&total, 0));
  if (total != p.totalGlobalMem)
    fail("hipDeviceTotalMem says %zu, the properties %zu", total, p.totalGlobalMem);
  HIP_OK(hipMemGetInfo(&free_bytes, &total));
  if (total != p.totalGlobalMem || free_bytes > total)
    fail("hipMemGetInfo says %zu of %zu, the properties %zu", free_bytes, total, p.totalGlobalMem);
  char name[256];
  HIP_OK(hipDeviceGetName(name, sizeof name, 0));
  if (std::string(name) != p.name)
    fail("hipDeviceGetName says %s, the properties %s", name, p.name);
  settings();
  return pass();
}
