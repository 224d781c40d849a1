// Faulting kernels and invalid launches. The argument selects one; the name of every returned error is printed.
#include "check.h"

#include <cassert>
#include <cstring>
#include <functional>
#include <map>
#include <string>

EXAMPLE("faults");

__global__ void write_out_of_bounds(int *data, long long index) { data[index + threadIdx.x] = 1; }

__global__ void read_through_null(const int *nothing, int *data) { *data = *nothing; }

__global__ void loop_for_ever(volatile int *data) {
  while (*data == 0) {
  }
}

__global__ void well_behaved(int *data) { *data = 42; }

__global__ void asserts(int *data, int wanted) {
  assert(data[threadIdx.x] == wanted && "what was expected");
  data[threadIdx.x] = 1;
}

__global__ void aborts(int *data) {
  if (*data == 0)
    abort();
}

// Words that are not an instruction on any of the architectures.
__global__ void unknown_instruction(int *data) {
  *data = 1;
  asm volatile(".long 0xdeadbeef");
  *data = 2;
}

__device__ __noinline__ int descend(volatile int *data, int depth) {
  volatile int local[64];
  for (int k = 0; k < 64; ++k)
    local[k] = depth + k;
  return depth < 0 ? 0 : descend(data, depth + 1) + local[*data & 63];
}

__global__ void recurses_for_ever(int *data) { *data = descend(data, 0); }

// Sleeps in an endless loop.
__global__ void waits_for_ever(volatile int *data) {
  while (__hip_atomic_load(const_cast<int *>(data), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT) == 0)
    __builtin_amdgcn_s_sleep(10);
}

__global__ void with_local_memory(int *data) {
  extern __shared__ int buffer[];
  __shared__ int fixed[64];
  buffer[threadIdx.x] = fixed[63 - threadIdx.x] = data[threadIdx.x];
  __syncthreads();
  data[threadIdx.x] = buffer[63 - threadIdx.x] + fixed[threadIdx.x];
}

__global__ void __launch_bounds__(64) small_groups(int *data) { *data = 1; }

static void tell(const char *what, hipError_t error) {
  std::printf("%s=%s\n", what, hipGetErrorName(error));
  std::fflush(stdout);
}

static void tell_address(const int *address) {
  std::printf("address=0x%llx\n", static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(address)));
}

int main(int argc, char **argv) {
  const char *which = argc > 1 ? argv[1] : "";
  // The other allocation is at a lower address, so that nothing follows the one that is overrun.
  int *other = nullptr, *data = nullptr;
  HIP_OK(hipMalloc(&other, 4096));
  HIP_OK(hipMalloc(&data, 4096));
  HIP_OK(hipMemset(data, 0, 4096));
  HIP_OK(hipDeviceSynchronize());
  void *data_argument[] = {&data};
  auto cooperative = [&](dim3 blocks, dim3 threads) {
    (void)hipLaunchCooperativeKernel(reinterpret_cast<const void *>(well_behaved), blocks, threads, data_argument, 0,
                                     nullptr);
  };
  const std::map<std::string, std::function<void()>> faults = {
      {"write",
       [&] {
         long long index = 1ll << 36;
         tell_address(data + index);
         write_out_of_bounds<<<1, 64>>>(data, index);
       }},
      // The first word past the allocation.
      {"overrun",
       [&] {
         tell_address(data + 1024);
         write_out_of_bounds<<<1, 1>>>(data, 1024);
       }},
      {"null",
       [&] {
         tell_address(nullptr);
         read_through_null<<<1, 1>>>(nullptr, data);
       }},
      {"freed",
       [&] {
         HIP_OK(hipFree(data));
         tell_address(data);
         well_behaved<<<1, 1>>>(data);
       }},
      {"endless", [&] { loop_for_ever<<<1, 64>>>(data); }},
      {"asleep", [&] { waits_for_ever<<<2, 64>>>(data); }},
      {"assert", [&] { asserts<<<1, 64>>>(data, 7); }},
      {"assert holds", [&] { asserts<<<1, 64>>>(data, 0); }},
      {"abort", [&] { aborts<<<1, 1>>>(data); }},
      {"instruction", [&] { unknown_instruction<<<1, 64>>>(data); }},
      {"recursion", [&] { recurses_for_ever<<<1, 1>>>(data); }},
      // Rejected at once, before they reach the device.
      {"local memory", [&] { with_local_memory<<<1, 64, 64 << 10>>>(data); }},
      {"large block", [&] { well_behaved<<<1, 1025>>>(data); }},
      {"flat block", [&] { well_behaved<<<1, dim3(64, 64, 1)>>>(data); }},
      {"empty block", [&] { well_behaved<<<1, dim3(1, 0, 1)>>>(data); }},
      {"empty grid", [&] { well_behaved<<<dim3(1, 1, 0), 1>>>(data); }},
      {"large grid", [&] { well_behaved<<<dim3(1u << 24, 1, 1), 1024>>>(data); }},
      {"launch bounds", [&] { small_groups<<<1, 128>>>(data); }},
      {"cooperative", [&] { cooperative(dim3(1u << 20), dim3(64)); }},
  };
  auto fault = faults.find(which);
  if (fault == faults.end())
    fail("there is no fault `%s`", which);
  (void)hipGetLastError();
  fault->second();
  tell("launch", hipGetLastError());
  tell("synchronize", hipDeviceSynchronize());
  // A fault is sticky: neither new work nor old data can be trusted.
  int host = 0;
  tell("copy", hipMemcpy(&host, other, sizeof host, hipMemcpyDeviceToHost));
  well_behaved<<<1, 1>>>(other);
  (void)hipGetLastError();
  tell("again", hipDeviceSynchronize());
  return 0;
}
