// Frees memory in the destructor of an object that was constructed before the first HIP call, as libraries with caches do.
#include "check.h"

#include <unistd.h>

EXAMPLE("late_free");

struct Cache {
  void *block = nullptr;
  ~Cache() {
    hipError_t freed = hipFree(block);
    std::printf("freed=%s\n", hipGetErrorName(freed));
    std::fflush(stdout);
    if (freed != hipSuccess) {
      _exit(1);
    }
  }
};

static Cache cache;

int main() {
  HIP_OK(hipMalloc(&cache.block, 1 << 20));
  return 0;
}
