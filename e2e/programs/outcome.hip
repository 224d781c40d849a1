// Ends as its argument selects: `exit N`, `abort`, `signal` (waits for SIGTERM, then exits with 42), `architecture`, `sleep`.
#include "check.h"

#include <csignal>
#include <cstring>
#include <unistd.h>

EXAMPLE("outcome");

static volatile std::sig_atomic_t signalled = 0;

__global__ void nothing() {}

int main(int argc, char **argv) {
  const char *how = argc > 1 ? argv[1] : "";
  nothing<<<1, 1>>>();
  HIP_OK(hipGetLastError());
  HIP_OK(hipDeviceSynchronize());
  if (std::strcmp(how, "exit") == 0 && argc > 2)
    return std::atoi(argv[2]);
  if (std::strcmp(how, "abort") == 0)
    std::abort();
  if (std::strcmp(how, "signal") == 0) {
    std::signal(SIGTERM, [](int) { signalled = 1; });
    std::printf("waiting\n");
    std::fflush(stdout);
    while (!signalled)
      usleep(1000);
    return 42;
  }
  if (std::strcmp(how, "sleep") == 0) {
    std::printf("waiting\n");
    std::fflush(stdout);
    for (;;)
      pause();
  }
  if (std::strcmp(how, "architecture") == 0) {
    hipDeviceProp_t properties;
    HIP_OK(hipGetDeviceProperties(&properties, 0));
    std::printf("architecture=%s\n", properties.gcnArchName);
    return pass();
  }
  fail("there is no outcome `%s`", how);
}
