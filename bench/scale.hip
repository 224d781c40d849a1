// What many cost: threads that launch, kernels that are registered, allocations, streams and launches of one session.
#include "command.h"

#include <atomic>
#include <dlfcn.h>
#include <functional>
#include <thread>
#include <time.h>

extern "C" __global__ void count(int *out) {
  if (threadIdx.x == 0)
    *out += 1;
}

__global__ void work(float *data, int rounds) {
  float value = data[blockIdx.x * blockDim.x + threadIdx.x];
  for (int i = 0; i < rounds; ++i)
    value = value * 0.999f + 0.5f;
  data[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

// Runs until someone writes to `flag`.
__global__ void wait_for(volatile int *flag) {
  while (*flag == 0)
    __builtin_amdgcn_s_sleep(8);
}

// The program's own registration goes through here, which shows where its code is.
static const void *own_code = nullptr;
extern "C" void **__hipRegisterFatBinary(const void *wrapper) {
  own_code = wrapper;
  auto next = reinterpret_cast<void **(*)(const void *)>(dlsym(RTLD_NEXT, "__hipRegisterFatBinary"));
  return next(wrapper);
}
extern "C" void __hipRegisterFunction(void **, const void *, char *, const char *, unsigned, void *, void *, void *,
                                      void *, int *);
extern "C" void __hipUnregisterFatBinary(void **);

static int64_t thread_time() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * 1000000000ll + time.tv_nsec;
}

static hipStream_t new_stream() {
  hipStream_t stream;
  HIP_OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  return stream;
}

// `total` launches by `threads` threads, each on a stream of its own: the time until the last was posted, and the processor
// time of all of them. Nothing waits for room: the kernels are counted afterwards.
static Answer launch(int64_t threads, int64_t total) {
  std::vector<std::thread> running;
  std::atomic<int64_t> ready{0}, busy{0}, last{0};
  std::atomic<bool> go{false};
  int64_t each = total / threads;
  for (int64_t i = 0; i < threads; ++i)
    running.emplace_back([&] {
      hipStream_t stream = new_stream();
      int *out;
      HIP_OK(hipMalloc(&out, sizeof *out));
      HIP_OK(hipMemsetAsync(out, 0, sizeof *out, stream));
      HIP_OK(hipStreamSynchronize(stream));
      ready += 1;
      while (!go)
        std::this_thread::yield();
      int64_t start = thread_time();
      for (int64_t n = 0; n < each; ++n)
        count<<<1, 64, 0, stream>>>(out);
      busy += thread_time() - start;
      int64_t end = now(), before = last;
      while (before < end && !last.compare_exchange_weak(before, end)) {
      }
      HIP_OK(hipGetLastError());
      int found = 0;
      HIP_OK(hipMemcpyAsync(&found, out, sizeof found, hipMemcpyDeviceToHost, stream));
      HIP_OK(hipStreamSynchronize(stream));
      if (found != each)
        fail("%d of %lld launches of a thread ran", found, static_cast<long long>(each));
      HIP_OK(hipFree(out));
      HIP_OK(hipStreamDestroy(stream));
    });
  while (ready != threads)
    std::this_thread::yield();
  int64_t start = now();
  go = true;
  for (std::thread &thread : running)
    thread.join();
  return {last - start, busy};
}

// How long `calls` waits for an idle stream take: alone, and while `waiting` other threads wait for kernels that do not end.
static Answer beside(int64_t calls, int64_t waiting, const std::string &how) {
  hipStream_t mine = new_stream(), signalling = new_stream();
  HIP_OK(hipStreamSynchronize(mine));
  auto measure = [&] {
    int64_t start = now();
    for (int64_t i = 0; i < calls; ++i)
      HIP_OK(hipStreamSynchronize(mine));
    return now() - start;
  };
  int64_t alone = measure();
  int *flag;
  HIP_OK(hipMalloc(&flag, sizeof *flag));
  HIP_OK(hipMemset(flag, 0, sizeof *flag));
  std::atomic<int64_t> started{0};
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < waiting; ++i)
    threads.emplace_back([&] {
      hipStream_t stream = new_stream();
      wait_for<<<1, 64, 0, stream>>>(flag);
      started += 1;
      std::vector<char> host(4 << 20);
      void *memory;
      HIP_OK(hipMalloc(&memory, host.size()));
      if (how == "synchronize")
        HIP_OK(hipStreamSynchronize(stream));
      else
        HIP_OK(hipMemcpyWithStream(host.data(), memory, host.size(), hipMemcpyDeviceToHost, stream));
      HIP_OK(hipFree(memory));
      HIP_OK(hipStreamDestroy(stream));
    });
  while (started != waiting)
    std::this_thread::yield();
  int64_t together = measure();
  int one = 1;
  HIP_OK(hipMemcpyAsync(flag, &one, sizeof one, hipMemcpyHostToDevice, signalling));
  HIP_OK(hipStreamSynchronize(signalling));
  for (std::thread &thread : threads)
    thread.join();
  HIP_OK(hipFree(flag));
  HIP_OK(hipStreamDestroy(mine));
  HIP_OK(hipStreamDestroy(signalling));
  return {alone, together};
}

// `posted` launches wait behind a kernel that does not end; meanwhile another thread waits for its own stream: its time.
static Answer flood(int64_t posted) {
  hipStream_t flooded = new_stream(), mine = new_stream();
  int *flag, *out;
  HIP_OK(hipMalloc(&flag, sizeof *flag));
  HIP_OK(hipMalloc(&out, sizeof *out));
  HIP_OK(hipMemset(flag, 0, sizeof *flag));
  HIP_OK(hipMemset(out, 0, sizeof *out));
  HIP_OK(hipDeviceSynchronize());
  std::atomic<int64_t> done{0};
  wait_for<<<1, 64, 0, flooded>>>(flag);
  std::thread thread([&] {
    for (int64_t i = 0; i < posted; ++i) {
      count<<<1, 64, 0, flooded>>>(out);
      done = i + 1;
    }
  });
  // Until it has posted all, or gets no further.
  for (int64_t before = -1; done != posted && done != before;) {
    before = done;
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  int64_t got = done;
  int64_t start = now();
  HIP_OK(hipStreamSynchronize(mine));
  int one = 1;
  HIP_OK(hipMemcpyAsync(flag, &one, sizeof one, hipMemcpyHostToDevice, mine));
  HIP_OK(hipStreamSynchronize(mine));
  int64_t taken = now() - start;
  thread.join();
  HIP_OK(hipStreamSynchronize(flooded));
  int found = 0;
  HIP_OK(hipMemcpy(&found, out, sizeof found, hipMemcpyDeviceToHost));
  if (found != posted)
    fail("%d of %lld launches ran", found, static_cast<long long>(posted));
  HIP_OK(hipFree(flag));
  HIP_OK(hipFree(out));
  HIP_OK(hipStreamDestroy(flooded));
  HIP_OK(hipStreamDestroy(mine));
  return {taken, got};
}

// Registers `kernels` kernels in `binaries` images, launches the first and the last, forgets them all: the
// thread's processor time of each.
static Answer registered(int64_t binaries, int64_t kernels) {
  std::vector<char> stubs(kernels);
  std::vector<void **> cookies(binaries);
  int64_t start = thread_time();
  int64_t each = kernels / binaries;
  for (int64_t i = 0; i < binaries; ++i) {
    cookies[i] = reinterpret_cast<void **(*)(const void *)>(dlsym(RTLD_NEXT, "__hipRegisterFatBinary"))(own_code);
    for (int64_t k = i * each; k < (i + 1 == binaries ? kernels : (i + 1) * each); ++k)
      __hipRegisterFunction(cookies[i], &stubs[k], const_cast<char *>("count"), "count", -1u, nullptr, nullptr, nullptr,
                            nullptr, nullptr);
  }
  int64_t taken = thread_time() - start;
  int *out;
  HIP_OK(hipMalloc(&out, sizeof *out));
  HIP_OK(hipMemset(out, 0, sizeof *out));
  void *arguments[] = {&out};
  int64_t launching = thread_time();
  HIP_OK(hipLaunchKernel(&stubs[0], dim3(1), dim3(64), arguments, 0, nullptr));
  HIP_OK(hipLaunchKernel(&stubs[kernels - 1], dim3(1), dim3(64), arguments, 0, nullptr));
  launching = thread_time() - launching;
  int found = 0;
  HIP_OK(hipMemcpy(&found, out, sizeof found, hipMemcpyDeviceToHost));
  if (found != 2)
    fail("%d of 2 registered kernels ran", found);
  HIP_OK(hipFree(out));
  int64_t forgetting = thread_time();
  for (void **cookie : cookies)
    __hipUnregisterFatBinary(cookie);
  return {taken, launching, thread_time() - forgetting};
}

static std::vector<int *> live;

// `number` allocations on top of those there are; the first and the last hold what was written to them.
static Answer allocate(int64_t number) {
  int64_t start = now();
  size_t first = live.size();
  for (int64_t i = 0; i < number; ++i) {
    int *memory;
    HIP_OK(hipMalloc(&memory, 256));
    live.push_back(memory);
  }
  HIP_OK(hipDeviceSynchronize());
  int64_t taken = now() - start;
  for (size_t at : {first, live.size() - 1}) {
    int value = static_cast<int>(at), found = -1;
    HIP_OK(hipMemcpy(live[at], &value, sizeof value, hipMemcpyHostToDevice));
    count<<<1, 64>>>(live[at]);
    HIP_OK(hipMemcpy(&found, live[at], sizeof found, hipMemcpyDeviceToHost));
    if (found != value + 1)
      fail("allocation %zu holds %d", at, found);
  }
  return {taken};
}

// Frees them all, while a kernel runs that does not use them.
static Answer release() {
  hipStream_t busy = new_stream(), signalling = new_stream();
  int *flag;
  HIP_OK(hipMalloc(&flag, sizeof *flag));
  HIP_OK(hipMemset(flag, 0, sizeof *flag));
  HIP_OK(hipDeviceSynchronize());
  wait_for<<<1, 64, 0, busy>>>(flag);
  int64_t start = now();
  for (int *memory : live)
    HIP_OK(hipFree(memory));
  live.clear();
  int one = 1;
  HIP_OK(hipMemcpyAsync(flag, &one, sizeof one, hipMemcpyHostToDevice, signalling));
  HIP_OK(hipDeviceSynchronize());
  int64_t taken = now() - start;
  HIP_OK(hipFree(flag));
  HIP_OK(hipStreamDestroy(busy));
  HIP_OK(hipStreamDestroy(signalling));
  return {taken};
}

static std::vector<hipStream_t> streams;
static int *counters = nullptr;

// Makes streams until there are `number`, `blocking` or not, and gives each something to do.
static Answer make_streams(int64_t number, bool blocking) {
  if (!counters) {
    HIP_OK(hipMalloc(&counters, 4096 * sizeof *counters));
    HIP_OK(hipMemset(counters, 0, 4096 * sizeof *counters));
    HIP_OK(hipDeviceSynchronize());
  }
  int64_t start = now();
  while (static_cast<int64_t>(streams.size()) < number) {
    hipStream_t stream;
    HIP_OK(hipStreamCreateWithFlags(&stream, blocking ? hipStreamDefault : hipStreamNonBlocking));
    count<<<1, 64, 0, stream>>>(counters + streams.size() % 4096);
    streams.push_back(stream);
  }
  HIP_OK(hipDeviceSynchronize());
  return {now() - start};
}

// `number` launches over all streams, a hundred on each in turn, and every so often a wait for one of them.
static Answer launch_over_streams(int64_t number) {
  int64_t start = now();
  for (int64_t i = 0; i < number; ++i) {
    size_t at = i / 100 % streams.size();
    count<<<1, 64, 0, streams[at]>>>(counters + at % 4096);
    if (i % 1000 == 999)
      HIP_OK(hipStreamSynchronize(streams[at]));
  }
  HIP_OK(hipGetLastError());
  HIP_OK(hipDeviceSynchronize());
  return {now() - start};
}

static Answer drop_streams() {
  int64_t start = now();
  for (hipStream_t stream : streams)
    HIP_OK(hipStreamDestroy(stream));
  streams.clear();
  HIP_OK(hipDeviceSynchronize());
  return {now() - start};
}

// Keeps the device busy for so many milliseconds: the launches that were made.
static Answer busy(int64_t milliseconds) {
  constexpr int blocks = 256, threads = 64;
  static float *data = nullptr;
  if (!data) {
    HIP_OK(hipMalloc(&data, blocks * threads * sizeof(float)));
    HIP_OK(hipMemset(data, 0, blocks * threads * sizeof(float)));
  }
  int64_t launches = 0;
  for (int64_t end = now() + milliseconds * 1000000; now() < end; ++launches) {
    work<<<blocks, threads>>>(data, 20000);
    if (launches % 4 == 3)
      HIP_OK(hipDeviceSynchronize());
  }
  HIP_OK(hipDeviceSynchronize());
  return {launches};
}

int main() {
  return serve([](const std::string &name, Words &words) -> Answer {
    if (name == "launch") {
      int64_t threads = words.number();
      return launch(threads, words.number());
    }
    if (name == "beside") {
      int64_t calls = words.number(), waiting = words.number();
      return beside(calls, waiting, words.text());
    }
    if (name == "flood")
      return flood(words.number());
    if (name == "register") {
      int64_t binaries = words.number();
      return registered(binaries, words.number());
    }
    if (name == "allocate")
      return allocate(words.number());
    if (name == "release")
      return release();
    if (name == "streams" || name == "blocking")
      return make_streams(words.number(), name == "blocking");
    if (name == "over")
      return launch_over_streams(words.number());
    if (name == "drop")
      return drop_streams();
    if (name == "busy")
      return busy(words.number());
    fail("there is no command %s", name.c_str());
  });
}
