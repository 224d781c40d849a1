// One thread queues more launches than a stream can hold, behind a kernel that only another thread's copy can end. If the worker
// stopped reading because of the full stream, the copy would never arrive and this program would deadlock.
#include "check.h"

#include <atomic>
#include <chrono>
#include <thread>

EXAMPLE("flood");

__global__ void wait_for(volatile int *flag) {
  while (*flag == 0)
    __builtin_amdgcn_s_sleep(8);
}

__global__ void bump(int *count) {
  if (threadIdx.x == 0)
    *count += 1;
}

int main() {
  constexpr int LAUNCHES = 100000;
  DeviceArray<int> flag(std::vector<int>{0}), count(std::vector<int>{0});
  hipStream_t flooded, other;
  HIP_OK(hipStreamCreateWithFlags(&flooded, hipStreamNonBlocking));
  HIP_OK(hipStreamCreateWithFlags(&other, hipStreamNonBlocking));
  wait_for<<<1, 64, 0, flooded>>>(flag.get());
  std::atomic<int> posted{0};
  std::thread thread([&] {
    for (int i = 0; i < LAUNCHES; ++i, ++posted)
      bump<<<1, 64, 0, flooded>>>(count.get());
    HIP_OK(hipGetLastError());
  });
  // Wait until the thread is blocked by the full stream. If it is merely slow, the test is weaker but does not fail.
  for (int before = -1; posted != before && posted != LAUNCHES;) {
    before = posted;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  for (int i = 0; i < 100; ++i)
    HIP_OK(hipStreamSynchronize(other));
  HIP_FAILS(hipErrorNotReady, hipStreamQuery(flooded));
  int one = 1;
  HIP_OK(hipMemcpyAsync(flag.get(), &one, sizeof one, hipMemcpyHostToDevice, other));
  HIP_OK(hipStreamSynchronize(other));
  thread.join();
  HIP_OK(hipStreamSynchronize(flooded));
  if (count.read()[0] != LAUNCHES)
    fail("%d of %d launches ran", count.read()[0], LAUNCHES);
  HIP_OK(hipStreamDestroy(flooded));
  HIP_OK(hipStreamDestroy(other));
  return pass();
}
