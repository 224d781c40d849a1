// Reads a clock of the device, waits for a line of input, and reads again: a replay cannot give the first result twice.
#include "check.h"

EXAMPLE("undetermined");

// A single reading may be the same twice; a hash of many is not.
__global__ void read_clock(unsigned long long *time) {
  unsigned long long hash = 0;
  for (int i = 0; i < 20000; ++i)
    hash = hash * 6364136223846793005u + wall_clock64();
  *time = hash;
}

int main() {
  DeviceArray<unsigned long long> time(1);
  read_clock<<<1, 1>>>(time.get());
  time.read();
  std::printf("read a clock\n");
  std::fflush(stdout);
  std::getchar();
  unsigned long long value;
  if (hipMemcpy(&value, time.get(), sizeof value, hipMemcpyDeviceToHost) == hipSuccess)
    fail("the session goes on");
  std::printf("lost as expected\n");
  return pass();
}
