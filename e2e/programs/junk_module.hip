// Tries to load invalid code objects, then continues with valid work.
#include "check.h"

#include <cstring>

EXAMPLE("junk_module");

__global__ void set(int *data) { *data = 42; }

static void tell(const char *what, const std::vector<char> &image) {
  hipModule_t module = nullptr;
  hipError_t error = hipModuleLoadData(&module, image.data());
  std::printf("%s=%s\n", what, hipGetErrorName(error));
}

int main() {
  std::vector<char> image(1 << 16, 0);
  Random random(7);
  for (char &byte : image)
    byte = static_cast<char>(random.next());
  tell("noise", image);
  std::fill(image.begin(), image.end(), 0);
  tell("zeros", image);
  std::memcpy(image.data(), "\x7f" "ELF\x02\x01\x01\x40\x04", 9);
  tell("elf", image);
  std::fill(image.begin(), image.end(), 0);
  std::memcpy(image.data(), "__CLANG_OFFLOAD_BUNDLE__", 24);
  tell("empty_bundle", image);
  std::memset(image.data() + 24, 0x7f, 8);
  tell("bundle", image);
  std::memcpy(image.data(), "CCOB\x02\x00\x01\x00\xff\xff\xff\x7f", 12);
  tell("compressed", image);
  DeviceArray<int> value(1);
  set<<<1, 1>>>(value.get());
  if (value.read()[0] != 42)
    fail("a kernel after refused modules did not run");
  return pass();
}
