// Streams that run at the same time, events that order them, and elapsed time.
#include "check.h"

EXAMPLE("streams_events");

__global__ void multiply_add(unsigned *values, int count, unsigned factor, unsigned term) {
  int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count)
    values[i] = values[i] * factor + term;
}

// Waits until another kernel sets the flag, but never longer than `ticks`.
__global__ void wait_for_flag(int *flag, int *seen, long long ticks) {
  long long start = wall_clock64();
  do {
    if (__hip_atomic_load(flag, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) != 0) {
      *seen = 1;
      return;
    }
    __builtin_amdgcn_s_sleep(8);
  } while (wall_clock64() - start < ticks);
  *seen = 0;
}

__global__ void raise_flag(int *flag) { __hip_atomic_store(flag, 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT); }

// A kernel in one stream waits for a kernel that is launched later in another.
static void streams_overlap() {
  hipStream_t waiting, raising;
  HIP_OK(hipStreamCreateWithFlags(&waiting, hipStreamNonBlocking));
  HIP_OK(hipStreamCreateWithFlags(&raising, hipStreamNonBlocking));
  int kilohertz = 0;
  HIP_OK(hipDeviceGetAttribute(&kilohertz, hipDeviceAttributeWallClockRate, 0));
  if (kilohertz <= 0)
    fail("the wall clock rate is %d kHz", kilohertz);
  DeviceArray<int> flag(std::vector<int>{0}), seen(std::vector<int>{0});
  wait_for_flag<<<1, 1, 0, waiting>>>(flag.get(), seen.get(), 5000ll * kilohertz);
  raise_flag<<<1, 1, 0, raising>>>(flag.get());
  HIP_OK(hipGetLastError());
  HIP_OK(hipStreamSynchronize(raising));
  HIP_OK(hipStreamSynchronize(waiting));
  if (seen.read()[0] != 1)
    fail("two streams did not run at the same time");
  HIP_OK(hipStreamDestroy(waiting));
  HIP_OK(hipStreamDestroy(raising));
}

// Copy in, compute and copy out on two streams; the second stream waits for an event of the first.
static void events_order_streams() {
  const int count = 50000;
  const size_t bytes = count * sizeof(unsigned);
  unsigned *host = nullptr, *device = nullptr;
  HIP_OK(hipHostMalloc(reinterpret_cast<void **>(&host), bytes, hipHostMallocDefault));
  HIP_OK(hipMalloc(&device, bytes));
  hipStream_t first, second;
  HIP_OK(hipStreamCreate(&first));
  HIP_OK(hipStreamCreate(&second));
  hipEvent_t start, handed_over, stop;
  HIP_OK(hipEventCreate(&start));
  HIP_OK(hipEventCreate(&handed_over));
  HIP_OK(hipEventCreate(&stop));
  for (int i = 0; i < count; ++i)
    host[i] = static_cast<unsigned>(i);

  unsigned grid = blocks_for(count, 256);
  HIP_OK(hipEventRecord(start, first));
  HIP_OK(hipMemcpyAsync(device, host, bytes, hipMemcpyHostToDevice, first));
  for (int round = 0; round < 8; ++round)
    multiply_add<<<grid, 256, 0, first>>>(device, count, 3u, 1u);
  HIP_OK(hipEventRecord(handed_over, first));
  HIP_OK(hipStreamWaitEvent(second, handed_over, 0));
  for (int round = 0; round < 8; ++round)
    multiply_add<<<grid, 256, 0, second>>>(device, count, 5u, 7u);
  HIP_OK(hipMemcpyAsync(host, device, bytes, hipMemcpyDeviceToHost, second));
  HIP_OK(hipEventRecord(stop, second));
  HIP_OK(hipEventSynchronize(stop));

  for (int i = 0; i < count; ++i) {
    unsigned wanted = static_cast<unsigned>(i);
    for (int round = 0; round < 8; ++round)
      wanted = wanted * 3u + 1u;
    for (int round = 0; round < 8; ++round)
      wanted = wanted * 5u + 7u;
    if (host[i] != wanted)
      fail("value %d is %u, not %u", i, host[i], wanted);
  }
  HIP_OK(hipEventQuery(start));
  HIP_OK(hipEventQuery(stop));
  HIP_OK(hipStreamQuery(second));
  float until_handed_over = -1.0f, whole = -1.0f;
  HIP_OK(hipEventElapsedTime(&until_handed_over, start, handed_over));
  HIP_OK(hipEventElapsedTime(&whole, start, stop));
  if (!(until_handed_over > 0.0f && whole > until_handed_over && whole < 60000.0f))
    fail("the elapsed times are inconsistent: %g ms of %g ms", static_cast<double>(until_handed_over), static_cast<double>(whole));

  HIP_OK(hipEventDestroy(start));
  HIP_OK(hipEventDestroy(handed_over));
  HIP_OK(hipEventDestroy(stop));
  HIP_OK(hipStreamDestroy(first));
  HIP_OK(hipStreamDestroy(second));
  HIP_OK(hipFree(device));
  HIP_OK(hipHostFree(host));
}

static void host_functions_run_in_order() {
  hipStream_t stream;
  HIP_OK(hipStreamCreate(&stream));
  DeviceArray<unsigned> value(std::vector<unsigned>{20});
  unsigned copied = 0, in_callback = 0;
  multiply_add<<<1, 1, 0, stream>>>(value.get(), 1, 2u, 2u);
  HIP_OK(hipMemcpyAsync(&copied, value.get(), sizeof copied, hipMemcpyDeviceToHost, stream));
  struct Seen {
    unsigned *copied, *in_callback;
  } seen = {&copied, &in_callback};
  HIP_OK(hipLaunchHostFunc(
      stream,
      [](void *data) {
        Seen *seen = static_cast<Seen *>(data);
        *seen->in_callback = *seen->copied + 1;
      },
      &seen));
  HIP_OK(hipStreamSynchronize(stream));
  if (copied != 42 || in_callback != 43)
    fail("the copy brought %u and the host function saw %u", copied, in_callback);
  HIP_OK(hipStreamDestroy(stream));
}

int main() {
  streams_overlap();
  events_order_streams();
  host_functions_run_in_order();
  return pass();
}
