// Global device variables: initialized, copied, addressed, and changed by kernels.
#include "check.h"

EXAMPLE("globals_symbols");

__device__ int counter = 40;
__device__ float table[16];
__constant__ float coefficients[4] = {1.0f, 2.0f, 3.0f, 4.0f};
struct Settings {
  int scale;
  double shift;
};
__constant__ Settings settings;
__device__ static unsigned char marks[3] = {7, 8, 9};

__global__ void count_up() { atomicAdd(&counter, 1); }

__global__ void fill_table() {
  int i = static_cast<int>(threadIdx.x);
  table[i] = coefficients[i % 4] * static_cast<float>(settings.scale) + static_cast<float>(settings.shift) +
             static_cast<float>(marks[i % 3]);
}

int main() {
  // A variable starts with the value it is given in the source.
  int value = 0;
  HIP_OK(hipMemcpyFromSymbol(&value, HIP_SYMBOL(counter), sizeof value));
  if (value != 40)
    fail("the counter starts at %d, not at 40", value);
  count_up<<<2, 32>>>();
  HIP_OK(hipMemcpyFromSymbol(&value, HIP_SYMBOL(counter), sizeof value));
  if (value != 104)
    fail("the counter is %d, not 104", value);

  // It has an address and a size, and plain copies reach it too.
  void *address = nullptr;
  size_t size = 0;
  HIP_OK(hipGetSymbolAddress(&address, HIP_SYMBOL(counter)));
  HIP_OK(hipGetSymbolSize(&size, HIP_SYMBOL(counter)));
  if (size != sizeof(int))
    fail("the counter has %zu bytes", size);
  value = -5;
  HIP_OK(hipMemcpy(address, &value, sizeof value, hipMemcpyHostToDevice));
  count_up<<<1, 5>>>();
  HIP_OK(hipMemcpyFromSymbol(&value, HIP_SYMBOL(counter), sizeof value));
  if (value != 0)
    fail("the counter is %d, not 0", value);
  HIP_OK(hipGetSymbolSize(&size, HIP_SYMBOL(table)));
  if (size != sizeof(float) * 16)
    fail("the table has %zu bytes", size);

  // Constants can be set as a whole, in part, and in the order of a stream.
  Settings host_settings = {10, 0.5};
  HIP_OK(hipMemcpyToSymbol(HIP_SYMBOL(settings), &host_settings, sizeof host_settings));
  float pair[2] = {30.0f, 40.0f};
  HIP_OK(hipMemcpyToSymbol(HIP_SYMBOL(coefficients), pair, sizeof pair, 2 * sizeof(float), hipMemcpyHostToDevice));
  hipStream_t stream;
  HIP_OK(hipStreamCreate(&stream));
  unsigned char mark = 100;
  HIP_OK(hipMemcpyToSymbolAsync(HIP_SYMBOL(marks), &mark, 1, 1, hipMemcpyHostToDevice, stream));
  fill_table<<<1, 16, 0, stream>>>();
  float got[16];
  HIP_OK(hipMemcpyFromSymbolAsync(got, HIP_SYMBOL(table), sizeof got, 0, hipMemcpyDeviceToHost, stream));
  HIP_OK(hipStreamSynchronize(stream));
  HIP_OK(hipStreamDestroy(stream));
  const float wanted_coefficients[4] = {1.0f, 2.0f, 30.0f, 40.0f};
  const float wanted_marks[3] = {7.0f, 100.0f, 9.0f};
  for (int i = 0; i < 16; ++i) {
    float wanted = wanted_coefficients[i % 4] * 10.0f + 0.5f + wanted_marks[i % 3];
    if (got[i] != wanted)
      fail("table[%d] is %g, not %g", i, static_cast<double>(got[i]), static_cast<double>(wanted));
  }
  return pass();
}
