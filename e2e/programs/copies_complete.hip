// A copy from the host is complete when the call returns, so non-blocking streams see it too. The same holds for a copy to pageable
// host memory, even with an Async function.
#include "check.h"

EXAMPLE("copies_complete");

__device__ int symbol;

__global__ void linger(int *sink, int rounds) {
  int value = threadIdx.x;
  for (int i = 0; i < rounds; ++i)
    value = value * 1664525 + 1013904223;
  sink[threadIdx.x] = value;
}

__global__ void read(const int *from, int *to) { *to = *from; }
__global__ void read_symbol(int *to) { *to = symbol; }

int main() {
  DeviceArray<int> sink(64), source(16), result(1);
  // A stream that is created after the copy.
  int first = 42;
  linger<<<1, 64>>>(sink.get(), 300000);
  HIP_OK(hipMemcpy(source.get(), &first, 4, hipMemcpyHostToDevice));
  hipStream_t apart;
  HIP_OK(hipStreamCreateWithFlags(&apart, hipStreamNonBlocking));
  read<<<1, 1, 0, apart>>>(source.get(), result.get());
  const auto result_is = [&](int value, const char *copy) {
    HIP_OK(hipStreamSynchronize(apart));
    int got = 0;
    HIP_OK(hipMemcpyAsync(&got, result.get(), 4, hipMemcpyDeviceToHost, apart));
    HIP_OK(hipStreamSynchronize(apart));
    if (got != value)
      fail("after %s the kernel saw %d, not %d", copy, got, value);
  };
  result_is(first, "hipMemcpy and the creation of the stream");
  for (int value = 1; value <= 5; ++value) {
    linger<<<1, 64>>>(sink.get(), 300000);
    HIP_OK(hipMemcpy(source.get(), &value, 4, hipMemcpyHostToDevice));
    read<<<1, 1, 0, apart>>>(source.get(), result.get());
    result_is(value, "hipMemcpy");

    int other = value + 100;
    linger<<<1, 64>>>(sink.get(), 300000);
    HIP_OK(hipMemcpyToSymbol(HIP_SYMBOL(symbol), &other, 4));
    read_symbol<<<1, 1, 0, apart>>>(result.get());
    result_is(other, "hipMemcpyToSymbol");

    int third = value + 200;
    linger<<<1, 64>>>(sink.get(), 300000);
    HIP_OK(hipMemcpy2D(source.get(), 4, &third, 4, 4, 1, hipMemcpyHostToDevice));
    read<<<1, 1, 0, apart>>>(source.get(), result.get());
    result_is(third, "hipMemcpy2D");
  }
  for (int value = 1; value <= 5; ++value) {
    HIP_OK(hipMemcpy(source.get(), &value, 4, hipMemcpyHostToDevice));
    linger<<<1, 64, 0, apart>>>(sink.get(), 300000);
    read<<<1, 1, 0, apart>>>(source.get(), result.get());
    volatile int got = 0;
    HIP_OK(hipMemcpyAsync(const_cast<int *>(&got), result.get(), 4, hipMemcpyDeviceToHost, apart));
    if (got != value)
      fail("hipMemcpyAsync returned before memory that is not pinned had %d: %d", value, got);
  }
  HIP_OK(hipStreamDestroy(apart));
  return pass();
}
