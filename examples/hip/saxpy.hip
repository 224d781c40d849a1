// y = a * x + y, repeated several times, in a grid-stride loop and in two precisions.
#include "check.h"

EXAMPLE("saxpy");

template <typename T> __global__ void axpy(T a, const T *x, T *y, int count) {
  int stride = static_cast<int>(blockDim.x * gridDim.x);
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < count; i += stride)
    y[i] = a * x[i] + y[i];
}

// The values are small integers, so the result is exact whether or not the compiler uses fused multiply-add.
template <typename T> void check(const char *name) {
  const int count = 65543, rounds = 3;
  std::vector<T> x(count), y(count);
  Random random(2);
  for (int i = 0; i < count; ++i) {
    x[i] = static_cast<T>(random.below(1000)) - 500;
    y[i] = static_cast<T>(random.below(1000));
  }
  DeviceArray<T> device_x(x), device_y(y);
  for (int round = 1; round <= rounds; ++round)
    axpy<T><<<40, 128>>>(static_cast<T>(round), device_x.get(), device_y.get(), count);
  HIP_OK(hipDeviceSynchronize());
  std::vector<T> got = device_y.read();
  for (int i = 0; i < count; ++i) {
    T wanted = 6 * x[i] + y[i];
    if (got[i] != wanted)
      fail("%s: y[%d] is %g, not %g", name, i, static_cast<double>(got[i]), static_cast<double>(wanted));
  }
}

int main() {
  check<float>("float");
  check<double>("double");
  return pass();
}
