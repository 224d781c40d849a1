// Registered host memory (hipHostRegister): kernels work on it, and on nothing next to it.
#include "check.h"

#include <cstring>

EXAMPLE("registered");

#define HIP_EXPECT(call, wanted)                                                                                       \
  do {                                                                                                                 \
    hipError_t result = (call);                                                                                        \
    if (result != (wanted))                                                                                            \
      fail("%s is %s, not %s", #call, hipGetErrorName(result), hipGetErrorName(wanted));                               \
  } while (0)

__global__ void add(int *data, int count, int value) {
  for (int i = threadIdx.x; i < count; i += blockDim.x)
    data[i] += value;
}

static int *device_pointer(int *host) {
  int *found = nullptr;
  HIP_OK(hipHostGetDevicePointer(reinterpret_cast<void **>(&found), host, 0));
  return found;
}

static void memory_from_malloc_is_shared_while_it_is_registered() {
  constexpr int count = 70000;
  int *data = static_cast<int *>(std::malloc((count + 200) * sizeof(int)));
  // Not page-aligned, and with neighbouring data that the device must not change.
  int *part = data + 101;
  for (int i = 0; i < count + 200; ++i)
    data[i] = i;
  HIP_OK(hipHostRegister(part, count * sizeof(int), hipHostRegisterDefault));
  HIP_EXPECT(hipHostRegister(part, count * sizeof(int), hipHostRegisterDefault), hipErrorHostMemoryAlreadyRegistered);
  HIP_EXPECT(hipHostRegister(part + 5, 4, hipHostRegisterDefault), hipErrorHostMemoryAlreadyRegistered);
  add<<<1, 256>>>(device_pointer(part), count, 1000);
  HIP_OK(hipDeviceSynchronize());
  for (int i = 0; i < count + 200; ++i) {
    int wanted = i >= 101 && i < 101 + count ? i + 1000 : i;
    if (data[i] != wanted)
      fail("element %d is %d, not %d", i - 101, data[i], wanted);
  }
  // The host changes neighbouring data while the device works.
  add<<<1, 256>>>(device_pointer(part), count, 1);
  data[100] = -1;
  part[count] = -2;
  HIP_OK(hipHostUnregister(part));
  if (data[100] != -1 || part[count] != -2 || part[0] != 1102 || part[count - 1] != count + 100 + 1001)
    fail("unregistering did not bring what the device did: %d %d %d", part[0], part[count - 1], data[100]);
  HIP_EXPECT(hipHostUnregister(part), hipErrorHostMemoryNotRegistered);
  int *none = nullptr;
  HIP_EXPECT(hipHostGetDevicePointer(reinterpret_cast<void **>(&none), part, 0), hipErrorInvalidValue);
  // Register the same memory again.
  HIP_OK(hipHostRegister(part, count * sizeof(int), hipHostRegisterMapped));
  add<<<1, 256>>>(device_pointer(part), count, 1);
  HIP_OK(hipStreamSynchronize(nullptr));
  if (part[1] != 1104)
    fail("memory registered again is %d", part[1]);
  HIP_OK(hipHostUnregister(part));
  std::free(data);
}

static void two_that_share_a_page_do_not_disturb_each_other() {
  // On the stack, next to other live data.
  int stack[600];
  for (int i = 0; i < 600; ++i)
    stack[i] = i;
  int *first = stack + 10, *second = stack + 120;
  HIP_OK(hipHostRegister(first, 100 * sizeof(int), hipHostRegisterDefault));
  HIP_OK(hipHostRegister(second, 300 * sizeof(int), hipHostRegisterDefault));
  add<<<1, 64>>>(device_pointer(first), 100, 1000);
  add<<<1, 64>>>(device_pointer(second), 300, 2000);
  HIP_OK(hipDeviceSynchronize());
  HIP_OK(hipHostUnregister(first));
  add<<<1, 64>>>(device_pointer(second), 300, 5000);
  for (int i = 0; i < 100; ++i)
    first[i] += 1;
  HIP_OK(hipDeviceSynchronize());
  for (int i = 0; i < 600; ++i) {
    int wanted = i + (i >= 10 && i < 110 ? 1001 : 0) + (i >= 120 && i < 420 ? 7000 : 0);
    if (stack[i] != wanted)
      fail("element %d of the stack is %d, not %d", i, stack[i], wanted);
  }
  HIP_OK(hipHostUnregister(second));
}

static void nonsense_is_refused() {
  int value = 0;
  HIP_EXPECT(hipHostRegister(nullptr, 10, 0), hipErrorInvalidValue);
  HIP_EXPECT(hipHostRegister(&value, 0, 0), hipErrorInvalidValue);
  HIP_EXPECT(hipHostRegister(&value, 4, 0x4000), hipErrorInvalidValue);
  HIP_EXPECT(hipHostRegister(&value, size_t{1} << 40, 0), hipErrorInvalidValue); // mostly unmapped
  HIP_EXPECT(hipHostUnregister(nullptr), hipErrorInvalidValue);
  HIP_EXPECT(hipHostUnregister(&value), hipErrorHostMemoryNotRegistered);
  void *pointer = nullptr;
  HIP_EXPECT(hipHostGetDevicePointer(&pointer, nullptr, 0), hipErrorInvalidValue);
  HIP_EXPECT(hipHostGetDevicePointer(nullptr, &value, 0), hipErrorInvalidValue);
  HIP_EXPECT(hipHostGetDevicePointer(&pointer, &value, 0), hipErrorInvalidValue);
  unsigned flags = 0;
  HIP_EXPECT(hipHostGetFlags(&flags, &value), hipErrorInvalidValue);
  HIP_EXPECT(hipHostMalloc(nullptr, 10, 0), hipErrorInvalidValue);
  HIP_EXPECT(hipHostMalloc(&pointer, 10, 0x800), hipErrorInvalidValue);
  HIP_EXPECT(hipHostMalloc(&pointer, 10, hipHostMallocCoherent | hipHostMallocNonCoherent), hipErrorInvalidValue);
  const unsigned known[] = {hipHostMallocPortable,      hipHostMallocMapped,   hipHostMallocWriteCombined,
                            hipHostMallocNumaUser,      hipHostMallocCoherent, hipHostMallocNonCoherent,
                            hipHostMallocMapped | hipHostMallocPortable};
  for (unsigned wanted : known) {
    HIP_OK(hipHostMalloc(&pointer, 10, wanted));
    HIP_OK(hipHostGetFlags(&flags, pointer));
    if (flags != wanted)
      fail("flags %x became %x", wanted, flags);
    void *seen = nullptr;
    HIP_OK(hipHostGetDevicePointer(&seen, static_cast<char *>(pointer) + 3, 0));
    if (seen != static_cast<char *>(pointer) + 3)
      fail("a pointer into pinned memory became another");
    HIP_EXPECT(hipHostGetDevicePointer(&seen, pointer, 1), hipErrorInvalidValue);
    HIP_EXPECT(hipHostRegister(pointer, 10, 0), hipErrorHostMemoryAlreadyRegistered);
    hipPointerAttribute_t attributes = {};
    HIP_OK(hipPointerGetAttributes(&attributes, pointer));
    if (attributes.type != hipMemoryTypeHost || attributes.isManaged || attributes.hostPointer != pointer ||
        attributes.devicePointer != pointer)
      fail("pinned memory is not reported as pinned");
    HIP_EXPECT(hipHostFree(static_cast<char *>(pointer) + 1), hipErrorInvalidValue);
    HIP_OK(hipHostFree(pointer));
    HIP_EXPECT(hipHostFree(pointer), hipErrorInvalidValue);
  }
  HIP_OK(hipHostMalloc(&pointer, 0, 0));
  if (pointer)
    fail("a query for nothing returned something");
}

int main() {
  memory_from_malloc_is_shared_while_it_is_registered();
  two_that_share_a_page_do_not_disturb_each_other();
  nonsense_is_refused();
  return pass();
}
