// Memory shared by host and device is disabled (REMORA_MAPPED=refuse): requests for it fail, and pinned memory serves only for copies.
#include "check.h"

EXAMPLE("unmapped");

#define HIP_EXPECT(call, wanted)                                                                                       \
  do {                                                                                                                 \
    hipError_t result = (call);                                                                                        \
    if (result != (wanted))                                                                                            \
      fail("%s is %s, not %s", #call, hipGetErrorName(result), hipGetErrorName(wanted));                               \
  } while (0)

__global__ void set(int *data, int value) { *data = value; }

int main() {
  void *made = nullptr;
  HIP_EXPECT(hipMallocManaged(&made, 100, hipMemAttachGlobal), hipErrorNotSupported);
  HIP_EXPECT(hipHostMalloc(&made, 100, hipHostMallocMapped), hipErrorNotSupported);
  int value = 3;
  HIP_EXPECT(hipHostRegister(&value, sizeof value, hipHostRegisterMapped), hipErrorNotSupported);
  for (hipDeviceAttribute_t attribute : {hipDeviceAttributeManagedMemory, hipDeviceAttributeCanMapHostMemory}) {
    int can = -1;
    HIP_OK(hipDeviceGetAttribute(&can, attribute, 0));
    if (can != 0)
      fail("the device reports a capability that is disabled");
  }
  int *pinned = nullptr;
  HIP_OK(hipHostMalloc(reinterpret_cast<void **>(&pinned), 4000, hipHostMallocDefault));
  HIP_EXPECT(hipHostGetDevicePointer(&made, pinned, 0), hipErrorNotSupported);
  *pinned = 5;
  DeviceArray<int> device(1);
  HIP_OK(hipMemcpyAsync(device.get(), pinned, sizeof(int), hipMemcpyHostToDevice, nullptr));
  HIP_OK(hipMemcpyAsync(pinned + 1, device.get(), sizeof(int), hipMemcpyDeviceToHost, nullptr));
  HIP_OK(hipDeviceSynchronize());
  if (pinned[1] != 5)
    fail("a copy through pinned memory brought %d", pinned[1]);
  HIP_OK(hipHostRegister(&value, sizeof value, hipHostRegisterDefault));
  HIP_OK(hipHostUnregister(&value));
  // A kernel that uses pinned memory anyway faults.
  set<<<1, 1>>>(pinned, 9);
  HIP_EXPECT(hipDeviceSynchronize(), hipErrorIllegalAddress);
  if (*pinned != 5)
    fail("a kernel wrote to memory it does not see");
  return pass();
}
