// What calls cost: waiting for an answer, posting a launch, moving bytes, making things.
#include "command.h"

#include <cstring>
#include <functional>
#include <map>
#include <unistd.h>

__global__ void tiny(float *out, float value, int index) {
  if (index < 0)
    out[-index] = value;
}

static hipStream_t idle_stream() {
  static hipStream_t stream = [] {
    hipStream_t made;
    HIP_OK(hipStreamCreate(&made));
    HIP_OK(hipStreamSynchronize(made));
    return made;
  }();
  return stream;
}

static float *device_word() {
  static float *memory = [] {
    float *made;
    HIP_OK(hipMalloc(&made, sizeof(float)));
    return made;
  }();
  return memory;
}

// Free memory changes with what other sessions do, so only the worker knows it.
static hipError_t read_free_memory(hipStream_t) {
  size_t free = 0, total = 0;
  hipError_t result = hipMemGetInfo(&free, &total);
  return result == hipSuccess && (free == 0 || free > total) ? hipErrorUnknown : result;
}

// Makes a call `count` times while nothing runs on the stream.
static Answer repeat(int64_t count, hipError_t (*call)(hipStream_t)) {
  hipStream_t stream = idle_stream();
  HIP_OK(call(stream));
  int64_t start = now();
  for (int64_t i = 0; i < count; ++i)
    HIP_OK(call(stream));
  return {now() - start};
}

// The calling thread's part of `count` launches; that they end is waited for outside the time taken.
static Answer launch(int64_t count, bool as_expression) {
  float *out = device_word();
  float value = 1.0f;
  int index = 1;
  void *arguments[] = {&out, &value, &index};
  const void *kernel = reinterpret_cast<const void *>(tiny);
  HIP_OK(hipLaunchKernel(kernel, dim3(1), dim3(64), arguments, 0, nullptr));
  HIP_OK(hipDeviceSynchronize());
  bool good = true;
  int64_t start = now();
  if (as_expression) {
    for (int64_t i = 0; i < count; ++i)
      tiny<<<1, 64>>>(out, value, index);
  } else {
    for (int64_t i = 0; i < count; ++i)
      good &= hipLaunchKernel(kernel, dim3(1), dim3(64), arguments, 0, nullptr) == hipSuccess;
  }
  int64_t taken = now() - start;
  HIP_OK(hipGetLastError());
  if (!good)
    fail("a launch failed");
  HIP_OK(hipDeviceSynchronize());
  return {taken};
}

// Launches after a pause, when whoever sends has gone to sleep: the time of each.
static Answer lone_launch(int64_t count) {
  Answer times;
  for (int64_t i = 0; i < count; ++i) {
    HIP_OK(hipDeviceSynchronize());
    usleep(2000);
    float *out = device_word();
    int64_t start = now();
    tiny<<<1, 64>>>(out, 1.0f, 1);
    times.push_back(now() - start);
    HIP_OK(hipGetLastError());
  }
  HIP_OK(hipDeviceSynchronize());
  return times;
}

// `count` copies of `bytes` bytes one way, and that all have arrived. The buffers are kept and were touched before.
static Answer copy(int64_t bytes, int64_t count, hipMemcpyKind kind) {
  static std::vector<char> host;
  static std::map<int64_t, char *> device;
  size_t size = static_cast<size_t>(bytes);
  if (host.size() < size)
    host.assign(size, 1);
  char *&memory = device[bytes];
  if (!memory) {
    HIP_OK(hipMalloc(&memory, size));
    HIP_OK(hipMemcpy(memory, host.data(), size, hipMemcpyHostToDevice));
  }
  HIP_OK(hipDeviceSynchronize());
  bool up = kind == hipMemcpyHostToDevice;
  void *destination = up ? memory : host.data();
  const void *source = up ? host.data() : memory;
  int64_t start = now();
  for (int64_t i = 0; i < count; ++i)
    HIP_OK(hipMemcpy(destination, source, size, kind));
  // A small upload is posted; it has arrived when a later call has been answered.
  if (up)
    HIP_OK(hipDeviceSynchronize());
  return {now() - start};
}

static hipModule_t load(const std::string &path) {
  hipModule_t module;
  HIP_OK(hipModuleLoad(&module, path.c_str()));
  return module;
}

// Makes `count` of something, and unmakes them if asked to. Nothing here waits unless the calls themselves do.
static Answer make(const std::string &kind, bool unmake, int64_t count, const std::string &code_object) {
  if (kind == "memory") {
    std::vector<void *> made(count);
    for (void *&memory : made)
      HIP_OK(hipMalloc(&memory, 4096));
    for (void *memory : made)
      if (unmake)
        HIP_OK(hipFree(memory));
  } else if (kind == "stream") {
    std::vector<hipStream_t> made(count);
    for (hipStream_t &stream : made)
      HIP_OK(hipStreamCreate(&stream));
    for (hipStream_t stream : made)
      if (unmake)
        HIP_OK(hipStreamDestroy(stream));
  } else if (kind == "event") {
    std::vector<hipEvent_t> made(count);
    for (hipEvent_t &event : made)
      HIP_OK(hipEventCreate(&event));
    for (hipEvent_t event : made)
      if (unmake)
        HIP_OK(hipEventDestroy(event));
  } else if (kind == "module") {
    for (int64_t i = 0; i < count; ++i) {
      hipModule_t module = load(code_object);
      if (unmake)
        HIP_OK(hipModuleUnload(module));
    }
  } else if (kind == "function") {
    hipModule_t module = load(code_object);
    for (int64_t i = 0; i < count; ++i) {
      hipFunction_t function;
      HIP_OK(hipModuleGetFunction(&function, module, "empty"));
    }
  } else if (kind != "nothing") {
    fail("%s is nothing to make", kind.c_str());
  }
  return {count};
}

int main() {
  return serve([](const std::string &name, Words &words) -> Answer {
    if (name == "query")
      return repeat(words.number(), hipStreamQuery);
    if (name == "synchronize")
      return repeat(words.number(), hipStreamSynchronize);
    if (name == "memory_info")
      return repeat(words.number(), read_free_memory);
    if (name == "launch")
      return launch(words.number(), false);
    if (name == "expression")
      return launch(words.number(), true);
    if (name == "lone")
      return lone_launch(words.number());
    if (name == "upload" || name == "download") {
      int64_t bytes = words.number(), count = words.number();
      return copy(bytes, count, name == "upload" ? hipMemcpyHostToDevice : hipMemcpyDeviceToHost);
    }
    if (name == "make" || name == "unmake") {
      std::string kind = words.text();
      int64_t count = words.number();
      return make(kind, name == "unmake", count, words.text());
    }
    fail("there is no command %s", name.c_str());
  });
}
