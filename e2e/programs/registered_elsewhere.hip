// Registered memory whose host address is in use in the session process: it gets another device address, and kernels that use the
// host address fault. The argument is the worker's process ID; the session processes are its children.
#include "check.h"

#include <cstring>
#include <dirent.h>
#include <string>
#include <sys/mman.h>

EXAMPLE("registered_elsewhere");

__global__ void add(int *data, int count, int value) {
  for (int i = threadIdx.x; i < count; i += blockDim.x)
    data[i] += value;
}

static int parent_of(int process) {
  std::FILE *file = std::fopen(("/proc/" + std::to_string(process) + "/stat").c_str(), "r");
  int parent = 0;
  if (file) {
    // The process name in parentheses may contain any character, so search for the last parenthesis.
    char line[1000] = {};
    if (std::fgets(line, sizeof line, file))
      if (char *end = std::strrchr(line, ')'))
        std::sscanf(end, ") %*c %d", &parent);
    std::fclose(file);
  }
  return parent;
}

// Maps pages here at an address that is in use in another process.
static int *same_address_as(int process, size_t bytes) {
  std::FILE *maps = std::fopen(("/proc/" + std::to_string(process) + "/maps").c_str(), "r");
  char line[1000];
  while (maps && std::fgets(line, sizeof line, maps)) {
    unsigned long start = 0, end = 0;
    char access[8] = {};
    if (std::sscanf(line, "%lx-%lx %7s", &start, &end, access) != 3 || access[0] != 'r' || end - start < bytes)
      continue;
    void *made = mmap(reinterpret_cast<void *>(start), bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (made != MAP_FAILED) {
      std::fclose(maps);
      return static_cast<int *>(made);
    }
  }
  fail("no address of process %d is free here", process);
}

int main(int argc, char **argv) {
  if (argc < 2)
    fail("usage: registered_elsewhere WORKER_PID");
  HIP_OK(hipFree(nullptr));
  int process = 0;
  DIR *all = opendir("/proc");
  while (dirent *entry = readdir(all))
    if (int found = std::atoi(entry->d_name); found > 0 && parent_of(found) == std::atoi(argv[1]))
      process = found;
  closedir(all);
  if (!process)
    fail("the worker has no session process");
  constexpr int count = 1000;
  constexpr size_t bytes = 4096;
  int *data = same_address_as(process, bytes) + 3;
  for (int i = 0; i < count; ++i)
    data[i] = i;
  HIP_OK(hipHostRegister(data, count * sizeof(int), hipHostRegisterDefault));
  int *seen = nullptr;
  HIP_OK(hipHostGetDevicePointer(reinterpret_cast<void **>(&seen), data, 0));
  if (seen == data)
    fail("the device address equals the host address, which should be in use");
  if (reinterpret_cast<size_t>(seen) % 4096 != reinterpret_cast<size_t>(data) % 4096)
    fail("the address is aligned in another way");
  for (int turn = 1; turn <= 3; ++turn) {
    add<<<1, 64>>>(seen, count, 100);
    HIP_OK(hipDeviceSynchronize());
    for (int i = 0; i < count; ++i)
      if (data[i] != i + turn * 101 - 1)
        fail("turn %d: element %d is %d", turn, i, data[i]);
    for (int i = 0; i < count; ++i)
      data[i] += 1;
  }
  int *device = nullptr;
  HIP_OK(hipMalloc(reinterpret_cast<void **>(&device), count * sizeof(int)));
  HIP_OK(hipMemcpyAsync(device, data, count * sizeof(int), hipMemcpyHostToDevice, nullptr));
  add<<<1, 64>>>(device, count, 7);
  HIP_OK(hipMemcpyAsync(data, device, count * sizeof(int), hipMemcpyDeviceToHost, nullptr));
  HIP_OK(hipDeviceSynchronize());
  for (int i = 0; i < count; ++i)
    if (data[i] != i + 310)
      fail("element %d was copied as %d", i, data[i]);
  // A kernel that uses the host address: an error, and no memory is changed.
  add<<<1, 64>>>(data, count, 1);
  if (hipError_t result = hipDeviceSynchronize(); result != hipErrorIllegalAddress)
    fail("a kernel with the host's address ends with %s", hipGetErrorName(result));
  if (data[5] != 315)
    fail("a kernel wrote to an address it does not have");
  return pass();
}
