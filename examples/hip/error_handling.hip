// Invalid calls fail at once, with the same error as AMD's library, and do not affect later calls.
#include "check.h"

#include <cstring>

EXAMPLE("error_handling");

__global__ void set(int *value, int to) { *value = to; }

// A launch reports errors through the last error, which is cleared when it is read.
static void expect_launch_error(int line, hipError_t wanted) {
  hipError_t peeked = hipPeekAtLastError(), got = hipGetLastError(), after = hipGetLastError();
  if (peeked != wanted || got != wanted || after != hipSuccess)
    fail("line %d: the launch gave %s, %s and %s, not %s", line, hipGetErrorName(peeked), hipGetErrorName(got),
         hipGetErrorName(after), hipGetErrorName(wanted));
}

int main() {
  int devices = 0;
  HIP_OK(hipGetDeviceCount(&devices));
  HIP_FAILS(hipErrorInvalidDevice, hipSetDevice(devices));
  HIP_FAILS(hipErrorInvalidDevice, hipSetDevice(-1));
  HIP_FAILS(hipErrorInvalidValue, hipGetDeviceCount(nullptr));

  DeviceArray<int> value(std::vector<int>{1});
  int host = 0;
  HIP_FAILS(hipErrorInvalidValue, hipMalloc(static_cast<void **>(nullptr), 64));
  HIP_FAILS(hipErrorInvalidValue, hipMemcpy(nullptr, &host, sizeof host, hipMemcpyHostToDevice));
  HIP_FAILS(hipErrorInvalidValue, hipMemcpy(value.get(), nullptr, sizeof host, hipMemcpyHostToDevice));
  HIP_FAILS(hipErrorInvalidMemcpyDirection, hipMemcpy(value.get(), &host, sizeof host, static_cast<hipMemcpyKind>(77)));
  HIP_FAILS(hipErrorInvalidValue, hipFree(&host));
  HIP_OK(hipFree(nullptr));
  HIP_OK(hipMemcpy(value.get(), &host, 0, hipMemcpyHostToDevice));

  // More memory than any device has.
  void *huge = nullptr;
  HIP_FAILS(hipErrorOutOfMemory, hipMalloc(&huge, static_cast<size_t>(1) << 50));

  (void)hipGetLastError();
  set<<<1, 2048>>>(value.get(), 2);
  expect_launch_error(__LINE__, hipErrorInvalidConfiguration);
  set<<<0, 64>>>(value.get(), 3);
  expect_launch_error(__LINE__, hipErrorInvalidConfiguration);
  set<<<1, dim3(32, 0, 1)>>>(value.get(), 4);
  expect_launch_error(__LINE__, hipErrorInvalidConfiguration);
  set<<<1, 64, 1 << 20>>>(value.get(), 5);
  expect_launch_error(__LINE__, hipErrorInvalidValue);

  // None of this reached the device, and it still works.
  if (value.read()[0] != 1)
    fail("a refused launch ran");
  set<<<1, 1>>>(value.get(), 6);
  HIP_OK(hipGetLastError());
  if (value.read()[0] != 6)
    fail("a launch after refused ones did not run");

  // An invalid module file, and a missing kernel.
  hipModule_t module = nullptr;
  std::vector<char> junk(4096, 'x');
  hipError_t loaded = hipModuleLoadData(&module, junk.data());
  if (loaded != hipErrorInvalidImage && loaded != hipErrorNoBinaryForGpu && loaded != hipErrorInvalidKernelFile)
    fail("loading junk gave %s", hipGetErrorName(loaded));
  HIP_FAILS(hipErrorFileNotFound, hipModuleLoad(&module, "/no/such/file"));

  hipEvent_t never, other;
  HIP_OK(hipEventCreate(&never));
  HIP_OK(hipEventCreate(&other));
  float milliseconds = 0.0f;
  HIP_FAILS(hipErrorInvalidHandle, hipEventElapsedTime(&milliseconds, never, other));
  HIP_FAILS(hipErrorInvalidValue, hipEventElapsedTime(nullptr, never, other));
  HIP_OK(hipEventDestroy(never));
  HIP_OK(hipEventDestroy(other));

  if (std::strcmp(hipGetErrorName(hipErrorOutOfMemory), "hipErrorOutOfMemory") != 0)
    fail("hipErrorOutOfMemory is called %s", hipGetErrorName(hipErrorOutOfMemory));
  if (std::strcmp(hipGetErrorString(hipErrorOutOfMemory), "out of memory") != 0)
    fail("hipErrorOutOfMemory says %s", hipGetErrorString(hipErrorOutOfMemory));
  return pass();
}
