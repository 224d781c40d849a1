// Four host threads, each with a private stream, memory and error state.
#include "check.h"

#include <atomic>
#include <thread>

EXAMPLE("host_threads");

constexpr int threads = 4, count = 5000, rounds = 25;

__global__ void advance(unsigned *values, unsigned factor, unsigned term) {
  int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count)
    values[i] = values[i] * factor + term;
}

static void work(unsigned id, std::atomic<int> *ready) {
  HIP_OK(hipSetDevice(0));
  hipStream_t stream;
  HIP_OK(hipStreamCreate(&stream));
  unsigned *values = nullptr;
  HIP_OK(hipMalloc(&values, count * sizeof(unsigned)));
  HIP_OK(hipMemsetAsync(values, 0, count * sizeof(unsigned), stream));

  // Start together. Odd threads make an invalid call; only they see the error.
  ++*ready;
  while (*ready < threads)
    std::this_thread::yield();
  if (id % 2 == 1)
    HIP_FAILS(hipErrorInvalidValue, hipMalloc(static_cast<void **>(nullptr), 16));

  unsigned wanted = 0;
  for (unsigned round = 0; round < rounds; ++round) {
    unsigned factor = 2 * id + 3, term = round + id;
    advance<<<blocks_for(count, 128), 128, 0, stream>>>(values, factor, term);
    wanted = wanted * factor + term;
  }
  std::vector<unsigned> got(count);
  HIP_OK(hipMemcpyAsync(got.data(), values, count * sizeof(unsigned), hipMemcpyDeviceToHost, stream));
  HIP_OK(hipStreamSynchronize(stream));
  for (int i = 0; i < count; ++i)
    if (got[i] != wanted)
      fail("thread %u: value %d is %u, not %u", id, i, got[i], wanted);
  if (id % 2 == 0)
    HIP_OK(hipGetLastError());
  HIP_OK(hipFree(values));
  HIP_OK(hipStreamDestroy(stream));
}

int main() {
  std::atomic<int> ready{0};
  std::vector<std::thread> pool;
  for (unsigned id = 0; id < threads; ++id)
    pool.emplace_back(work, id, &ready);
  for (std::thread &thread : pool)
    thread.join();
  return pass();
}
