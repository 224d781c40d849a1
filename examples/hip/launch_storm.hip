// Thousands of small launches, each depending on the previous one, so that a lost, repeated or reordered launch is detected.
// The first argument is the number of launches; the default is 10000.
#include "check.h"

EXAMPLE("launch_storm");

constexpr int lanes = 64;

__host__ __device__ inline unsigned long long mix(unsigned long long state, unsigned long long step, unsigned lane) {
  state ^= (step + 1) * 0x9e3779b97f4a7c15ull + lane;
  state ^= state >> 29;
  state *= 0xbf58476d1ce4e5b9ull;
  return state ^ (state >> 32);
}

__global__ void advance(unsigned long long *state, unsigned long long step) {
  state[threadIdx.x] = mix(state[threadIdx.x], step, threadIdx.x);
}

int main(int argc, char **argv) {
  long launches = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 10000;
  if (launches <= 0)
    fail("the number of launches is %ld", launches);
  std::vector<unsigned long long> wanted(lanes, 0);
  DeviceArray<unsigned long long> state(wanted);
  for (long step = 0; step < launches; ++step)
    advance<<<1, lanes>>>(state.get(), static_cast<unsigned long long>(step));
  HIP_OK(hipGetLastError());
  HIP_OK(hipDeviceSynchronize());
  std::vector<unsigned long long> got = state.read();

  for (long step = 0; step < launches; ++step)
    for (unsigned lane = 0; lane < lanes; ++lane)
      wanted[lane] = mix(wanted[lane], static_cast<unsigned long long>(step), lane);
  unsigned long long hash = 0;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (got[lane] != wanted[lane])
      fail("after %ld launches lane %u is %016llx, not %016llx", launches, lane, got[lane], wanted[lane]);
    hash = mix(hash, got[lane], lane);
  }
  std::printf("launches=%ld hash=%016llx\n", launches, hash);
  return pass();
}
