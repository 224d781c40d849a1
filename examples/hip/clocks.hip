// Device clocks: they never go backwards, and the wall clock has the rate that the device reports.
#include "check.h"

#include <chrono>

EXAMPLE("clocks");

__global__ void order(long long *out, unsigned *backward) {
  unsigned item = blockIdx.x * blockDim.x + threadIdx.x;
  long long cycles = clock64(), wall = wall_clock64();
  for (int k = 0; k < 50; ++k) {
    long long next_cycles = clock64(), next_wall = wall_clock64();
    if (next_cycles < cycles || next_wall < wall)
      atomicAdd(backward, 1u);
    cycles = next_cycles;
    wall = next_wall;
  }
  out[2 * item] = cycles;
  out[2 * item + 1] = wall;
}

__global__ void now(long long *out) { *out = wall_clock64(); }

// Waits for `ticks` of the wall clock.
__global__ void wait(long long ticks, long long *out) {
  long long start = wall_clock64(), cycles = clock64();
  while (wall_clock64() - start < ticks)
    ;
  out[0] = wall_clock64() - start;
  out[1] = clock64() - cycles;
}

int main() {
  int rate = 0;
  HIP_OK(hipDeviceGetAttribute(&rate, hipDeviceAttributeWallClockRate, 0));
  if (rate <= 0)
    fail("the wall clock's rate is %d kHz", rate);
  const unsigned count = 4 * 64;
  DeviceArray<long long> times(2 * count);
  DeviceArray<unsigned> backward(std::vector<unsigned>(1, 0));
  order<<<4, 64>>>(times.get(), backward.get());
  if (unsigned times_back = backward.read()[0]; times_back != 0)
    fail("a clock went back %u times", times_back);
  for (long long time : times.read())
    if (time <= 0)
      fail("a clock reads %lld", time);

  // Host times taken just outside and just inside the two device readings bound the time that passed on the device.
  using Clock = std::chrono::steady_clock;
  DeviceArray<long long> reading(2);
  auto outer = Clock::now();
  now<<<1, 1>>>(reading.get());
  long long first = reading.read()[0];
  auto inner = Clock::now();
  while (Clock::now() - inner < std::chrono::milliseconds(100))
    ;
  auto inner_end = Clock::now();
  now<<<1, 1>>>(reading.get());
  long long second = reading.read()[0];
  auto outer_end = Clock::now();
  auto ticks = [rate](auto time) { return std::chrono::duration<double, std::milli>(time).count() * rate; };
  double passed = static_cast<double>(second - first);
  // Tolerance of a thousandth, because the clocks are independent.
  if (passed < ticks(inner_end - inner) * 0.999 || passed > ticks(outer_end - outer) * 1.001)
    fail("%.0f ticks passed on the device while %.0f to %.0f passed here", passed, ticks(inner_end - inner),
         ticks(outer_end - outer));

  long long wanted = rate * 5ll;
  auto start = Clock::now();
  wait<<<1, 64>>>(wanted, reading.get());
  std::vector<long long> waited = reading.read();
  double here = ticks(Clock::now() - start);
  if (waited[0] < wanted || static_cast<double>(waited[0]) > here * 1.001)
    fail("a wait of %lld ticks took %lld there and %.0f here", wanted, waited[0], here);
  if (waited[1] <= 0)
    fail("the cycle counter stood still");
  return pass();
}
