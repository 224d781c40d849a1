// Forks after using HIP. The argument selects what the child does: `use` HIP itself, or just `exit`.
#include "check.h"

#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

EXAMPLE("fork");

__global__ void add(int *data, int value) { data[threadIdx.x] += value; }

static void expect_all(const char *who, const DeviceArray<int> &data, int wanted) {
  for (int value : data.read())
    if (value != wanted)
      fail("%s sees %d, not %d", who, value, wanted);
}

int main(int argc, char **argv) {
  bool child_uses_hip = argc > 1 && std::strcmp(argv[1], "use") == 0;
  DeviceArray<int> data(std::vector<int>(64, 1));
  add<<<1, 64>>>(data.get(), 1);
  expect_all("the parent, before,", data, 2);
  std::fflush(stdout);
  for (int time = 0; time < 2; ++time) {
    pid_t child = fork();
    if (child < 0)
      fail("fork failed");
    if (child == 0) {
      if (child_uses_hip) {
        DeviceArray<int> own(std::vector<int>(64, 100));
        add<<<1, 64>>>(own.get(), 11);
        expect_all("the child", own, 111);
        std::printf("child %d is right\n", time);
      }
      std::exit(0);
    }
    // Both while the child runs and after it has exited.
    add<<<1, 64>>>(data.get(), 1);
    expect_all("the parent, meanwhile,", data, 3 + 2 * time);
    int status = 0;
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
      fail("the child ended with status %x", static_cast<unsigned>(status));
    add<<<1, 64>>>(data.get(), 1);
    expect_all("the parent, after,", data, 4 + 2 * time);
  }
  return pass();
}
