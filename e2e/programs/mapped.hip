// Pinned host memory that kernels access: each side sees the other's writes at the synchronization points that HIP defines.
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

struct Link {
  Link *next;
  int value;
};

__global__ void follow(Link *const *first, int *sum) {
  int all = 0;
  for (Link *link = *first; link; link = link->next)
    all += link->value;
  *sum = all;
}

// A linked list whose nodes are separate allocations. The device finds each only through the previous one, the first through device memory.
static void addresses_are_found_wherever_they_are_sent() {
  constexpr int count = 40;
  std::vector<Link *> links(count);
  for (Link *&link : links)
    HIP_OK(hipHostMalloc(reinterpret_cast<void **>(&link), sizeof(Link) + 8000, hipHostMallocDefault));
  for (int i = 0; i < count; ++i)
    *links[i] = {i + 1 < count ? links[i + 1] : nullptr, i};
  int *sum = nullptr;
  HIP_OK(hipHostMalloc(reinterpret_cast<void **>(&sum), sizeof *sum, hipHostMallocDefault));
  Link **first = nullptr;
  HIP_OK(hipMalloc(reinterpret_cast<void **>(&first), sizeof *first));
  HIP_OK(hipMemcpy(first, &links[0], sizeof *first, hipMemcpyHostToDevice));
  follow<<<1, 1>>>(first, sum);
  HIP_OK(hipDeviceSynchronize());
  if (*sum != count * (count - 1) / 2)
    fail("links add up to %d", *sum);
  // Another start, in the middle of a large copy; and another end, appended later.
  Link *late = nullptr;
  HIP_OK(hipHostMalloc(reinterpret_cast<void **>(&late), sizeof *late, hipHostMallocDefault));
  *late = {nullptr, 1000};
  links[count - 1]->next = late;
  Link *table[5000] = {};
  table[4321] = links[10];
  Link **device = nullptr;
  HIP_OK(hipMalloc(reinterpret_cast<void **>(&device), sizeof table));
  HIP_OK(hipMemcpy(device, table, sizeof table, hipMemcpyHostToDevice));
  follow<<<1, 1>>>(device + 4321, sum);
  HIP_OK(hipStreamSynchronize(nullptr));
  if (*sum != count * (count - 1) / 2 - 45 + 1000)
    fail("links from the tenth on add up to %d", *sum);
  for (Link *link : links)
    HIP_OK(hipHostFree(link));
  HIP_OK(hipHostFree(late));
  HIP_OK(hipHostFree(sum));
  HIP_OK(hipFree(first));
  HIP_OK(hipFree(device));
}

// A copy to a buffer is in flight when a kernel first uses the buffer.
static void a_copy_under_way_is_there_before_the_kernel_that_follows_it() {
  constexpr int count = 50000;
  hipStream_t stream;
  HIP_OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  std::vector<int> values(count);
  for (int turn = 0; turn < 5; ++turn) {
    int *buffer = nullptr;
    HIP_OK(hipHostMalloc(reinterpret_cast<void **>(&buffer), count * sizeof(int), hipHostMallocDefault));
    std::fill_n(buffer, count, -1);
    for (int i = 0; i < count; ++i)
      values[i] = turn + i;
    DeviceArray<int> device(values);
    add<<<(count + 255) / 256, 256, 0, stream>>>(device.get(), count, 100);
    HIP_OK(hipMemcpyAsync(buffer, device.get(), count * sizeof(int), hipMemcpyDeviceToHost, stream));
    add<<<(count + 255) / 256, 256, 0, stream>>>(buffer, count, 1000);
    HIP_OK(hipMemcpyAsync(device.get(), buffer, count * sizeof(int), hipMemcpyHostToDevice, stream));
    HIP_OK(hipStreamSynchronize(stream));
    const std::vector<int> back = device.read();
    for (int i = 0; i < count; ++i)
      if (buffer[i] != turn + i + 1100 || back[i] != buffer[i])
        fail("turn %d: element %d is %d here and %d there", turn, i, buffer[i], back[i]);
    HIP_OK(hipHostFree(buffer));
  }
  HIP_OK(hipStreamDestroy(stream));
}

// Pinned memory is host memory: a device reset does not change it.
static void pinned_memory_outlives_a_reset() {
  int *data = nullptr, *managed = nullptr;
  HIP_OK(hipHostMalloc(reinterpret_cast<void **>(&data), 1000 * sizeof(int), hipHostMallocDefault));
  HIP_OK(hipMallocManaged(reinterpret_cast<void **>(&managed), 1000 * sizeof(int), hipMemAttachGlobal));
  std::fill_n(data, 1000, 1);
  std::fill_n(managed, 1000, 1);
  add<<<4, 256>>>(data, 1000, 1);
  add<<<4, 256>>>(managed, 1000, 1);
  HIP_OK(hipDeviceSynchronize());
  HIP_OK(hipDeviceReset());
  for (int i = 0; i < 1000; ++i)
    data[i] += 1;
  add<<<4, 256>>>(data, 1000, 1);
  HIP_OK(hipDeviceSynchronize());
  for (int i = 0; i < 1000; ++i)
    if (data[i] != 4)
      fail("after a reset element %d is %d", i, data[i]);
  HIP_OK(hipHostFree(data));
}

int main() {
  addresses_are_found_wherever_they_are_sent();
  a_copy_under_way_is_there_before_the_kernel_that_follows_it();
  kernels_see_what_the_host_wrote_and_the_host_what_they_wrote();
  a_counter_is_right_after_every_kind_of_synchronisation();
  pinned_memory_outlives_a_reset();
  return pass();
}
