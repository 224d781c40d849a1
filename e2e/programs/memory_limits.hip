// An allocation that exceeds the memory fails at once and breaks nothing; memory pools release memory as configured.
#include "check.h"

EXAMPLE("memory_limits");

#define HIP_EXPECT(call, wanted)                                                                                       \
  do {                                                                                                                 \
    hipError_t result = (call);                                                                                        \
    if (result != (wanted))                                                                                            \
      fail("%s is %s, not %s", #call, hipGetErrorName(result), hipGetErrorName(wanted));                               \
  } while (0)

__global__ void fill(int *data, int count, int value) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    data[i] = value;
}

static size_t free_bytes() {
  size_t free = 0, total = 0;
  HIP_OK(hipMemGetInfo(&free, &total));
  return free;
}

static void works(int *data, int value) {
  fill<<<4, 64>>>(data, 1000, value);
  HIP_OK(hipDeviceSynchronize());
  int seen = 0;
  HIP_OK(hipMemcpy(&seen, data + 999, sizeof seen, hipMemcpyDeviceToHost));
  if (seen != value)
    fail("memory after a failure is %d, not %d", seen, value);
}

template <typename Make, typename Free> static void runs_out_and_recovers(const char *what, Make make, Free give_back) {
  const size_t before = free_bytes();
  std::vector<void *> all;
  const size_t piece = before / 5;
  void *made = nullptr;
  hipError_t result;
  while ((result = make(&made, piece)) == hipSuccess) {
    all.push_back(made);
    if (all.size() > 5)
      fail("%s gives more than there is", what);
  }
  if (result != hipErrorOutOfMemory)
    fail("%s says %s when there is no more", what, hipGetErrorName(result));
  if (all.size() < 4)
    fail("%s gives %zu fifths", what, all.size());
  (void)hipGetLastError();
  works(static_cast<int *>(all[0]), 5);
  // Like a caching allocator: free some memory and retry.
  give_back(all.back());
  all.pop_back();
  if (make(&made, piece) != hipSuccess)
    fail("%s gives nothing although something was given back", what);
  all.push_back(made);
  works(static_cast<int *>(made), 6);
  for (void *pointer : all)
    give_back(pointer);
  HIP_OK(hipDeviceSynchronize());
  if (free_bytes() != before)
    fail("%s: %zu bytes are free, %zu were", what, free_bytes(), before);
}

static void a_pool_gives_back_what_it_is_told_to() {
  const size_t before = free_bytes();
  hipMemPool_t pool;
  HIP_OK(hipDeviceGetDefaultMemPool(&pool, 0));
  uint64_t threshold = 0;
  HIP_OK(hipMemPoolGetAttribute(pool, hipMemPoolAttrReleaseThreshold, &threshold));
  threshold = 1 << 20;
  HIP_OK(hipMemPoolSetAttribute(pool, hipMemPoolAttrReleaseThreshold, &threshold));
  uint64_t kept = 0;
  HIP_OK(hipMemPoolGetAttribute(pool, hipMemPoolAttrReleaseThreshold, &kept));
  if (kept != threshold)
    fail("a threshold of %zu became %zu", size_t(threshold), size_t(kept));
  hipStream_t stream;
  HIP_OK(hipStreamCreate(&stream));
  auto used = [&](hipMemPoolAttr attribute) {
    uint64_t bytes = 0;
    HIP_OK(hipMemPoolGetAttribute(pool, attribute, &bytes));
    return bytes;
  };
  constexpr size_t piece = 8 << 20;
  void *pieces[4];
  for (void *&one : pieces) {
    HIP_OK(hipMallocAsync(&one, piece, stream));
    fill<<<4, 64, 0, stream>>>(static_cast<int *>(one), 1000, 1);
  }
  if (used(hipMemPoolAttrUsedMemCurrent) != 4 * piece || used(hipMemPoolAttrReservedMemCurrent) < 4 * piece)
    fail("a pool with four pieces says %zu are used", size_t(used(hipMemPoolAttrUsedMemCurrent)));
  for (void *one : pieces)
    HIP_OK(hipFreeAsync(one, stream));
  HIP_OK(hipStreamSynchronize(stream));
  if (used(hipMemPoolAttrUsedMemCurrent) != 0 || used(hipMemPoolAttrUsedMemHigh) < 4 * piece)
    fail("an empty pool says %zu are used", size_t(used(hipMemPoolAttrUsedMemCurrent)));
  if (used(hipMemPoolAttrReservedMemCurrent) > threshold)
    fail("a pool holds more than its threshold after a synchronisation");
  HIP_OK(hipMemPoolTrimTo(pool, 0));
  if (used(hipMemPoolAttrReservedMemCurrent) != 0)
    fail("a trimmed pool holds %zu bytes", size_t(used(hipMemPoolAttrReservedMemCurrent)));
  if (free_bytes() != before)
    fail("after trimming %zu bytes are free, %zu were", free_bytes(), before);
  uint64_t zero = 0;
  HIP_OK(hipMemPoolSetAttribute(pool, hipMemPoolAttrUsedMemHigh, &zero));
  if (used(hipMemPoolAttrUsedMemHigh) != 0)
    fail("the highest use was not reset");
  HIP_OK(hipStreamDestroy(stream));
}

int main() {
  // Kernels must be loaded before free memory is compared.
  int *warm = nullptr;
  HIP_OK(hipMalloc(reinterpret_cast<void **>(&warm), 4000));
  works(warm, 1);
  HIP_OK(hipFree(warm));
  HIP_OK(hipDeviceSynchronize());
  runs_out_and_recovers(
      "hipMalloc", [](void **made, size_t bytes) { return hipMalloc(made, bytes); },
      [](void *pointer) { HIP_OK(hipFree(pointer)); });
  runs_out_and_recovers(
      "hipMallocManaged",
      [](void **made, size_t bytes) { return hipMallocManaged(made, bytes, hipMemAttachGlobal); },
      [](void *pointer) { HIP_OK(hipFree(pointer)); });
  runs_out_and_recovers(
      "hipMallocAsync", [](void **made, size_t bytes) { return hipMallocAsync(made, bytes, nullptr); },
      [](void *pointer) { HIP_OK(hipFreeAsync(pointer, nullptr)); });
  void *none = nullptr;
  HIP_EXPECT(hipHostMalloc(&none, size_t(1) << 60, hipHostMallocDefault), hipErrorOutOfMemory);
  HIP_EXPECT(hipMallocManaged(&none, size_t(1) << 60, hipMemAttachGlobal), hipErrorOutOfMemory);
  a_pool_gives_back_what_it_is_told_to();
  return pass();
}
