// A program compiled at run time has the built-in declarations of AMD's hiprtc, and finds headers in folders of the client machine.
#include "check.h"

#include <hip/hiprtc.h>

#include <fstream>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

EXAMPLE("rtc_headers");

#define RTC_OK(call)                                                                                                   \
  do {                                                                                                                 \
    hiprtcResult rtc_ok_result = (call);                                                                               \
    if (rtc_ok_result != HIPRTC_SUCCESS)                                                                               \
      fail("line %d: %s: %s", __LINE__, #call, hiprtcGetErrorString(rtc_ok_result));                                   \
  } while (0)

static const char *const SOURCE = R"(
#include <ours/factor.h>
extern "C" __global__ void run(uint* values, ptrdiff_t offset) {
  ushort narrow = 0xffff;
  narrow += 2; // 1
  __half half = __float2half(2.0f);
  hip_bfloat16 brain(3.0f);
  hipFloatComplex number = hipCaddf(make_hipFloatComplex(1, 0), make_hipFloatComplex(3, 0));
  auto block = cooperative_groups::this_thread_block();
  block.sync();
  uint sum = narrow + uint(__half2float(half)) + uint(float(brain)) + uint(number.x);
  values[block.thread_rank() + offset] = FACTOR * sum + __shfl_xor(uint(threadIdx.x), 1);
}
)";

// An option selects the type of ptrdiff_t, so that a program can have the same type on Linux and Windows.
static void difference_of_pointers_is(const char *type, const char *option) {
  std::string source = std::string("static_assert(__is_same(ptrdiff_t, ") + type + "), \"another type\");";
  hiprtcProgram program;
  RTC_OK(hiprtcCreateProgram(&program, source.c_str(), "type.hip", 0, nullptr, nullptr));
  RTC_OK(hiprtcCompileProgram(program, 1, &option));
  RTC_OK(hiprtcDestroyProgram(&program));
}

static void write(const std::string &path, const char *text) {
  std::ofstream file(path);
  if (!(file << text))
    fail("cannot write %s", path.c_str());
}

int main() {
  char folder[] = "/tmp/rtc_headers_XXXXXX";
  if (mkdtemp(folder) == nullptr || mkdir((std::string(folder) + "/ours").c_str(), 0700) != 0)
    fail("no folder for headers");
  write(std::string(folder) + "/ours/factor.h", "#pragma once\n#include \"deeper.h\"\n#define FACTOR (TEN * 10)\n");
  write(std::string(folder) + "/ours/deeper.h", "#define TEN 10\n");

  hiprtcProgram program;
  RTC_OK(hiprtcCreateProgram(&program, SOURCE, "kernels.hip", 0, nullptr, nullptr));
  std::string include = std::string("-I") + folder;
  const char *options[] = {include.c_str(), "-fcuda-flush-denormals-to-zero"};
  hiprtcResult compiled = hiprtcCompileProgram(program, 2, options);
  for (const char *name : {"/ours/factor.h", "/ours/deeper.h", "/ours", ""})
    std::remove((std::string(folder) + name).c_str());
  if (compiled != HIPRTC_SUCCESS) {
    size_t bytes = 0;
    hiprtcGetProgramLogSize(program, &bytes);
    std::string log(bytes, ' ');
    hiprtcGetProgramLog(program, log.data());
    fail("%s: %s", hiprtcGetErrorString(compiled), log.c_str());
  }
  size_t bytes = 0;
  RTC_OK(hiprtcGetCodeSize(program, &bytes));
  std::vector<char> code(bytes);
  RTC_OK(hiprtcGetCode(program, code.data()));
  RTC_OK(hiprtcDestroyProgram(&program));

  hipModule_t module;
  HIP_OK(hipModuleLoadData(&module, code.data()));
  hipFunction_t function;
  HIP_OK(hipModuleGetFunction(&function, module, "run"));
  DeviceArray<uint32_t> values(64);
  uint32_t *pointer = values.get();
  ptrdiff_t offset = 0;
  void *arguments[] = {&pointer, &offset};
  HIP_OK(hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr));
  std::vector<uint32_t> got = values.read();
  for (uint32_t i = 0; i < 64; ++i)
    if (got[i] != 1000 + (i ^ 1))
      fail("value %u is %u", i, got[i]);
  HIP_OK(hipModuleUnload(module));
  difference_of_pointers_is("long", "-D__HIPRTC_PTRDIFF_T_IS_LONG_LONG__=0");
  difference_of_pointers_is("long long", "-D__HIPRTC_PTRDIFF_T_IS_LONG_LONG__=1");
  return pass();
}
