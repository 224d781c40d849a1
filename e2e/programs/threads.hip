// One thread waits for a kernel that only a copy from another thread can end, while three more threads make round trips.
// If a waiting thread blocked others, this program would deadlock.
#include "check.h"

#include <atomic>
#include <thread>

EXAMPLE("threads");

__global__ void wait_for(volatile int *flag) {
  while (*flag == 0) {
    __builtin_amdgcn_s_sleep(8);
  }
}

__global__ void add(int *data) { data[threadIdx.x] += 1; }

static hipStream_t new_stream() {
  hipStream_t stream;
  HIP_OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  return stream;
}

static void travel(hipStream_t waiting, int *data) {
  hipStream_t stream = new_stream();
  HIP_OK(hipMemsetAsync(data, 0, 64 * sizeof *data, stream));
  int host[64];
  for (int round = 1; round <= 50; ++round) {
    add<<<1, 64, 0, stream>>>(data);
    HIP_OK(hipMemcpyAsync(host, data, sizeof host, hipMemcpyDeviceToHost, stream));
    HIP_OK(hipStreamSynchronize(stream));
    for (int value : host)
      if (value != round)
        fail("in round %d a thread saw %d", round, value);
    HIP_FAILS(hipErrorNotReady, hipStreamQuery(waiting));
  }
  HIP_OK(hipStreamDestroy(stream));
}

int main() {
  DeviceArray<int> flag(std::vector<int>{0}), first(64), second(64), third(64);
  hipStream_t waiting = new_stream(), signalling = new_stream();
  wait_for<<<1, 64, 0, waiting>>>(flag.get());
  HIP_OK(hipGetLastError());
  std::atomic<bool> synchronized{false};
  std::thread waiter([&] {
    HIP_OK(hipDeviceSynchronize());
    synchronized = true;
  });
  std::vector<std::thread> travellers;
  for (int *data : {first.get(), second.get(), third.get()})
    travellers.emplace_back(travel, waiting, data);
  for (std::thread &traveller : travellers)
    traveller.join();
  if (synchronized)
    fail("the waiting thread did not wait");
  int one = 1;
  HIP_OK(hipMemcpyAsync(flag.get(), &one, sizeof one, hipMemcpyHostToDevice, signalling));
  HIP_OK(hipStreamSynchronize(signalling));
  waiter.join();
  return pass();
}
