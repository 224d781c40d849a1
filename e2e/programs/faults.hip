// Kernels that do what they must not. The argument says which; every answer is printed by its name.
#include "check.h"

#include <cstring>

EXAMPLE("faults");

__global__ void write_out_of_bounds(int *data, long long index) { data[index + threadIdx.x] = 1; }

__global__ void read_through_null(const int *nothing, int *data) { *data = *nothing; }

__global__ void loop_for_ever(volatile int *data) {
  while (*data == 0) {
  }
}

__global__ void well_behaved(int *data) { *data = 42; }

static void tell(const char *what, hipError_t error) {
  std::printf("%s=%s\n", what, hipGetErrorName(error));
  std::fflush(stdout);
}

int main(int argc, char **argv) {
  const char *which = argc > 1 ? argv[1] : "";
  // The other one is below, so that nothing lies behind the one that is overrun.
  int *other = nullptr, *data = nullptr;
  HIP_OK(hipMalloc(&other, 4096));
  HIP_OK(hipMalloc(&data, 4096));
  HIP_OK(hipMemset(data, 0, 4096));
  HIP_OK(hipDeviceSynchronize());
  if (std::strcmp(which, "write") == 0) {
    long long index = 1ll << 36;
    std::printf("address=0x%llx\n", static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(data + index)));
    write_out_of_bounds<<<1, 64>>>(data, index);
  } else if (std::strcmp(which, "overrun") == 0) {
    // The first word behind the allocation.
    std::printf("address=0x%llx\n", static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(data) + 4096));
    write_out_of_bounds<<<1, 1>>>(data, 1024);
  } else if (std::strcmp(which, "null") == 0) {
    std::printf("address=0x0\n");
    read_through_null<<<1, 1>>>(nullptr, data);
  } else if (std::strcmp(which, "endless") == 0) {
    loop_for_ever<<<1, 64>>>(data);
  } else if (std::strcmp(which, "freed") == 0) {
    HIP_OK(hipFree(data));
    std::printf("address=0x%llx\n", static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(data)));
    well_behaved<<<1, 1>>>(data);
  } else {
    fail("there is no fault `%s`", which);
  }
  tell("launch", hipGetLastError());
  tell("synchronize", hipDeviceSynchronize());
  // A device that has faulted stays so: neither new work nor old data can be trusted.
  int host = 0;
  tell("copy", hipMemcpy(&host, other, sizeof host, hipMemcpyDeviceToHost));
  well_behaved<<<1, 1>>>(other);
  (void)hipGetLastError();
  tell("again", hipDeviceSynchronize());
  return 0;
}
