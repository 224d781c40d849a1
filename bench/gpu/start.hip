// A program with 50 kernels: the time until each has run once.
//
//   connect   ns of the first call of all
//   start     ns until all kernels were launched and have ended; the second time they are all loaded
#include "portable.h"

#include <utility>

constexpr int kernels = 50, width = 256;

// The constant differs, so each is a kernel of its own.
template <int number> __global__ void numbered(int rounds, const unsigned *in, unsigned *out) {
  __shared__ unsigned local[width];
  int thread = static_cast<int>(threadIdx.x);
  local[thread] = in[thread];
  __syncthreads();
  unsigned value = local[(thread + number) % width];
  for (int i = 0; i < rounds; ++i)
    value = value * (2 * number + 1) + static_cast<unsigned>(i ^ number);
  out[number * width + thread] = value;
}

template <int... numbers>
static void launch_all(int rounds, const unsigned *in, unsigned *out, std::integer_sequence<int, numbers...>) {
  (numbered<numbers><<<1, width>>>(rounds, in, out), ...);
  GPU_OK(GPU(GetLastError)());
}

static Answer connect() {
  int64_t start = now();
  int count = 0;
  GPU_OK(GPU(GetDeviceCount)(&count));
  if (count < 1)
    fail("there is no device");
  GPU_OK(GPU(Free)(nullptr));
  return {now() - start};
}

static Answer start() {
  constexpr int rounds = 5;
  static unsigned *in = allocate<unsigned>(width), *out = allocate<unsigned>(kernels * width);
  std::vector<unsigned> host(width), got(kernels * width);
  for (unsigned i = 0; i < width; ++i)
    host[i] = i * 7;
  GPU_OK(GPU(Memcpy)(in, host.data(), width * sizeof(unsigned), GPU(MemcpyHostToDevice)));
  GPU_OK(GPU(DeviceSynchronize)());
  int64_t begin = now();
  launch_all(rounds, in, out, std::make_integer_sequence<int, kernels>());
  GPU_OK(GPU(DeviceSynchronize)());
  int64_t taken = now() - begin;
  GPU_OK(GPU(Memcpy)(got.data(), out, got.size() * sizeof(unsigned), GPU(MemcpyDeviceToHost)));
  for (int number = 0; number < kernels; ++number)
    for (int thread = 0; thread < width; ++thread) {
      unsigned wanted = host[static_cast<size_t>((thread + number) % width)];
      for (int i = 0; i < rounds; ++i)
        wanted = wanted * static_cast<unsigned>(2 * number + 1) + static_cast<unsigned>(i ^ number);
      unsigned found = got[static_cast<size_t>(number * width + thread)];
      if (found != wanted)
        fail("kernel %d left %u in place %d, not %u", number, found, thread, wanted);
    }
  return {taken};
}

int main() {
  return serve([](const std::string &name, Words &) -> Answer {
    if (name == "connect")
      return connect();
    if (name == "start")
      return start();
    fail("there is no command %s", name.c_str());
  });
}
