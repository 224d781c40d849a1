// What a program costs from far away: starting, a training step, polling, many launches, weights, a broken connection.
#include "command.h"

#include <cstring>
#include <map>
#include <utility>
#include <unistd.h>

__global__ void tiny(float *out, float value, int index) {
  if (index < 0)
    out[-index] = value;
}

__global__ void accumulate(float *loss, const float *input) { loss[0] += input[0]; }

// A program with many kernels.
template <int Number> __global__ void numbered(float *out) {
  if (threadIdx.x == 0)
    out[Number] = Number;
}

template <int... Numbers>
static void launch_numbered(float *out, hipStream_t stream, std::integer_sequence<int, Numbers...>) {
  (numbered<Numbers><<<1, 64, 0, stream>>>(out), ...);
  HIP_OK(hipGetLastError());
}

constexpr int KERNELS = 50;

// The first call of all: connecting and being greeted.
static Answer connect() {
  int64_t start = now();
  int count = 0;
  HIP_OK(hipGetDeviceCount(&count));
  if (count < 1)
    fail("there is no device");
  return {now() - start};
}

// What a program makes before it computes: buffers that are cleared, streams, kernels that are each launched once.
static Answer set_up(int64_t buffers, int64_t streams) {
  int64_t start = now();
  std::vector<hipStream_t> made(streams);
  for (hipStream_t &stream : made)
    HIP_OK(hipStreamCreate(&stream));
  std::vector<float *> memory(buffers);
  for (float *&buffer : memory) {
    HIP_OK(hipMalloc(&buffer, 1 << 16));
    HIP_OK(hipMemsetAsync(buffer, 0, 1 << 16, made[0]));
  }
  launch_numbered(memory[0], made[0], std::make_integer_sequence<int, KERNELS>());
  int64_t posted = now() - start;
  float last = 0;
  HIP_OK(hipMemcpyAsync(&last, memory[0] + KERNELS - 1, sizeof last, hipMemcpyDeviceToHost, made[0]));
  HIP_OK(hipStreamSynchronize(made[0]));
  if (last != KERNELS - 1)
    fail("the last kernel left %f", last);
  return {posted, now() - start};
}

// The shape of a training step: many launches, events that are recorded and polled now and then, a few small uploads, and
// at the end the one number that the program wants to see.
static Answer step(int64_t steps, int64_t launches) {
  constexpr int EVENTS = 10, INPUTS = 3;
  static hipStream_t stream;
  static std::vector<hipEvent_t> events;
  static float *memory, *host;
  static float expected = 0;
  if (!memory) {
    HIP_OK(hipStreamCreate(&stream));
    events.resize(EVENTS);
    for (hipEvent_t &event : events)
      HIP_OK(hipEventCreateWithFlags(&event, hipEventDisableTiming));
    HIP_OK(hipMalloc(&memory, 1 << 16));
    HIP_OK(hipMemset(memory, 0, 1 << 16));
    host = static_cast<float *>(std::calloc(1, 1 << 16));
    HIP_OK(hipDeviceSynchronize());
  }
  Answer times;
  for (int64_t turn = 0; turn < steps; ++turn) {
    int64_t start = now();
    for (int input = 0; input < INPUTS; ++input) {
      host[1024 * (1 + input)] = static_cast<float>(turn % 3 + input);
      HIP_OK(hipMemcpyAsync(memory + 1024 * (1 + input), host + 1024 * (1 + input), 4096, hipMemcpyHostToDevice, stream));
      accumulate<<<1, 1, 0, stream>>>(memory, memory + 1024 * (1 + input));
      expected += static_cast<float>(turn % 3 + input);
    }
    for (int64_t i = 0; i < launches; ++i) {
      tiny<<<1, 64, 0, stream>>>(memory, 1.0f, 1);
      if (i % (launches / EVENTS) == 0) {
        int64_t at = i / (launches / EVENTS) % EVENTS;
        HIP_OK(hipEventRecord(events[at], stream));
        for (hipEvent_t event : events) {
          hipError_t state = hipEventQuery(event);
          if (state != hipSuccess && state != hipErrorNotReady)
            fail("an event has failed: %s", hipGetErrorString(state));
        }
      }
    }
    float loss = -1;
    HIP_OK(hipMemcpyAsync(&loss, memory, sizeof loss, hipMemcpyDeviceToHost, stream));
    HIP_OK(hipStreamSynchronize(stream));
    times.push_back(now() - start);
    if (loss != expected)
      fail("the loss is %f and should be %f after %lld steps", loss, expected, static_cast<long long>(turn + 1));
    for (hipEvent_t event : events)
      HIP_OK(hipEventQuery(event));
  }
  return times;
}

// Waits for work by asking again and again whether it is done: how often was asked, and the time.
static Answer poll(int64_t count, bool by_stream) {
  static hipStream_t stream;
  static hipEvent_t event;
  static float *memory;
  if (!memory) {
    HIP_OK(hipStreamCreate(&stream));
    HIP_OK(hipEventCreate(&event));
    HIP_OK(hipMalloc(&memory, 1 << 16));
    HIP_OK(hipStreamSynchronize(stream));
  }
  int64_t start = now(), polls = 0;
  for (int64_t i = 0; i < count; ++i) {
    tiny<<<1, 64, 0, stream>>>(memory, 1.0f, 1);
    HIP_OK(hipEventRecord(event, stream));
    hipError_t state;
    do {
      state = by_stream ? hipStreamQuery(stream) : hipEventQuery(event);
      ++polls;
    } while (state == hipErrorNotReady);
    HIP_OK(state);
  }
  return {polls, now() - start};
}

static Answer pairs(int64_t count) {
  int64_t start = now();
  for (int64_t i = 0; i < count; ++i) {
    void *memory;
    HIP_OK(hipMalloc(&memory, 4096));
    HIP_OK(hipFree(memory));
  }
  int64_t taken = now() - start;
  HIP_OK(hipDeviceSynchronize());
  return {taken};
}

// Many launches and one wait: the calling thread's part, and all of it.
static Answer storm(int64_t count) {
  static float *memory = [] {
    float *made;
    HIP_OK(hipMalloc(&made, 4096));
    tiny<<<1, 64>>>(made, 1.0f, 1);
    HIP_OK(hipDeviceSynchronize());
    return made;
  }();
  int64_t start = now();
  for (int64_t i = 0; i < count; ++i)
    tiny<<<1, 64>>>(memory, 1.0f, 1);
  int64_t posted = now() - start;
  HIP_OK(hipDeviceSynchronize());
  return {posted, now() - start};
}

// Bytes that no compressor shortens and that are the same in every run.
static void fill(std::vector<uint64_t> &words, uint64_t seed) {
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (uint64_t &word : words) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    word = state;
  }
}

// Uploads as many tensors, and looks at the middle of each.
static Answer weights(int64_t bytes, int64_t count) {
  std::vector<uint64_t> host(bytes / 8);
  std::vector<char *> tensors(count);
  int64_t taken = 0;
  for (int64_t i = 0; i < count; ++i) {
    fill(host, i + 1);
    HIP_OK(hipMalloc(&tensors[i], bytes));
    int64_t start = now();
    HIP_OK(hipMemcpy(tensors[i], host.data(), bytes, hipMemcpyHostToDevice));
    taken += now() - start;
  }
  for (int64_t i = 0; i < count; ++i) {
    fill(host, i + 1);
    uint64_t word = 0;
    HIP_OK(hipMemcpy(&word, tensors[i] + bytes / 16 * 8, 8, hipMemcpyDeviceToHost));
    if (word != host[bytes / 16])
      fail("tensor %lld arrived wrong", static_cast<long long>(i));
  }
  return {taken};
}

// There and back again, and that every byte survived.
static Answer transfer(int64_t bytes) {
  static std::map<int64_t, char *> memory;
  std::vector<uint64_t> host(bytes / 8), back(bytes / 8);
  fill(host, 99);
  char *&device = memory[bytes];
  if (!device)
    HIP_OK(hipMalloc(&device, bytes));
  int64_t start = now();
  HIP_OK(hipMemcpy(device, host.data(), bytes, hipMemcpyHostToDevice));
  HIP_OK(hipMemcpy(back.data(), device, bytes, hipMemcpyDeviceToHost));
  int64_t taken = now() - start;
  if (host != back)
    fail("the bytes that came back are not those that went");
  return {taken};
}

// One copy, which waits until every byte has arrived. The buffers are kept and were touched before.
static Answer copy(int64_t bytes, bool up, bool shrinks) {
  static std::vector<uint64_t> host;
  static std::map<int64_t, char *> memory;
  static bool shrunk = false;
  if (static_cast<int64_t>(host.size() * 8) < bytes || shrunk != shrinks) {
    host.resize(bytes / 8);
    fill(host, 7);
    for (uint64_t &word : host)
      word &= shrinks ? 0xff : ~uint64_t{0};
    shrunk = shrinks;
  }
  char *&device = memory[bytes];
  if (!device)
    HIP_OK(hipMalloc(&device, bytes));
  int64_t start = now();
  if (up)
    HIP_OK(hipMemcpy(device, host.data(), bytes, hipMemcpyHostToDevice));
  else
    HIP_OK(hipMemcpy(host.data(), device, bytes, hipMemcpyDeviceToHost));
  return {now() - start};
}

// Waiting calls for so many milliseconds: how many.
static Answer hammer(int64_t milliseconds) {
  static hipStream_t stream = [] {
    hipStream_t made;
    HIP_OK(hipStreamCreate(&made));
    HIP_OK(hipStreamSynchronize(made));
    return made;
  }();
  int64_t end = now() + milliseconds * 1'000'000, count = 0;
  for (; now() < end; ++count)
    HIP_OK(hipStreamSynchronize(stream));
  return {count};
}

extern "C" void **__hipRegisterFatBinary(const void *data);
extern "C" void __hipRegisterFunction(void **modules, const void *host, char *device, const char *name, unsigned threads,
                                      void *thread, void *block, dim3 *block_dim, dim3 *grid_dim, int *warp);

// A program as large as PyTorch: so many kernels registered before main, one of them launched.
static Answer registration(int64_t count, const std::string &path) {
  FILE *file = std::fopen(path.c_str(), "rb");
  if (!file)
    fail("%s cannot be read", path.c_str());
  static std::vector<char> image;
  char block[4096];
  for (size_t read; (read = std::fread(block, 1, sizeof block, file)) > 0;)
    image.insert(image.end(), block, block + read);
  std::fclose(file);
  static struct {
    uint32_t magic = 0x48495046, version = 1;
    const void *binary = nullptr;
    void *unused = nullptr;
  } wrapper;
  wrapper.binary = image.data();
  std::vector<std::string> names(count);
  for (int64_t i = 0; i < count; ++i)
    names[i] = i == count / 2 ? "empty" : "_ZN2at6native13kernel_numberEi_" + std::to_string(i);
  char *stubs = static_cast<char *>(std::malloc(count * 16));
  int64_t start = now();
  void **modules = __hipRegisterFatBinary(&wrapper);
  for (int64_t i = 0; i < count; ++i)
    __hipRegisterFunction(modules, stubs + 16 * i, names[i].data(), names[i].c_str(), -1, nullptr, nullptr, nullptr,
                          nullptr, nullptr);
  int64_t registered = now() - start;
  start = now();
  HIP_OK(hipLaunchKernel(stubs + 16 * (count / 2), dim3(1), dim3(64), nullptr, 0, nullptr));
  HIP_OK(hipDeviceSynchronize());
  return {registered, now() - start};
}

__global__ void scatter(uint64_t *words, uint64_t count, uint64_t seed) {
  for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    words[i] = (i + seed) * 0x9e3779b97f4a7c15u ^ (i >> 7);
}

static uint64_t *state_words;
static uint64_t state_count;

// Device memory whose content follows from a formula.
static Answer fill(int64_t bytes) {
  state_count = bytes / sizeof(uint64_t);
  HIP_OK(hipMalloc(&state_words, bytes));
  scatter<<<1024, 256>>>(state_words, state_count, 7);
  HIP_OK(hipDeviceSynchronize());
  return {};
}

// Compares a thousand words of it.
static Answer verify() {
  for (uint64_t at = 0; at < 1000; ++at) {
    uint64_t i = at * (state_count / 1000), found = 0;
    HIP_OK(hipMemcpy(&found, state_words + i, sizeof found, hipMemcpyDeviceToHost));
    if (found != ((i + 7) * 0x9e3779b97f4a7c15u ^ (i >> 7)))
      fail("word %llu is wrong", static_cast<unsigned long long>(i));
  }
  return {};
}

int main() {
  return serve([](const std::string &name, Words &words) -> Answer {
    if (name == "connect")
      return connect();
    if (name == "setup") {
      int64_t buffers = words.number(), streams = words.number();
      return set_up(buffers, streams);
    }
    if (name == "step") {
      int64_t steps = words.number(), launches = words.number();
      return step(steps, launches);
    }
    if (name == "fill")
      return fill(words.number());
    if (name == "verify")
      return verify();
    if (name == "poll_event" || name == "poll_stream")
      return poll(words.number(), name == "poll_stream");
    if (name == "pairs")
      return pairs(words.number());
    if (name == "storm")
      return storm(words.number());
    if (name == "weights") {
      int64_t bytes = words.number(), count = words.number();
      return weights(bytes, count);
    }
    if (name == "upload" || name == "download")
      return copy(words.number(), name == "upload", false);
    if (name == "upload_sparse")
      return copy(words.number(), true, true);
    if (name == "transfer")
      return transfer(words.number());
    if (name == "hammer")
      return hammer(words.number());
    if (name == "register") {
      int64_t count = words.number();
      return registration(count, words.text());
    }
    fail("there is no command %s", name.c_str());
  });
}
