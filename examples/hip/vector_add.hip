// Adds two vectors whose length is not a multiple of the block size.
#include "check.h"

EXAMPLE("vector_add");

__global__ void add(const int *a, const int *b, int *sum, int count) {
  int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count)
    sum[i] = a[i] + b[i];
}

int main() {
  const int count = 100003;
  std::vector<int> a(count), b(count);
  Random random(1);
  for (int i = 0; i < count; ++i) {
    a[i] = static_cast<int>(random.next() >> 1);
    b[i] = -static_cast<int>(random.next() >> 1);
  }
  DeviceArray<int> device_a(a), device_b(b), device_sum(count);
  HIP_OK(hipMemset(device_sum.get(), 0xff, device_sum.bytes()));
  add<<<blocks_for(count, 256), 256>>>(device_a.get(), device_b.get(), device_sum.get(), count);
  HIP_OK(hipGetLastError());
  std::vector<int> sum = device_sum.read();
  for (int i = 0; i < count; ++i)
    if (sum[i] != a[i] + b[i])
      fail("sum[%d] is %d, not %d", i, sum[i], a[i] + b[i]);
  return pass();
}
