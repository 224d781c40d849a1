// Launches kernels after main: in atexit handlers and in destructors of static objects that were constructed before or after the
// program's GPU code was registered.
#include "check.h"

#include <cstdlib>
#include <unistd.h>

EXAMPLE("late_launch");

__global__ void add(int *value, int amount) { *value += amount; }

static int *value = nullptr;

static void launch(const char *where, hipStream_t stream) {
  static int expected = 0;
  expected += 7;
  add<<<1, 1, 0, stream>>>(value, 7);
  hipError_t launched = hipGetLastError();
  int seen = -1;
  hipError_t copied = hipMemcpyWithStream(&seen, value, sizeof seen, hipMemcpyDeviceToHost, stream);
  std::printf("%s=%s %s %s\n", where, hipGetErrorName(launched), hipGetErrorName(copied),
              seen == expected ? "right" : "wrong");
  std::fflush(stdout);
}

struct Late {
  const char *name;
  explicit Late(const char *name) : name(name) {}
  ~Late() { launch(name, nullptr); }
};

// Constructed before the GPU code is registered, and so destroyed after it is unregistered.
__attribute__((init_priority(101))) static Late oldest("oldest");
static Late usual("usual");

int main(int argc, char **) {
  HIP_OK(hipMalloc(&value, sizeof *value));
  HIP_OK(hipMemset(value, 0, sizeof *value));
  if (argc > 1) {
    // The first launch is here, so the GPU code is not loaded yet.
    return 0;
  }
  launch("main", nullptr);
  static Late youngest("youngest");
  std::atexit([] { launch("atexit", nullptr); });
  std::atexit([] { launch("thread stream", hipStreamPerThread); });
  return 0;
}
