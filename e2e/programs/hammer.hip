// Stress test: many threads use all features at once in one session, each on its own data, and check their results. State that HIP
// keeps per thread (last error, default stream, capture mode) must not leak between threads; shared state (the null stream, one
// counter on the device, handle tables) must stay consistent.
#include "check.h"

#include <atomic>
#include <cstring>
#include <string>
#include <thread>

EXAMPLE("hammer");

constexpr int WIDTH = 256;

__global__ void add(int *data, int value) { data[threadIdx.x] += value; }
__global__ void add_once(int *total) {
  if (threadIdx.x == 0)
    atomicAdd(total, 1);
}
// Not atomic: two concurrent runs would lose an increment.
__global__ void bump(volatile int *count) {
  if (threadIdx.x == 0)
    *count = *count + 1;
}

struct Shared {
  int *total;
  int *ordered;
  std::atomic<int> posted_to_null{0};
  std::atomic<int> callbacks{0};
  hipEvent_t event;
};

struct Call {
  std::atomic<int> *count;
  int order;
  int *next;
};

static void in_order(void *data) {
  Call *call = static_cast<Call *>(data);
  if (*call->next != call->order)
    fail("host function %d ran when %d was due", call->order, *call->next);
  *call->next += 1;
  *call->count += 1;
}

static void expect_all(const int *data, int wanted, const char *what, int thread, int round) {
  for (int i = 0; i < WIDTH; ++i)
    if (data[i] != wanted)
      fail("thread %d round %d: %s is %d at %d, not %d", thread, round, what, data[i], i, wanted);
}

class Worker {
public:
  Worker(Shared &shared, int thread) : shared_(shared), thread_(thread), host_(WIDTH) {
    HIP_OK(hipStreamCreateWithFlags(&stream_, thread % 2 ? hipStreamNonBlocking : hipStreamDefault));
    HIP_OK(hipMalloc(&data_, bytes()));
    HIP_OK(hipHostMalloc(&pinned_, bytes()));
  }

  void run(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      memory(round);
      launches(round);
      switch ((round + thread_) % 6) {
      case 0:
        errors(round);
        break;
      case 1:
        streams_and_events(round);
        break;
      case 2:
        graph(round);
        break;
      case 3:
        host_functions(round);
        break;
      case 4:
        per_thread_stream(round);
        break;
      case 5:
        pinned(round);
        break;
      }
      null_stream();
    }
    HIP_OK(hipStreamDestroy(stream_));
    HIP_OK(hipFree(data_));
    HIP_OK(hipHostFree(pinned_));
  }

private:
  static size_t bytes() { return WIDTH * sizeof(int); }

  // Allocates memory, writes it, copies it on the device, reads it back and frees it.
  void memory(int round) {
    int *first, *second;
    HIP_OK(hipMalloc(&first, bytes()));
    HIP_OK(hipMallocAsync(reinterpret_cast<void **>(&second), bytes(), stream_));
    int value = thread_ * 100000 + round;
    for (int &word : host_)
      word = value;
    HIP_OK(hipMemcpyAsync(first, host_.data(), bytes(), hipMemcpyHostToDevice, stream_));
    HIP_OK(hipMemcpyAsync(second, first, bytes(), hipMemcpyDeviceToDevice, stream_));
    std::vector<int> back(WIDTH, -1);
    HIP_OK(hipMemcpyAsync(back.data(), second, bytes(), hipMemcpyDeviceToHost, stream_));
    HIP_OK(hipStreamSynchronize(stream_));
    expect_all(back.data(), value, "a copy", thread_, round);
    HIP_OK(hipFreeAsync(second, stream_));
    HIP_OK(hipFree(first));
  }

  void launches(int round) {
    HIP_OK(hipMemsetAsync(data_, 0, bytes(), stream_));
    for (int i = 0; i < 8; ++i)
      add<<<1, WIDTH, 0, stream_>>>(data_, i);
    add_once<<<1, 64, 0, stream_>>>(shared_.total);
    HIP_OK(hipGetLastError());
    HIP_OK(hipMemcpyAsync(host_.data(), data_, bytes(), hipMemcpyDeviceToHost, stream_));
    HIP_OK(hipStreamSynchronize(stream_));
    expect_all(host_.data(), 28, "a sum", thread_, round);
  }

  // Each thread causes a different error and must get its own.
  void errors(int round) {
    const bool device = thread_ % 2;
    hipError_t wanted = device ? hipErrorInvalidDevice : hipErrorInvalidValue;
    hipError_t got = device ? hipSetDevice(1000) : hipMalloc(nullptr, 1);
    if (got != wanted)
      fail("thread %d round %d: %s, not %s", thread_, round, hipGetErrorName(got), hipGetErrorName(wanted));
    for (int i = 0; i < 3; ++i) {
      std::this_thread::yield();
      if (hipPeekAtLastError() != wanted)
        fail("thread %d round %d: another thread's last error", thread_, round);
    }
    if (hipGetLastError() != wanted || hipGetLastError() != hipSuccess)
      fail("thread %d round %d: the last error is not taken", thread_, round);
    int current = -1;
    HIP_OK(hipGetDevice(&current));
    if (current != 0)
      fail("thread %d: device %d is current", thread_, current);
  }

  void streams_and_events(int round) {
    hipStream_t other;
    hipEvent_t start, stop;
    HIP_OK(hipStreamCreateWithFlags(&other, hipStreamNonBlocking));
    HIP_OK(hipEventCreate(&start));
    HIP_OK(hipEventCreate(&stop));
    HIP_OK(hipMemsetAsync(data_, 0, bytes(), stream_));
    HIP_OK(hipEventRecord(start, stream_));
    HIP_OK(hipStreamWaitEvent(other, start, 0));
    add<<<1, WIDTH, 0, other>>>(data_, 5);
    HIP_OK(hipEventRecord(stop, other));
    HIP_OK(hipStreamWaitEvent(stream_, stop, 0));
    add<<<1, WIDTH, 0, stream_>>>(data_, 6);
    // An event that all threads record and wait for concurrently.
    HIP_OK(hipEventRecord(shared_.event, stream_));
    HIP_OK(hipEventSynchronize(shared_.event));
    while (hipEventQuery(stop) == hipErrorNotReady)
      std::this_thread::yield();
    (void)hipGetLastError();
    float time = -1;
    HIP_OK(hipEventElapsedTime(&time, start, stop));
    if (time < 0)
      fail("thread %d: %f ms between two events", thread_, time);
    HIP_OK(hipMemcpyAsync(host_.data(), data_, bytes(), hipMemcpyDeviceToHost, stream_));
    HIP_OK(hipStreamSynchronize(stream_));
    expect_all(host_.data(), 11, "a sum over two streams", thread_, round);
    HIP_OK(hipEventDestroy(start));
    HIP_OK(hipEventDestroy(stop));
    HIP_OK(hipStreamDestroy(other));
  }

  void graph(int round) {
    hipStreamCaptureMode mode = hipStreamCaptureModeThreadLocal;
    HIP_OK(hipThreadExchangeStreamCaptureMode(&mode));
    hipStream_t stream;
    HIP_OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    HIP_OK(hipMemsetAsync(data_, 0, bytes(), stream));
    HIP_OK(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
    add<<<1, WIDTH, 0, stream>>>(data_, 1);
    add<<<1, WIDTH, 0, stream>>>(data_, thread_);
    hipGraph_t made;
    HIP_OK(hipStreamEndCapture(stream, &made));
    hipGraphExec_t executable;
    HIP_OK(hipGraphInstantiate(&executable, made, nullptr, nullptr, 0));
    HIP_OK(hipGraphDestroy(made));
    for (int i = 0; i < 5; ++i)
      HIP_OK(hipGraphLaunch(executable, stream));
    HIP_OK(hipMemcpyAsync(host_.data(), data_, bytes(), hipMemcpyDeviceToHost, stream));
    HIP_OK(hipStreamSynchronize(stream));
    expect_all(host_.data(), 5 * (1 + thread_), "a graph's sum", thread_, round);
    HIP_OK(hipGraphExecDestroy(executable));
    HIP_OK(hipStreamDestroy(stream));
    HIP_OK(hipThreadExchangeStreamCaptureMode(&mode));
    if (mode != hipStreamCaptureModeThreadLocal)
      fail("thread %d has another's capture mode %d", thread_, mode);
  }

  void host_functions(int round) {
    int next = 0;
    Call calls[3];
    for (int i = 0; i < 3; ++i) {
      calls[i] = {&shared_.callbacks, i, &next};
      add<<<1, WIDTH, 0, stream_>>>(data_, 1);
      HIP_OK(hipLaunchHostFunc(stream_, in_order, &calls[i]));
    }
    HIP_OK(hipStreamSynchronize(stream_));
    if (next != 3)
      fail("thread %d round %d: %d of 3 host functions ran", thread_, round, next);
  }

  void per_thread_stream(int round) {
    HIP_OK(hipMemsetAsync(data_, 0, bytes(), hipStreamPerThread));
    add<<<1, WIDTH, 0, hipStreamPerThread>>>(data_, thread_);
    HIP_OK(hipMemcpyAsync(host_.data(), data_, bytes(), hipMemcpyDeviceToHost, hipStreamPerThread));
    HIP_OK(hipStreamSynchronize(hipStreamPerThread));
    expect_all(host_.data(), thread_, "a sum on the thread's own stream", thread_, round);
  }

  void pinned(int round) {
    for (int i = 0; i < WIDTH; ++i)
      pinned_[i] = round;
    add<<<1, WIDTH, 0, stream_>>>(pinned_, thread_);
    HIP_OK(hipStreamSynchronize(stream_));
    expect_all(pinned_, round + thread_, "pinned memory", thread_, round);
  }

  // Kernels on the null stream never run concurrently, whichever thread launches them, and blocking streams wait for them.
  void null_stream() {
    bump<<<1, 64>>>(shared_.ordered);
    shared_.posted_to_null += 1;
    if (thread_ % 2 == 0)
      bump<<<1, 64, 0, nullptr>>>(shared_.ordered), shared_.posted_to_null += 1;
    HIP_OK(hipGetLastError());
  }

  Shared &shared_;
  int thread_;
  std::vector<int> host_;
  hipStream_t stream_ = nullptr;
  int *data_ = nullptr;
  int *pinned_ = nullptr;
};

int main(int count, char **arguments) {
  const int threads = count > 1 ? std::atoi(arguments[1]) : 64;
  const int rounds = count > 2 ? std::atoi(arguments[2]) : 12;
  Shared shared;
  DeviceArray<int> total(std::vector<int>{0}), ordered(std::vector<int>{0});
  shared.total = total.get();
  shared.ordered = ordered.get();
  HIP_OK(hipEventCreateWithFlags(&shared.event, hipEventDisableTiming));
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i)
    running.emplace_back([&shared, i, rounds] { Worker(shared, i).run(rounds); });
  for (std::thread &thread : running)
    thread.join();
  HIP_OK(hipDeviceSynchronize());
  if (total.read()[0] != threads * rounds)
    fail("%d of %d launches counted", total.read()[0], threads * rounds);
  if (ordered.read()[0] != shared.posted_to_null)
    fail("%d of %d kernels of the null stream counted", ordered.read()[0], shared.posted_to_null.load());
  int calls = 0;
  for (int i = 0; i < threads; ++i)
    for (int round = 0; round < rounds; ++round)
      calls += (round + i) % 6 == 3 ? 3 : 0;
  if (shared.callbacks != calls)
    fail("%d of %d host functions ran", shared.callbacks.load(), calls);
  HIP_OK(hipEventDestroy(shared.event));
  std::printf("threads=%d rounds=%d\n", threads, rounds);
  return pass();
}
