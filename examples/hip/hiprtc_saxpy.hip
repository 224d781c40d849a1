// Kernels compiled at run time with hiprtc: a template by name expression, a header from memory, and an error with a log.
#include "check.h"

#include <hip/hiprtc.h>

#include <cstring>
#include <string>

EXAMPLE("hiprtc_saxpy");

#define RTC_OK(call)                                                                                                   \
  do {                                                                                                                 \
    hiprtcResult rtc_ok_result = (call);                                                                               \
    if (rtc_ok_result != HIPRTC_SUCCESS)                                                                               \
      fail("line %d: %s: %s", __LINE__, #call, hiprtcGetErrorString(rtc_ok_result));                                   \
  } while (0)

static const char *const source = R"(
#include "combine.h"
extern "C" __global__ void saxpy(float a, const float *x, float *y, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = combine(a, x[i], y[i]);
}
template <typename T, int Factor> __global__ void scale(T *values, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] = values[i] * T(Factor) + T(OFFSET);
}
)";
static const char *header = "__device__ inline float combine(float a, float x, float y) { return a * x + y; }\n";
static const char *const broken = R"(
extern "C" __global__ void broken(float *values) { values[0] = no_such_name; }
)";

static std::string log_of(hiprtcProgram program) {
  size_t size = 0;
  RTC_OK(hiprtcGetProgramLogSize(program, &size));
  std::string log(size, '\0');
  if (size > 0)
    RTC_OK(hiprtcGetProgramLog(program, log.data()));
  return log;
}

int main() {
  hipDeviceProp_t properties;
  HIP_OK(hipGetDeviceProperties(&properties, 0));
  std::string architecture = std::string("--offload-arch=") + properties.gcnArchName;
  const char *options[] = {architecture.c_str(), "-DOFFSET=11", "-O3"};

  const char *include_names[] = {"combine.h"};
  hiprtcProgram program;
  RTC_OK(hiprtcCreateProgram(&program, source, "kernels.hip", 1, &header, include_names));
  RTC_OK(hiprtcAddNameExpression(program, "scale<int, 3>"));
  hiprtcResult compiled = hiprtcCompileProgram(program, 3, options);
  if (compiled != HIPRTC_SUCCESS)
    fail("the program does not compile: %s", log_of(program).c_str());
  const char *lowered = nullptr;
  RTC_OK(hiprtcGetLoweredName(program, "scale<int, 3>", &lowered));
  size_t size = 0;
  RTC_OK(hiprtcGetCodeSize(program, &size));
  std::vector<char> code(size);
  RTC_OK(hiprtcGetCode(program, code.data()));

  hipModule_t module;
  hipFunction_t saxpy, scale;
  HIP_OK(hipModuleLoadData(&module, code.data()));
  HIP_OK(hipModuleGetFunction(&saxpy, module, "saxpy"));
  HIP_OK(hipModuleGetFunction(&scale, module, lowered));
  RTC_OK(hiprtcDestroyProgram(&program));

  int count = 5000;
  std::vector<float> x(count), y(count);
  std::vector<int> whole(count);
  for (int i = 0; i < count; ++i) {
    x[i] = static_cast<float>(i % 100), y[i] = static_cast<float>(i % 7);
    whole[i] = i - 2500;
  }
  DeviceArray<float> device_x(x), device_y(y);
  DeviceArray<int> device_whole(whole);
  unsigned grid = blocks_for(count, 256);

  // Arguments as an array of pointers.
  float a = 4.0f;
  float *x_pointer = device_x.get(), *y_pointer = device_y.get();
  void *arguments[] = {&a, &x_pointer, &y_pointer, &count};
  HIP_OK(hipModuleLaunchKernel(saxpy, grid, 1, 1, 256, 1, 1, 0, nullptr, arguments, nullptr));

  // Arguments as one packed buffer.
  struct {
    int *values;
    int count;
  } packed = {device_whole.get(), count};
  size_t packed_size = sizeof packed;
  void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &packed, HIP_LAUNCH_PARAM_BUFFER_SIZE, &packed_size,
                   HIP_LAUNCH_PARAM_END};
  HIP_OK(hipModuleLaunchKernel(scale, grid, 1, 1, 256, 1, 1, 0, nullptr, nullptr, extra));
  HIP_OK(hipDeviceSynchronize());

  std::vector<float> got_y = device_y.read();
  std::vector<int> got_whole = device_whole.read();
  for (int i = 0; i < count; ++i) {
    if (got_y[i] != 4.0f * x[i] + y[i])
      fail("y[%d] is %g, not %g", i, static_cast<double>(got_y[i]), static_cast<double>(4.0f * x[i] + y[i]));
    if (got_whole[i] != 3 * whole[i] + 11)
      fail("whole[%d] is %d, not %d", i, got_whole[i], 3 * whole[i] + 11);
  }
  HIP_OK(hipModuleUnload(module));

  // An error in the source fails the compilation, and the log gives its location.
  RTC_OK(hiprtcCreateProgram(&program, broken, "broken.hip", 0, nullptr, nullptr));
  compiled = hiprtcCompileProgram(program, 1, options);
  if (compiled != HIPRTC_ERROR_COMPILATION)
    fail("a broken program gave %s", hiprtcGetErrorString(compiled));
  std::string log = log_of(program);
  if (log.find("no_such_name") == std::string::npos)
    fail("the log does not name the mistake: %s", log.c_str());
  RTC_OK(hiprtcDestroyProgram(&program));
  return pass();
}
