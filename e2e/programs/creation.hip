// Creates and destroys one object of each kind. The argument is a code object. None of this needs a round trip to the device.
#include "check.h"

EXAMPLE("creation");

__global__ void set(int *data, int to) { *data = to; }

// Outlives main and the library's thread-local state.
static struct Last {
  void *data = nullptr;
  ~Last() {
    hipError_t freed = hipFree(data), error = hipGetLastError();
    if (freed != error || (freed != hipSuccess && freed != hipErrorDeinitialized)) {
      std::fprintf(stderr, "freeing after main: %s, then %s\n", hipGetErrorName(freed), hipGetErrorName(error));
      _Exit(3);
    }
  }
} last;

int main(int argc, char **argv) {
  if (argc < 2)
    fail("usage: creation CODE_OBJECT");
  int count = 0;
  hipDeviceProp_t properties;
  HIP_OK(hipGetDeviceCount(&count));
  HIP_OK(hipGetDeviceProperties(&properties, 0));
  for (int round = 0; round < 10; ++round) {
    int *data = nullptr;
    void *asynchronous = nullptr;
    HIP_OK(hipMalloc(&data, 1 << 20));
    hipStream_t stream;
    HIP_OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    HIP_OK(hipMallocAsync(&asynchronous, 4096, stream));
    hipEvent_t event;
    HIP_OK(hipEventCreate(&event));
    hipModule_t module;
    HIP_OK(hipModuleLoad(&module, argv[1]));
    hipFunction_t function;
    HIP_OK(hipModuleGetFunction(&function, module, "fill"));
    hipDeviceptr_t global;
    size_t bytes = 0;
    HIP_OK(hipModuleGetGlobal(&global, &bytes, module, "table"));
    if (bytes != 256)
      fail("the global has %zu bytes, not 256", bytes);
    int value = round;
    void *arguments[] = {&data, &value};
    HIP_OK(hipModuleLaunchKernel(function, 4, 1, 1, 64, 1, 1, 0, stream, arguments, nullptr));
    set<<<1, 1, 0, stream>>>(data, round);
    HIP_OK(hipGetLastError());
    HIP_OK(hipMemsetAsync(data, 1, 4096, stream));
    HIP_OK(hipEventRecord(event, stream));
    HIP_OK(hipStreamWaitEvent(stream, event, 0));
    HIP_OK(hipFreeAsync(asynchronous, stream));
    HIP_OK(hipFree(data));
    HIP_OK(hipModuleUnload(module));
    HIP_OK(hipEventDestroy(event));
    HIP_OK(hipStreamDestroy(stream));
  }
  HIP_OK(hipMalloc(&last.data, 4096));
  return pass();
}
