// A module with a managed variable: the host and the kernels of a module loaded at run time see the same memory. Also: launches that
// were queued before the module is unloaded still run.
#include "check.h"

#include <hip/hiprtc.h>

EXAMPLE("module_managed");

#define RTC_OK(call)                                                                                                   \
  do {                                                                                                                 \
    hiprtcResult rtc_ok_result = (call);                                                                               \
    if (rtc_ok_result != HIPRTC_SUCCESS)                                                                               \
      fail("line %d: %s: %s", __LINE__, #call, hiprtcGetErrorString(rtc_ok_result));                                   \
  } while (0)

static const char *SOURCE = R"(
extern "C" {
__managed__ int total = 40;
__managed__ int zeros[1000];
__global__ void add(int more) { total += more; zeros[999] += more; }
__global__ void late(int *to, int rounds) {
  int value = 1;
  for (int i = 0; i < rounds; ++i) value = value * 1664525 + 1013904223;
  *to = value == 0 ? 0 : 7;
}
}
)";

int main() {
  hiprtcProgram program;
  RTC_OK(hiprtcCreateProgram(&program, SOURCE, "managed", 0, nullptr, nullptr));
  RTC_OK(hiprtcCompileProgram(program, 0, nullptr));
  size_t bytes = 0;
  RTC_OK(hiprtcGetCodeSize(program, &bytes));
  std::vector<char> code(bytes);
  RTC_OK(hiprtcGetCode(program, code.data()));
  RTC_OK(hiprtcDestroyProgram(&program));

  DeviceArray<int> result(1);
  for (int time = 0; time < 2; ++time) {
    hipModule_t module;
    HIP_OK(hipModuleLoadData(&module, code.data()));
    hipFunction_t add, late;
    HIP_OK(hipModuleGetFunction(&add, module, "add"));
    HIP_OK(hipModuleGetFunction(&late, module, "late"));
    int more = 2;
    void *with[] = {&more};
    HIP_OK(hipModuleLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, nullptr, with, nullptr));
    HIP_OK(hipDeviceSynchronize());
    hipDeviceptr_t total = nullptr, zeros = nullptr;
    HIP_OK(hipModuleGetGlobal(&total, &bytes, module, "total"));
    if (bytes != sizeof(int) || *static_cast<int *>(total) != 42)
      fail("total is %d, of %zu bytes", *static_cast<int *>(total), bytes);
    HIP_OK(hipModuleGetGlobal(&zeros, &bytes, module, "zeros"));
    if (bytes != 1000 * sizeof(int) || static_cast<int *>(zeros)[999] != 2 || static_cast<int *>(zeros)[0] != 0)
      fail("the last zero is %d, of %zu bytes", static_cast<int *>(zeros)[999], bytes);

    int *to = result.get(), rounds = 300000;
    HIP_OK(hipMemset(to, 0, sizeof(int)));
    void *slowly[] = {&to, &rounds};
    HIP_OK(hipModuleLaunchKernel(late, 1, 1, 1, 1, 1, 1, 0, nullptr, slowly, nullptr));
    HIP_OK(hipModuleUnload(module));
    HIP_FAILS(hipErrorNotFound, hipModuleUnload(module));
    int got = 0;
    HIP_OK(hipMemcpy(&got, to, sizeof got, hipMemcpyDeviceToHost));
    if (got != 7)
      fail("what was launched before the module was unloaded was not done: %d", got);
  }
  return pass();
}
