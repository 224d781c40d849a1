// Compiles two sources at run time, links them and runs the result.
#include "check.h"

#include <hip/hiprtc.h>

#include <string>

EXAMPLE("link");

#define RTC_OK(call)                                                                                                   \
  do {                                                                                                                 \
    hiprtcResult rtc_ok_result = (call);                                                                               \
    if (rtc_ok_result != HIPRTC_SUCCESS)                                                                               \
      fail("line %d: %s: %s", __LINE__, #call, hiprtcGetErrorString(rtc_ok_result));                                   \
  } while (0)

static std::vector<char> bitcode(const char *source, const char *name) {
  hiprtcProgram program;
  RTC_OK(hiprtcCreateProgram(&program, source, name, 0, nullptr, nullptr));
  const char *options[] = {"-fgpu-rdc"};
  if (hiprtcCompileProgram(program, 1, options) != HIPRTC_SUCCESS) {
    size_t bytes = 0;
    hiprtcGetProgramLogSize(program, &bytes);
    std::string log(bytes, ' ');
    hiprtcGetProgramLog(program, log.data());
    fail("%s: %s", name, log.c_str());
  }
  size_t bytes = 0;
  RTC_OK(hiprtcGetBitcodeSize(program, &bytes));
  std::vector<char> code(bytes);
  RTC_OK(hiprtcGetBitcode(program, code.data()));
  RTC_OK(hiprtcDestroyProgram(&program));
  if (bytes == 0)
    fail("%s has no bitcode", name);
  return code;
}

int main() {
  std::vector<char> library = bitcode("extern \"C\" __device__ int triple(int x) { return 3 * x; }", "library");
  std::vector<char> program = bitcode("extern \"C\" __device__ int triple(int x);\n"
                                      "extern \"C\" __global__ void run(int *values) {\n"
                                      "  values[threadIdx.x] = triple(values[threadIdx.x]) + 1;\n"
                                      "}\n",
                                      "program");
  hiprtcLinkState state;
  RTC_OK(hiprtcLinkCreate(0, nullptr, nullptr, &state));
  RTC_OK(hiprtcLinkAddData(state, HIPRTC_JIT_INPUT_LLVM_BITCODE, program.data(), program.size(), "program", 0, nullptr,
                           nullptr));
  RTC_OK(hiprtcLinkAddData(state, HIPRTC_JIT_INPUT_LLVM_BITCODE, library.data(), library.size(), "library", 0, nullptr,
                           nullptr));
  if (hiprtcLinkAddData(state, HIPRTC_JIT_INPUT_LLVM_BITCODE, nullptr, 1, "nothing", 0, nullptr, nullptr) !=
      HIPRTC_ERROR_INVALID_INPUT)
    fail("null data was accepted");
  if (hiprtcLinkAddFile(state, HIPRTC_JIT_INPUT_LLVM_BITCODE, "/no/such/file.bc", 0, nullptr, nullptr) !=
      HIPRTC_ERROR_PROGRAM_CREATION_FAILURE)
    fail("a missing file was accepted");
  if (hiprtcLinkAddFile(state, HIPRTC_JIT_INPUT_NVVM, "/no/such/file.bc", 0, nullptr, nullptr) !=
      HIPRTC_ERROR_INVALID_INPUT)
    fail("a file type of another vendor was accepted");
  if (hiprtcGetBitcodeSize(nullptr, nullptr) != HIPRTC_ERROR_INVALID_INPUT)
    fail("a null pointer for the size was accepted");
  void *code = nullptr;
  size_t bytes = 0;
  RTC_OK(hiprtcLinkComplete(state, &code, &bytes));

  hipModule_t module;
  HIP_OK(hipModuleLoadData(&module, code));
  hipFunction_t function;
  HIP_OK(hipModuleGetFunction(&function, module, "run"));
  std::vector<int> values(64);
  for (int at = 0; at < 64; ++at)
    values[at] = at;
  DeviceArray<int> memory(values);
  int *pointer = memory.get();
  void *arguments[] = {&pointer};
  HIP_OK(hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr));
  std::vector<int> got = memory.read();
  for (int at = 0; at < 64; ++at)
    if (got[at] != 3 * at + 1)
      fail("element %d is %d", at, got[at]);
  HIP_OK(hipModuleUnload(module));
  RTC_OK(hiprtcLinkDestroy(state));

  // An undefined symbol.
  RTC_OK(hiprtcLinkCreate(0, nullptr, nullptr, &state));
  char junk[] = "not bitcode";
  RTC_OK(hiprtcLinkAddData(state, HIPRTC_JIT_INPUT_LLVM_BITCODE, junk, sizeof junk, "junk", 0, nullptr, nullptr));
  if (hiprtcLinkComplete(state, &code, &bytes) != HIPRTC_ERROR_LINKING)
    fail("junk was linked");
  RTC_OK(hiprtcLinkDestroy(state));
  return pass();
}
