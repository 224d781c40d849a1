// Compiles a file at run time and prints the result: rtc_source FILE [OPTION...].
#include "check.h"

#include <hip/hiprtc.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <string>

EXAMPLE("rtc_source");

int main(int argc, char **argv) {
  if (argc < 2)
    fail("usage: rtc_source FILE [OPTION...]");
  std::ifstream file(argv[1]);
  std::stringstream text;
  text << file.rdbuf();
  std::string source = text.str();
  hiprtcProgram program;
  if (hiprtcCreateProgram(&program, source.c_str(), "source.hip", 0, nullptr, nullptr) != HIPRTC_SUCCESS)
    fail("no program");
  // Opens the session here, so that the time below is only the compiler's.
  int devices = 0;
  HIP_OK(hipGetDeviceCount(&devices));
  std::printf("compiling\n");
  std::fflush(stdout);
  auto begin = std::chrono::steady_clock::now();
  hiprtcResult result = hiprtcCompileProgram(program, argc - 2, const_cast<const char **>(argv + 2));
  std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  size_t bytes = 0;
  hiprtcGetProgramLogSize(program, &bytes);
  std::string log(bytes, ' ');
  hiprtcGetProgramLog(program, log.data());
  std::printf("result %d after %.1f ms\n%s\n", static_cast<int>(result), took.count(), log.c_str());
  return result == HIPRTC_SUCCESS ? pass() : 1;
}
