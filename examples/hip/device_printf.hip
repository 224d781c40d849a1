// printf in kernels: the text appears on this program's standard output, which it reads back.
#include "check.h"

#include <algorithm>
#include <string>
#include <unistd.h>

EXAMPLE("device_printf");

__global__ void greet() {
  int block = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  printf("block %d thread %d\n", block, thread);
  if (block == 1 && thread == 2)
    printf("%s|%5.2f|%x|%c|%lld|%%|%-4d|%e\n", "text", 3.14159, 48879u, 'z', -1234567890123ll, 7, 12500.0);
}

__global__ void divergent(int *lengths) {
  int thread = static_cast<int>(threadIdx.x);
  if (thread % 2 == 0)
    lengths[thread] = printf("even %d\n", thread);
  else
    lengths[thread] = -7;
}

// Redirects standard output to a file until the end of the scope.
class Captured {
public:
  Captured() {
    std::fflush(stdout);
    file_ = std::tmpfile();
    saved_ = dup(STDOUT_FILENO);
    if (file_ == nullptr || saved_ < 0 || dup2(fileno(file_), STDOUT_FILENO) < 0)
      fail("cannot redirect the standard output");
  }
  // Restores standard output and returns the lines, sorted, because the order of waves is not defined.
  std::vector<std::string> lines() {
    std::fflush(stdout);
    dup2(saved_, STDOUT_FILENO);
    close(saved_);
    std::rewind(file_);
    std::vector<std::string> lines;
    char line[512];
    while (std::fgets(line, sizeof line, file_) != nullptr)
      lines.emplace_back(line);
    std::fclose(file_);
    std::sort(lines.begin(), lines.end());
    return lines;
  }

private:
  std::FILE *file_;
  int saved_;
};

static void expect_lines(std::vector<std::string> got, std::vector<std::string> wanted) {
  std::sort(wanted.begin(), wanted.end());
  for (size_t i = 0; i < std::min(got.size(), wanted.size()); ++i)
    if (got[i] != wanted[i])
      fail("a kernel printed `%s`, not `%s`", got[i].substr(0, got[i].find('\n')).c_str(),
           wanted[i].substr(0, wanted[i].find('\n')).c_str());
  if (got.size() != wanted.size())
    fail("kernels printed %zu lines, not %zu", got.size(), wanted.size());
}

int main() {
  std::vector<std::string> wanted;
  for (int block = 0; block < 2; ++block)
    for (int thread = 0; thread < 3; ++thread)
      wanted.push_back("block " + std::to_string(block) + " thread " + std::to_string(thread) + "\n");
  wanted.push_back("text| 3.14|beef|z|-1234567890123|%|7   |1.250000e+04\n");
  {
    Captured captured;
    greet<<<2, 3>>>();
    hipError_t result = hipDeviceSynchronize();
    std::vector<std::string> lines = captured.lines();
    HIP_OK(result);
    expect_lines(lines, wanted);
  }
  wanted.clear();
  for (int thread = 0; thread < 100; thread += 2)
    wanted.push_back("even " + std::to_string(thread) + "\n");
  DeviceArray<int> lengths(100);
  {
    Captured captured;
    divergent<<<1, 100>>>(lengths.get());
    hipError_t result = hipDeviceSynchronize();
    std::vector<std::string> lines = captured.lines();
    HIP_OK(result);
    expect_lines(lines, wanted);
  }
  std::vector<int> got = lengths.read();
  for (int thread = 0; thread < 100; ++thread)
    if (thread % 2 == 1 ? got[thread] != -7 : got[thread] < 0)
      fail("printf in thread %d returned %d", thread, got[thread]);
  return pass();
}
