// Memory shared by two processes: the first allocates it and starts the second, which opens and changes it.
#include "check.h"

#include <cstring>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

EXAMPLE("ipc");

constexpr int count = 5000;

__global__ void add(int *values, int amount) {
  int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (at < count)
    values[at] += amount;
}

// Message to the second process on its standard input.
struct Letter {
  hipIpcMemHandle_t memory, stale;
  hipMemPoolPtrExportData pooled;
  int descriptor, pool;
};

static void send(int pipe, char signal) {
  if (write(pipe, &signal, 1) != 1)
    fail("a pipe broke");
}

static void expect(int pipe, char signal) {
  char got = 0;
  if (read(pipe, &got, 1) != 1 || got != signal)
    fail("the other process said '%c' and not '%c'", got, signal);
}

static hipMemAllocationProp properties() {
  hipMemAllocationProp properties = {};
  properties.type = hipMemAllocationTypePinned;
  properties.location.type = hipMemLocationTypeDevice;
  properties.requestedHandleType = hipMemHandleTypePosixFileDescriptor;
  return properties;
}

static hipMemAccessDesc both() {
  hipMemAccessDesc access = {};
  access.location.type = hipMemLocationTypeDevice;
  access.flags = hipMemAccessFlagsProtReadWrite;
  return access;
}

static void *descriptor_argument(int *descriptor) {
#if HIP_VERSION_MAJOR >= 7
  return reinterpret_cast<void *>(static_cast<size_t>(*descriptor));
#else
  return descriptor;
#endif
}

static int second() {
  Letter letter;
  if (read(0, &letter, sizeof letter) != sizeof letter)
    fail("cannot read the message from the first process");
  void *stale = nullptr;
  if (hipIpcOpenMemHandle(&stale, letter.stale, hipIpcMemLazyEnablePeerAccess) == hipSuccess)
    fail("freed memory can still be opened");
  int *values = nullptr;
  HIP_FAILS(hipErrorInvalidValue, hipIpcOpenMemHandle(reinterpret_cast<void **>(&values), letter.memory,
                                                              hipIpcMemLazyEnablePeerAccess + 1));
  HIP_OK(hipIpcOpenMemHandle(reinterpret_cast<void **>(&values), letter.memory, hipIpcMemLazyEnablePeerAccess));
  std::vector<int> got(count);
  HIP_OK(hipMemcpy(got.data(), values, count * 4, hipMemcpyDeviceToHost));
  for (int at = 0; at < count; ++at)
    if (got[at] != at + 1)
      fail("element %d is %d here", at, got[at]);
  add<<<(count + 255) / 256, 256>>>(values, 1000);
  HIP_OK(hipDeviceSynchronize());

  hipMemGenericAllocationHandle_t handle;
  HIP_OK(hipMemImportFromShareableHandle(&handle, descriptor_argument(&letter.descriptor),
                                         hipMemHandleTypePosixFileDescriptor));
  hipMemAllocationProp prop = properties();
  size_t grain = 0;
  HIP_OK(hipMemGetAllocationGranularity(&grain, &prop, hipMemAllocationGranularityMinimum));
  void *base = nullptr;
  HIP_OK(hipMemAddressReserve(&base, grain, 0, nullptr, 0));
  HIP_OK(hipMemMap(base, grain, 0, handle, 0));
  hipMemAccessDesc access = both();
  HIP_OK(hipMemSetAccess(base, grain, &access, 1));
  add<<<(count + 255) / 256, 256>>>(static_cast<int *>(base), 7);
  HIP_OK(hipDeviceSynchronize());

  hipMemPool_t pool;
  HIP_OK(hipMemPoolImportFromShareableHandle(&pool, descriptor_argument(&letter.pool),
                                             hipMemHandleTypePosixFileDescriptor, 0));
  int *pooled = nullptr;
  HIP_OK(hipMemPoolImportPointer(reinterpret_cast<void **>(&pooled), pool, &letter.pooled));
  add<<<(count + 255) / 256, 256>>>(pooled, 5);
  HIP_OK(hipDeviceSynchronize());
  HIP_OK(hipFree(pooled));
  send(1, 'o');

  // The owner has freed its memory meanwhile; the opened mapping stays valid.
  expect(0, 'f');
  HIP_OK(hipMemcpy(got.data(), values, 4, hipMemcpyDeviceToHost));
  if (got[0] != 1001)
    fail("the memory was freed with its owner: %d", got[0]);
  HIP_OK(hipIpcCloseMemHandle(values));
  HIP_FAILS(hipErrorInvalidValue, hipIpcCloseMemHandle(values));
  HIP_FAILS(hipErrorInvalidValue, hipMemcpy(got.data(), values, 4, hipMemcpyDeviceToHost));
  send(1, 'e');
  return 0;
}

int main(int arguments, char **) {
  if (arguments > 1)
    return second();
  Letter letter = {};
  int *whole = nullptr, *gone = nullptr;
  HIP_OK(hipMalloc(reinterpret_cast<void **>(&gone), 100));
  HIP_OK(hipIpcGetMemHandle(&letter.stale, gone));
  HIP_OK(hipFree(gone));
  // The shared pointer lies inside its allocation, and the memory is written while it is being shared.
  HIP_OK(hipMalloc(reinterpret_cast<void **>(&whole), (count + 16) * sizeof(int)));
  int *values = whole + 16;
  std::vector<int> start(count);
  for (int at = 0; at < count; ++at)
    start[at] = at;
  HIP_OK(hipMemcpy(values, start.data(), count * 4, hipMemcpyHostToDevice));
  add<<<(count + 255) / 256, 256>>>(values, 1);
  HIP_OK(hipIpcGetMemHandle(&letter.memory, values));
  HIP_OK(hipDeviceSynchronize());
  hipIpcMemHandle_t twice;
  HIP_OK(hipIpcGetMemHandle(&twice, values));
  if (std::memcmp(&twice, &letter.memory, sizeof twice) != 0)
    fail("the same memory has two handles");
  void *own = nullptr;
  HIP_FAILS(hipErrorInvalidContext, hipIpcOpenMemHandle(&own, letter.memory, hipIpcMemLazyEnablePeerAccess));
  HIP_FAILS(hipErrorInvalidValue, hipIpcGetMemHandle(&twice, nullptr));
  HIP_FAILS(hipErrorInvalidValue, hipIpcGetMemHandle(&twice, &letter));

  hipMemAllocationProp prop = properties();
  size_t grain = 0;
  HIP_OK(hipMemGetAllocationGranularity(&grain, &prop, hipMemAllocationGranularityMinimum));
  hipMemGenericAllocationHandle_t handle;
  HIP_OK(hipMemCreate(&handle, grain, &prop, 0));
  void *base = nullptr;
  HIP_OK(hipMemAddressReserve(&base, grain, 0, nullptr, 0));
  HIP_OK(hipMemMap(base, grain, 0, handle, 0));
  hipMemAccessDesc access = both();
  HIP_OK(hipMemSetAccess(base, grain, &access, 1));
  HIP_OK(hipMemset(base, 0, grain));
  HIP_OK(hipDeviceSynchronize());
  HIP_OK(hipMemExportToShareableHandle(&letter.descriptor, handle, hipMemHandleTypePosixFileDescriptor, 0));

  hipMemPoolProps pool_properties = {};
  pool_properties.allocType = hipMemAllocationTypePinned;
  pool_properties.handleTypes = hipMemHandleTypePosixFileDescriptor;
  pool_properties.location.type = hipMemLocationTypeDevice;
  hipMemPool_t pool;
  HIP_OK(hipMemPoolCreate(&pool, &pool_properties));
  int *pooled = nullptr;
  HIP_OK(hipMallocFromPoolAsync(reinterpret_cast<void **>(&pooled), count * 4, pool, nullptr));
  HIP_OK(hipMemset(pooled, 0, count * 4));
  HIP_OK(hipDeviceSynchronize());
  HIP_OK(hipMemPoolExportToShareableHandle(&letter.pool, pool, hipMemHandleTypePosixFileDescriptor, 0));
  HIP_OK(hipMemPoolExportPointer(&letter.pooled, pooled));

  int down[2], up[2];
  if (pipe2(down, O_CLOEXEC) != 0 || pipe2(up, O_CLOEXEC) != 0)
    fail("no pipes");
  // File descriptors are passed to the other process by inheritance.
  fcntl(letter.descriptor, F_SETFD, 0);
  fcntl(letter.pool, F_SETFD, 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, down[0], 0);
  posix_spawn_file_actions_adddup2(&actions, up[1], 1);
  char name[] = "/proc/self/exe", word[] = "second";
  char *line[] = {name, word, nullptr};
  pid_t child = 0;
  if (posix_spawn(&child, name, &actions, nullptr, line, environ) != 0)
    fail("cannot start the second process");
  close(down[0]);
  close(up[1]);
  if (write(down[1], &letter, sizeof letter) != sizeof letter)
    fail("cannot send the message");
  expect(up[0], 'o');

  std::vector<int> got(count);
  HIP_OK(hipMemcpy(got.data(), values, count * 4, hipMemcpyDeviceToHost));
  for (int at = 0; at < count; ++at)
    if (got[at] != at + 1001)
      fail("element %d is %d after the other process", at, got[at]);
  for (void *shared : {base, static_cast<void *>(pooled)}) {
    HIP_OK(hipMemcpy(got.data(), shared, count * 4, hipMemcpyDeviceToHost));
    if (got[0] != (shared == base ? 7 : 5) || got[count - 1] != got[0])
      fail("shared memory shows %d", got[0]);
  }
  HIP_OK(hipFree(whole));
  HIP_OK(hipDeviceSynchronize());
  send(down[1], 'f');
  expect(up[0], 'e');
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0)
    fail("the second process ended with %d", status);
  HIP_OK(hipFreeAsync(pooled, nullptr));
  HIP_OK(hipMemPoolDestroy(pool));
  return pass();
}
