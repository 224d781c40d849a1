// Dynamic local memory (LDS), up to the maximum of a workgroup.
#include "check.h"

EXAMPLE("dynamic_lds");

// Static and dynamic local memory in one kernel; the static part comes first.
__global__ void reverse(const int *in, int *out, int count) {
  extern __shared__ int buffer[];
  __shared__ int shift;
  int item = static_cast<int>(threadIdx.x);
  if (item == 0)
    shift = static_cast<int>(blockIdx.x);
  for (int k = item; k < count; k += static_cast<int>(blockDim.x))
    buffer[k] = in[k];
  __syncthreads();
  for (int k = item; k < count; k += static_cast<int>(blockDim.x))
    out[blockIdx.x * static_cast<unsigned>(count) + static_cast<unsigned>(k)] = buffer[count - 1 - k] + shift;
}

// Two arrays in one dynamic block, one after the other.
__global__ void two_views(double *out, int count) {
  extern __shared__ double doubles[];
  auto *bytes = reinterpret_cast<unsigned char *>(doubles + count);
  int item = static_cast<int>(threadIdx.x);
  doubles[item] = item * 0.5;
  bytes[item] = static_cast<unsigned char>(item * 3);
  __syncthreads();
  int other = count - 1 - item;
  out[item] = doubles[other] + bytes[other];
}

int main() {
  hipDeviceProp_t properties;
  HIP_OK(hipGetDeviceProperties(&properties, 0));
  // All local memory except what `shift` uses, in allocation granules.
  const int most = static_cast<int>((properties.sharedMemPerBlock - 512) / sizeof(int));
  for (int count : {1, 1000, most}) {
    std::vector<int> values(static_cast<size_t>(count));
    for (int k = 0; k < count; ++k)
      values[static_cast<size_t>(k)] = k * 3 + 1;
    DeviceArray<int> in(values), out(2 * values.size());
    size_t bytes = values.size() * sizeof(int);
    HIP_OK(hipFuncSetAttribute(reinterpret_cast<const void *>(reverse), hipFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(bytes)));
    reverse<<<2, 256, bytes>>>(in.get(), out.get(), count);
    HIP_OK(hipGetLastError());
    std::vector<int> got = out.read();
    for (int block = 0; block < 2; ++block)
      for (int k = 0; k < count; ++k)
        if (int wanted = (count - 1 - k) * 3 + 1 + block, it = got[static_cast<size_t>(block * count + k)]; it != wanted)
          fail("%d words: block %d has %d at %d, not %d", count, block, it, k, wanted);
  }
  const int items = 192;
  DeviceArray<double> out(items);
  two_views<<<1, items, items * (sizeof(double) + 1)>>>(out.get(), items);
  std::vector<double> got = out.read();
  for (int item = 0; item < items; ++item) {
    int other = items - 1 - item;
    double wanted = other * 0.5 + static_cast<unsigned char>(other * 3);
    if (got[static_cast<size_t>(item)] != wanted)
      fail("item %d has %g, not %g", item, got[static_cast<size_t>(item)], wanted);
  }
  // One byte more than the device has.
  reverse<<<1, 64, static_cast<unsigned>(properties.sharedMemPerBlock)>>>(nullptr, nullptr, 0);
  if (hipError_t error = hipGetLastError(); error == hipSuccess)
    fail("more local memory than there is was accepted");
  HIP_OK(hipDeviceSynchronize());
  return pass();
}
