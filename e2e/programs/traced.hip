// Makes known HIP calls and prints how often it called each function, for tests of tracing.
//   traced work|exit|child|abort
#include "check.h"

#include <map>
#include <mutex>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

EXAMPLE("traced");

static std::mutex lock;
static std::map<std::string, int> calls;

// Calls and counts.
#define SEEN(function, ...)                                                                                            \
  do {                                                                                                                 \
    {                                                                                                                  \
      std::lock_guard<std::mutex> held(lock);                                                                          \
      calls[#function]++;                                                                                              \
    }                                                                                                                  \
    HIP_OK(function(__VA_ARGS__));                                                                                     \
  } while (0)

__global__ void scale(float *data, float factor, int count) {
  int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) data[i] *= factor;
}

static constexpr int COUNT = 1 << 16;
static constexpr size_t BYTES = COUNT * sizeof(float);

static void launch(float *data, hipStream_t stream) {
  {
    std::lock_guard<std::mutex> held(lock);
    calls["hipLaunchKernel"]++;
  }
  scale<<<COUNT / 256, 256, 0, stream>>>(data, 2.0f, COUNT);
}

static void work(int launches) {
  std::vector<float> host(COUNT, 1.0f);
  float *data = nullptr;
  hipStream_t stream;
  SEEN(hipMalloc, reinterpret_cast<void **>(&data), BYTES);
  SEEN(hipStreamCreate, &stream);
  SEEN(hipMemcpyAsync, data, host.data(), BYTES, hipMemcpyHostToDevice, stream);
  for (int i = 0; i < launches; i++) {
    launch(data, stream);
    SEEN(hipStreamSynchronize, stream);
  }
  SEEN(hipMemsetAsync, data, 0, BYTES, stream);
  SEEN(hipMemcpy, host.data(), data, BYTES, hipMemcpyDeviceToHost);
  SEEN(hipStreamSynchronize, stream);
  SEEN(hipStreamDestroy, stream);
  SEEN(hipFree, data);
}

static void say() {
  for (const auto &[name, count] : calls) std::printf("%s %d\n", name.c_str(), count);
  std::fflush(stdout);
}

// Ends the process from a nested call while another thread is running.
static void leave() {
  std::thread([] {
    for (;;) pause();
  }).detach();
  say();
  std::exit(3);
}

int main(int argc, char **argv) {
  std::string mode = argc > 1 ? argv[1] : "work";
  work(3);
  std::thread other([] { work(4); });
  other.join();
  if (mode == "exit") leave();
  if (mode == "child") {
    pid_t child = fork();
    if (child == 0) {
      calls.clear();
      work(2);
      say();
      std::exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) fail("the child ended with %d", status);
    std::printf("child %d\n", child);
    work(1);
  }
  if (mode == "abort") {
    // More calls than fit any trace buffer.
    for (int i = 0; i < 2000; i++) SEEN(hipGetDevice, &argc);
    say();
    std::abort();
  }
  say();
  return 0;
}
