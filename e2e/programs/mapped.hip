// Pinned host memory that kernels see: what each side wrote is there for the other at the points HIP names.
#include "check.h"

#include <cstring>

EXAMPLE("mapped");

__global__ void add(int *data, int count, int value) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    data[i] += value;
}

__global__ void count_up(unsigned *counter) { atomicAdd(counter, 1u); }

static void kernels_see_what_the_host_wrote_and_the_host_what_they_wrote() {
  constexpr int count = 100000;
  int *data = nullptr;
  HIP_OK(hipHostMalloc(reinterpret_cast<void **>(&data), count * sizeof *data, hipHostMallocMapped));
  int *seen = nullptr;
  HIP_OK(hipHostGetDevicePointer(reinterpret_cast<void **>(&seen), data, 0));
  if (seen != data)
    fail("pinned memory has two addresses");
  for (int turn = 0; turn < 5; ++turn) {
    for (int i = 0; i < count; ++i)
      data[i] = turn * 1000 + i;
    add<<<(count + 255) / 256, 256>>>(seen, count, 7);
    HIP_OK(hipDeviceSynchronize());
    for (int i = 0; i < count; ++i)
      if (data[i] != turn * 1000 + i + 7)
        fail("turn %d: element %d is %d, not %d", turn, i, data[i], turn * 1000 + i + 7);
  }
  HIP_OK(hipHostFree(data));
}

static void a_counter_is_right_after_every_kind_of_synchronisation() {
  unsigned *counter = nullptr;
  HIP_OK(hipHostMalloc(reinterpret_cast<void **>(&counter), sizeof *counter, hipHostMallocDefault));
  *counter = 10;
  hipStream_t stream;
  HIP_OK(hipStreamCreate(&stream));
  hipEvent_t event;
  HIP_OK(hipEventCreate(&event));
  DeviceArray<int> other(16);
  unsigned wanted = 10;
  auto check = [&](const char *after) {
    if (*counter != wanted)
      fail("after %s the counter is %u, not %u", after, *counter, wanted);
  };
  auto launch = [&](unsigned times = 1) {
    count_up<<<times, 64, 0, stream>>>(counter);
    HIP_OK(hipGetLastError());
    wanted += 64 * times;
  };
  for (int turn = 0; turn < 10; ++turn) {
    launch();
    HIP_OK(hipDeviceSynchronize());
    check("hipDeviceSynchronize");
    launch();
    HIP_OK(hipStreamSynchronize(stream));
    check("hipStreamSynchronize");
    launch();
    HIP_OK(hipEventRecord(event, stream));
    HIP_OK(hipEventSynchronize(event));
    check("hipEventSynchronize");
    launch(20);
    hipError_t state;
    while ((state = hipStreamQuery(stream)) == hipErrorNotReady) {
    }
    HIP_OK(state);
    check("hipStreamQuery");
    launch(20);
    HIP_OK(hipEventRecord(event, stream));
    while ((state = hipEventQuery(event)) == hipErrorNotReady) {
    }
    HIP_OK(state);
    check("hipEventQuery");
    launch();
    int values[16] = {};
    HIP_OK(hipMemcpy(values, other.get(), sizeof values, hipMemcpyDeviceToHost));
    check("hipMemcpy to the host");
    launch();
    HIP_OK(hipMemcpy(other.get(), values, sizeof values, hipMemcpyHostToDevice));
    check("hipMemcpy to the device");
    *counter = wanted = turn;
  }
  HIP_OK(hipEventDestroy(event));
  HIP_OK(hipStreamDestroy(stream));
  HIP_OK(hipHostFree(counter));
}

int main() {
  kernels_see_what_the_host_wrote_and_the_host_what_they_wrote();
  a_counter_is_right_after_every_kind_of_synchronisation();
  return pass();
}
