// Large copies on a busy stream: they wait for earlier work on their own stream and on the null stream, and later work waits
// for them. Copies beyond the end of memory are rejected.
#include "check.h"

EXAMPLE("copies_in_order");

constexpr size_t COUNT = 1 << 18;

// Runs long enough that a copy which does not wait would finish first.
__global__ void slowly(unsigned *data, unsigned value) {
  unsigned state = value;
  for (int i = 0; i < 20000; ++i)
    state = state * 1664525u + 1013904223u;
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < COUNT; i += gridDim.x * blockDim.x)
    data[i] = (state == 12345u ? 1u : 0u) + value;
}

__global__ void add(unsigned *data, unsigned value) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < COUNT; i += gridDim.x * blockDim.x)
    data[i] += value;
}

static void expect(const std::vector<unsigned> &data, unsigned value, const char *what) {
  for (unsigned word : data)
    if (word != value && word != value + 1)
      fail("%s: found %u, not %u", what, word, value);
}

int main() {
  hipStream_t blocking, apart;
  HIP_OK(hipStreamCreate(&blocking));
  HIP_OK(hipStreamCreateWithFlags(&apart, hipStreamNonBlocking));
  DeviceArray<unsigned> data(COUNT);
  std::vector<unsigned> host(COUNT);
  const size_t bytes = data.bytes();

  for (unsigned turn = 1; turn <= 3; ++turn) {
    const unsigned value = turn * 1000;
    slowly<<<4, 64, 0, apart>>>(data.get(), value);
    HIP_OK(hipMemcpyWithStream(host.data(), data.get(), bytes, hipMemcpyDeviceToHost, apart));
    expect(host, value, "a read behind a kernel of its stream");

    slowly<<<4, 64>>>(data.get(), value + 10);
    HIP_OK(hipMemcpyWithStream(host.data(), data.get(), bytes, hipMemcpyDeviceToHost, blocking));
    expect(host, value + 10, "a read on a blocking stream behind a kernel of the null stream");

    slowly<<<4, 64, 0, blocking>>>(data.get(), value + 20);
    HIP_OK(hipMemcpy(host.data(), data.get(), bytes, hipMemcpyDeviceToHost));
    expect(host, value + 20, "a read on the null stream behind a kernel of a blocking one");

    slowly<<<4, 64, 0, apart>>>(data.get(), value + 30);
    std::fill(host.begin(), host.end(), value + 40);
    HIP_OK(hipMemcpyAsync(data.get(), host.data(), bytes, hipMemcpyHostToDevice, apart));
    std::fill(host.begin(), host.end(), 0);
    add<<<4, 64, 0, apart>>>(data.get(), 2);
    HIP_OK(hipMemcpyWithStream(host.data(), data.get(), bytes, hipMemcpyDeviceToHost, apart));
    expect(host, value + 42, "a write between two kernels");
  }
  std::vector<unsigned> too_much(2 * COUNT);
  if (hipMemcpy(too_much.data(), data.get(), too_much.size() * 4, hipMemcpyDeviceToHost) == hipSuccess)
    fail("more was read than there is");
  return pass();
}
