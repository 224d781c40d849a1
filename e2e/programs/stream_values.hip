// Stream value writes and waits, stream attributes, and kernels looked up by name in a library.
#include "check.h"

#include <cstdio>
#include <cstring>
#include <string>

EXAMPLE("stream_values");

__global__ void add(int *value, int amount) { *value += amount; }

static void values() {
  hipStream_t waiting, writing;
  HIP_OK(hipStreamCreateWithFlags(&waiting, hipStreamNonBlocking));
  HIP_OK(hipStreamCreateWithFlags(&writing, hipStreamNonBlocking));
  void *flag = nullptr;
  HIP_OK(hipExtMallocWithFlags(&flag, 8, hipMallocSignalMemory));
  DeviceArray<int> number(1);
  HIP_OK(hipMemset(flag, 0, 8));
  HIP_OK(hipMemset(number.get(), 0, 4));
  HIP_OK(hipDeviceSynchronize());

  // Each comparison blocks a stream until another stream has written the value.
  struct {
    uint64_t before, after, value, mask;
    unsigned flags;
    bool wide;
  } turns[] = {
      {0, 5, 4, ~0ull, hipStreamWaitValueGte, false},
      {5, 0x105, 0x100, 0xff00, hipStreamWaitValueEq, false},
      {0x100000000ull, 0x300000000ull, 0x200000000ull, ~0ull, hipStreamWaitValueAnd, true},
      {~0ull, ~1ull, 0, ~0ull, hipStreamWaitValueNor, true},
  };
  int wanted = 0;
  for (auto &turn : turns) {
    HIP_OK(hipStreamWriteValue64(writing, flag, turn.before, 0));
    HIP_OK(hipStreamSynchronize(writing));
    if (turn.wide)
      HIP_OK(hipStreamWaitValue64(waiting, flag, turn.value, turn.flags, turn.mask));
    else
      HIP_OK(hipStreamWaitValue32(waiting, flag, uint32_t(turn.value), turn.flags, uint32_t(turn.mask)));
    add<<<1, 1, 0, waiting>>>(number.get(), 1);
    HIP_FAILS(hipErrorNotReady, hipStreamQuery(waiting));
    int seen = 0;
    HIP_OK(hipMemcpyAsync(&seen, number.get(), 4, hipMemcpyDeviceToHost, writing));
    HIP_OK(hipStreamSynchronize(writing));
    if (seen != wanted)
      fail("the stream did not wait: %d, not %d", seen, wanted);
    HIP_OK(hipStreamWriteValue64(writing, flag, turn.after, 0));
    HIP_OK(hipStreamSynchronize(waiting));
    wanted += 1;
    if (number.read()[0] != wanted)
      fail("after the value there are %d kernels, not %d", number.read()[0], wanted);
  }
  HIP_OK(hipStreamWriteValue32(writing, static_cast<char *>(flag) + 4, 77, 0));
  uint32_t both[2];
  HIP_OK(hipMemcpyAsync(both, flag, 8, hipMemcpyDeviceToHost, writing));
  HIP_OK(hipStreamSynchronize(writing));
  if (both[0] != uint32_t(~1ull) || both[1] != 77)
    fail("a 32-bit write left %x %x", both[0], both[1]);

  HIP_FAILS(hipErrorInvalidValue, hipStreamWaitValue32(waiting, flag, 1, 9, ~0u));
  HIP_FAILS(hipErrorInvalidValue, hipStreamWaitValue32(waiting, nullptr, 1, 0, ~0u));
  HIP_FAILS(hipErrorInvalidValue, hipStreamWriteValue32(waiting, both, 1, 0));
  HIP_OK(hipFree(flag));
  HIP_OK(hipStreamDestroy(waiting));
  HIP_OK(hipStreamDestroy(writing));
}

static void links() {
  uint32_t kind = 0, hops = 0;
  HIP_FAILS(hipErrorInvalidValue, hipExtGetLinkTypeAndHopCount(0, 0, &kind, &hops));
  HIP_FAILS(hipErrorInvalidDevice, hipExtGetLinkTypeAndHopCount(0, 99, &kind, &hops));
  HIP_FAILS(hipErrorInvalidValue, hipExtGetLinkTypeAndHopCount(-1, 0, &kind, &hops));
}

static void images() {
  // As on this hardware, which has no image instructions.
  int support = 1;
  HIP_OK(hipDeviceGetAttribute(&support, hipDeviceAttributeImageSupport, 0));
  if (support != 0)
    fail("a device with images");
  HIP_OK(hipDestroyTextureObject(nullptr));
}

#if HIP_VERSION_MAJOR >= 7
static void batches() {
  hipStream_t stream;
  HIP_OK(hipStreamCreate(&stream));
  DeviceArray<uint64_t> memory(4);
  hipStreamBatchMemOpParams operations[4] = {};
  operations[0].writeValue.operation = hipStreamMemOpWriteValue64;
  operations[0].writeValue.address = hipDeviceptr_t(memory.get());
  operations[0].writeValue.value64 = 0x1234567890abcdefull;
  operations[1].writeValue.operation = hipStreamMemOpWriteValue32;
  operations[1].writeValue.address = hipDeviceptr_t(memory.get() + 1);
  operations[1].writeValue.value = 7;
  operations[2].waitValue.operation = hipStreamMemOpWaitValue64;
  operations[2].waitValue.address = hipDeviceptr_t(memory.get());
  operations[2].waitValue.value64 = 0x1234567890abcdefull;
  operations[2].waitValue.flags = hipStreamWaitValueEq;
  operations[3].waitValue.operation = hipStreamMemOpWaitValue32;
  operations[3].waitValue.address = hipDeviceptr_t(memory.get() + 1);
  operations[3].waitValue.value = 6;
  HIP_OK(hipMemset(memory.get(), 0, 32));
  HIP_OK(hipStreamBatchMemOp(stream, 4, operations, 0));
  HIP_OK(hipStreamSynchronize(stream));
  std::vector<uint64_t> got = memory.read();
  if (got[0] != 0x1234567890abcdefull || got[1] != 7)
    fail("the batch wrote %llx %llx", (unsigned long long)got[0], (unsigned long long)got[1]);
  HIP_FAILS(hipErrorInvalidValue, hipStreamBatchMemOp(stream, 0, operations, 0));

  hipStream_t other;
  HIP_OK(hipStreamCreateWithPriority(&other, hipStreamNonBlocking, -1));
  hipLaunchAttributeValue value = {};
  HIP_OK(hipStreamGetAttribute(other, hipLaunchAttributePriority, &value));
  if (value.priority != -1)
    fail("the priority is %d", value.priority);
  value.syncPolicy = hipSyncPolicyYield;
  HIP_OK(hipStreamSetAttribute(stream, hipLaunchAttributeSynchronizationPolicy, &value));
  HIP_OK(hipStreamCopyAttributes(other, stream));
  value = {};
  HIP_OK(hipStreamGetAttribute(other, hipLaunchAttributeSynchronizationPolicy, &value));
  if (value.syncPolicy != hipSyncPolicyYield)
    fail("the copied policy is %d", value.syncPolicy);
  HIP_FAILS(hipErrorInvalidValue, hipStreamSetAttribute(stream, hipLaunchAttributePriority, &value));
  HIP_OK(hipStreamDestroy(stream));
  HIP_OK(hipStreamDestroy(other));
}

static void libraries(const char *file) {
  hipLibrary_t library;
  hipJitOption *jit = nullptr;
  hipLibraryOption *options = nullptr;
  void **values = nullptr;
  HIP_OK(hipLibraryLoadFromFile(&library, file, jit, values, 0u, options, values, 0u));
  unsigned count = 0;
  HIP_OK(hipLibraryGetKernelCount(&count, library));
  std::vector<hipKernel_t> kernels(count);
  HIP_OK(hipLibraryEnumerateKernels(kernels.data(), count, library));
  for (hipKernel_t kernel : kernels) {
    const char *name = nullptr;
    HIP_OK(hipKernelGetName(&name, kernel));
    hipKernel_t found;
    HIP_OK(hipLibraryGetKernel(&found, library, name));
    hipLibrary_t owner;
    HIP_OK(hipKernelGetLibrary(&owner, kernel));
    if (found != kernel || owner != library)
      fail("%s is not the library's", name);
  }
  hipKernel_t none;
  HIP_FAILS(hipErrorNotFound, hipLibraryGetKernel(&none, library, "no such kernel"));
  HIP_OK(hipLibraryUnload(library));
  HIP_FAILS(hipErrorInvalidResourceHandle, hipLibraryGetKernelCount(&count, library));
}
#else
static void batches() {}
static void libraries(const char *) {}
#endif

int main(int, char **arguments) {
  values();
  links();
  images();
  batches();
  libraries(arguments[1]);
  return pass();
}
