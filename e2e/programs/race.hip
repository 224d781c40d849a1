// Sums 256 numbers in local memory; `racy` omits the barrier in the loop.
#include "check.h"

#include <cstring>

EXAMPLE("race");

template <bool Waits> __global__ void sum(const int *in, int *out) {
  __shared__ int part[256];
  int i = static_cast<int>(threadIdx.x);
  part[i] = in[i];
  __syncthreads();
  for (int step = 128; step > 0; step /= 2) {
    if (i < step)
      part[i] += part[i + step];
    if (Waits)
      __syncthreads();
  }
  if (i == 0)
    *out = part[0];
}

int main(int count, char **arguments) {
  bool racy = count > 1 && std::strcmp(arguments[1], "racy") == 0;
  std::vector<int> ones(256, 1);
  DeviceArray<int> in(ones), out(std::vector<int>(1));
  if (racy)
    sum<false><<<1, 256>>>(in.get(), out.get());
  else
    sum<true><<<1, 256>>>(in.get(), out.get());
  HIP_OK(hipDeviceSynchronize());
  if (!racy && out.read()[0] != 256)
    fail("the sum is %d", out.read()[0]);
  return pass();
}
