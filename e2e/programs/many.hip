// Ten thousand live allocations, hundreds of streams and fifty thousand launches in one session: all work, and afterwards the
// device memory is free again and the process has leaked no resources.
#include "check.h"

#include <cstring>
#include <dirent.h>

EXAMPLE("many");

constexpr int ALLOCATIONS = 10000;
constexpr int STREAMS = 200;
constexpr int LAUNCHES = 50000;

__global__ void bump(int *count) {
  if (threadIdx.x == 0)
    *count += 1;
}

static int entries(const char *folder) {
  DIR *directory = opendir(folder);
  int count = 0;
  while (readdir(directory))
    ++count;
  closedir(directory);
  return count;
}

static long resident_kib() {
  FILE *file = std::fopen("/proc/self/statm", "r");
  long pages = 0, resident = 0;
  if (std::fscanf(file, "%ld %ld", &pages, &resident) != 2)
    fail("/proc/self/statm cannot be read");
  std::fclose(file);
  return resident * 4;
}

// Launches over all streams, then counts.
static void launch(const std::vector<hipStream_t> &streams, int *counts, std::vector<int> &wanted, int launches) {
  for (int i = 0; i < launches; ++i) {
    // Several launches in a row per stream, so that its queue stays busy.
    size_t at = i / 50 % streams.size();
    bump<<<1, 64, 0, streams[at]>>>(counts + at);
    wanted[at] += 1;
  }
  HIP_OK(hipGetLastError());
  HIP_OK(hipDeviceSynchronize());
  std::vector<int> found(streams.size());
  HIP_OK(hipMemcpy(found.data(), counts, found.size() * sizeof(int), hipMemcpyDeviceToHost));
  if (found != wanted)
    fail("launches are missing");
}

int main() {
  size_t free_before = 0, free_after = 0, total = 0;
  HIP_OK(hipMemGetInfo(&free_before, &total));
  {
    std::vector<int *> memory(ALLOCATIONS);
    for (int i = 0; i < ALLOCATIONS; ++i) {
      HIP_OK(hipMalloc(&memory[i], 64));
    }
    for (int i = 0; i < ALLOCATIONS; i += 97) {
      int found = -1;
      HIP_OK(hipMemcpyAsync(memory[i], &i, sizeof i, hipMemcpyHostToDevice, nullptr));
      bump<<<1, 64>>>(memory[i]);
      HIP_OK(hipMemcpy(&found, memory[i], sizeof found, hipMemcpyDeviceToHost));
      if (found != i + 1)
        fail("allocation %d holds %d", i, found);
    }
    for (int *one : memory)
      HIP_OK(hipFree(one));
  }
  DeviceArray<int> counts(std::vector<int>(STREAMS, 0));
  std::vector<int> wanted(STREAMS, 0);
  std::vector<hipStream_t> streams(STREAMS);
  for (int i = 0; i < STREAMS; ++i)
    HIP_OK(hipStreamCreateWithFlags(&streams[i], i % 2 ? hipStreamNonBlocking : hipStreamDefault));
  launch(streams, counts.get(), wanted, LAUNCHES / 2);
  long resident = resident_kib();
  int descriptors = entries("/proc/self/fd"), threads = entries("/proc/self/task");
  launch(streams, counts.get(), wanted, LAUNCHES / 2);
  if (entries("/proc/self/fd") != descriptors || entries("/proc/self/task") != threads)
    fail("descriptors or threads were leaked");
  if (resident_kib() > resident + 4096)
    fail("%ld KiB became %ld", resident, resident_kib());
  for (hipStream_t stream : streams)
    HIP_OK(hipStreamDestroy(stream));
  HIP_OK(hipMemGetInfo(&free_after, &total));
  // The counters (one page) and the program's code are still allocated.
  if (free_before - free_after > (1 << 20))
    fail("%zu bytes are not free again", free_before - free_after);
  return pass();
}
