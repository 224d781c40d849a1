// The time of calls: launches, copies, the calls of a training step.
//
//   launch COUNT                     ns in the calling thread for COUNT launches
//   launch_wait COUNT                ns of each of COUNT launches with a wait
//   launch_all COUNT                 ns of COUNT launches with one wait at the end
//   copy up|down pageable|pinned N   ns of one copy of N bytes
//   step STEPS LAUNCHES ELEMENTS     ns of each step: 3 uploads, LAUNCHES launches, one number back
#include "portable.h"

#include <map>

__global__ void tiny(float *out, float value, int index) {
  if (index < 0)
    out[-index] = value;
}

__global__ void accumulate(float *sum, const float *input) { sum[0] += input[0]; }

__global__ void advance(float *weights, int count) {
  int i = global_x();
  if (i < count)
    weights[i] += 1.0f;
}

__global__ void add_last(float *loss, const float *sum, const float *weights, int count) {
  loss[0] = sum[0] + weights[count - 1];
}

static GPU(Stream_t) new_stream() {
  GPU(Stream_t) stream;
  GPU_OK(GPU(StreamCreate)(&stream));
  return stream;
}

static GPU(Stream_t) the_stream() {
  static GPU(Stream_t) stream = new_stream();
  return stream;
}

static GPU(Error_t) launch_tiny() {
  static float *out = allocate<float>(64);
  float value = 1.0f;
  int index = 1;
  void *arguments[] = {&out, &value, &index};
  return GPU(LaunchKernel)(reinterpret_cast<const void *>(tiny), dim3(1), dim3(64), arguments, 0, the_stream());
}

static Answer launch(int64_t count) {
  GPU_OK(launch_tiny());
  GPU_OK(GPU(StreamSynchronize)(the_stream()));
  bool good = true;
  int64_t start = now();
  for (int64_t i = 0; i < count; ++i)
    good &= launch_tiny() == GPU(Success);
  int64_t taken = now() - start;
  if (!good)
    fail("a launch failed");
  GPU_OK(GPU(StreamSynchronize)(the_stream()));
  return {taken};
}

static Answer launch_all(int64_t count) {
  int64_t start = now();
  for (int64_t i = 0; i < count; ++i)
    GPU_OK(launch_tiny());
  GPU_OK(GPU(StreamSynchronize)(the_stream()));
  return {now() - start};
}

static Answer launch_wait(int64_t count) {
  Answer times;
  for (int64_t i = 0; i < count; ++i) {
    int64_t start = now();
    GPU_OK(launch_tiny());
    GPU_OK(GPU(StreamSynchronize)(the_stream()));
    times.push_back(now() - start);
  }
  return times;
}

// Host memory of a kind, kept. The bytes are touched before the first copy.
static char *host_memory(const std::string &kind, size_t bytes) {
  static std::map<std::string, std::pair<char *, size_t>> all;
  auto &[memory, size] = all[kind];
  if (size < bytes) {
    if (kind == "pinned")
      memory = static_cast<char *>(allocate_pinned(bytes));
    else if (kind == "pageable")
      memory = static_cast<char *>(std::malloc(bytes));
    else
      fail("there is no host memory of the kind %s", kind.c_str());
    size = bytes;
    for (size_t i = 0; i < bytes; ++i)
      memory[i] = static_cast<char>(i * 31 >> 3);
  }
  return memory;
}

static Answer copy(bool up, const std::string &kind, int64_t bytes) {
  static std::map<int64_t, char *> device;
  size_t size = static_cast<size_t>(bytes), middle = size / 2;
  char *host = host_memory(kind, size);
  char *&memory = device[bytes];
  if (!memory) {
    memory = allocate<char>(size);
    GPU_OK(GPU(Memcpy)(memory, host, size, GPU(MemcpyHostToDevice)));
  }
  GPU_OK(GPU(DeviceSynchronize)());
  char was[] = {host[0], host[middle], host[size - 1]};
  if (!up)
    host[0] = host[middle] = host[size - 1] = 0x55;
  int64_t start = now();
  if (up)
    GPU_OK(GPU(Memcpy)(memory, host, size, GPU(MemcpyHostToDevice)));
  else
    GPU_OK(GPU(Memcpy)(host, memory, size, GPU(MemcpyDeviceToHost)));
  // A small upload may be posted: it has arrived when a later call has been answered.
  GPU_OK(GPU(DeviceSynchronize)());
  int64_t taken = now() - start;
  if (host[0] != was[0] || host[middle] != was[1] || host[size - 1] != was[2])
    fail("a copy of %zu bytes left other bytes", size);
  return {taken};
}

// The shape of a training step: a few small uploads, many launches, and the one number that the program wants to see.
static Answer step(int64_t steps, int64_t launches, int64_t elements) {
  constexpr int inputs = 3, input_size = 1024;
  static float *weights = nullptr, *loss = nullptr, *input = nullptr;
  static std::vector<float> host(inputs * input_size);
  static double expected = 0.0;
  GPU(Stream_t) stream = the_stream();
  int count = static_cast<int>(elements);
  if (launches <= inputs + 1)
    fail("a step has more than %d launches", inputs + 1);
  if (!weights) {
    size_t size = static_cast<size_t>(elements);
    weights = allocate<float>(size);
    loss = allocate<float>(2);
    input = allocate<float>(inputs * input_size);
    GPU_OK(GPU(MemsetAsync)(weights, 0, size * sizeof(float), stream));
    GPU_OK(GPU(MemsetAsync)(loss, 0, 2 * sizeof(float), stream));
    GPU_OK(GPU(StreamSynchronize)(stream));
  }
  unsigned blocks = static_cast<unsigned>((count + 255) / 256);
  Answer times;
  for (int64_t turn = 0; turn < steps; ++turn) {
    int64_t start = now();
    for (int i = 0; i < inputs; ++i) {
      float *from = host.data() + i * input_size, *to = input + i * input_size;
      from[0] = static_cast<float>(turn % 3 + i);
      expected += static_cast<double>(from[0]);
      GPU_OK(GPU(MemcpyAsync)(to, from, input_size * sizeof(float), GPU(MemcpyHostToDevice), stream));
      accumulate<<<1, 1, 0, stream>>>(loss + 1, to);
    }
    for (int64_t i = 0; i < launches - inputs - 1; ++i, expected += 1.0)
      advance<<<blocks, 256, 0, stream>>>(weights, count);
    add_last<<<1, 1, 0, stream>>>(loss, loss + 1, weights, count);
    GPU_OK(GPU(GetLastError)());
    float seen = -1.0f;
    GPU_OK(GPU(MemcpyAsync)(&seen, loss, sizeof seen, GPU(MemcpyDeviceToHost), stream));
    GPU_OK(GPU(StreamSynchronize)(stream));
    times.push_back(now() - start);
    if (static_cast<double>(seen) != expected)
      fail("the loss is %g and should be %g", static_cast<double>(seen), expected);
  }
  return times;
}

int main() {
  return serve([](const std::string &name, Words &words) -> Answer {
    if (name == "launch")
      return launch(words.number());
    if (name == "launch_wait")
      return launch_wait(words.number());
    if (name == "launch_all")
      return launch_all(words.number());
    if (name == "copy") {
      std::string direction = words.text(), kind = words.text();
      if (direction != "up" && direction != "down")
        fail("there is no direction %s", direction.c_str());
      return copy(direction == "up", kind, words.number());
    }
    if (name == "step") {
      int64_t steps = words.number(), launches = words.number(), elements = words.number();
      return step(steps, launches, elements);
    }
    fail("there is no command %s", name.c_str());
  });
}
