// Other uses of device-visible memory in a process: system calls, signal handlers, threads, forks.
#include "check.h"

#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

EXAMPLE("mapped_process");

__global__ void add(unsigned char *data, int count, int value) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    data[i] += value;
}

__global__ void add_words(unsigned *data, int first, int step, int count, unsigned value) {
  for (int i = threadIdx.x; i < count; i += blockDim.x)
    data[first + i * step] += value;
}

static unsigned char *pinned(size_t bytes) {
  unsigned char *made = nullptr;
  HIP_OK(hipHostMalloc(reinterpret_cast<void **>(&made), bytes, hipHostMallocDefault));
  return made;
}

// One size that is compared as a whole, and one whose pages are tracked by the kernel.
static void system_calls_write_straight_into_it() {
  for (size_t bytes : {size_t(5000), size_t(900000)}) {
    unsigned char *data = pinned(bytes);
    int ends[2];
    if (pipe(ends) != 0)
      fail("no pipe");
    for (int turn = 0; turn < 20; ++turn) {
      // Launches in between change the state of the pages (clean, write-protected).
      size_t at = turn * 7919 % (bytes - 4000);
      std::vector<unsigned char> sent(4000), back(4000);
      for (size_t i = 0; i < sent.size(); ++i)
        sent[i] = static_cast<unsigned char>(i * 3 + turn);
      if (write(ends[1], sent.data(), sent.size()) != 4000)
        fail("a pipe takes less than a page");
      if (read(ends[0], data + at, 4000) != 4000)
        fail("read(2) into memory of %zu bytes failed: %s", bytes, std::strerror(errno));
      add<<<4, 256>>>(data + at, 4000, 5);
      HIP_OK(hipDeviceSynchronize());
      if (write(ends[1], data + at, 4000) != 4000)
        fail("write(2) from memory of %zu bytes failed: %s", bytes, std::strerror(errno));
      if (read(ends[0], back.data(), 4000) != 4000)
        fail("the pipe gives nothing back");
      for (size_t i = 0; i < sent.size(); ++i)
        if (back[i] != static_cast<unsigned char>(sent[i] + 5))
          fail("byte %zu of %zu came back as %d", at + i, bytes, back[i]);
    }
    close(ends[0]);
    close(ends[1]);
    HIP_OK(hipHostFree(data));
  }
}

static sigjmp_buf jump;
static void *volatile faulted;

static void on_fault(int, siginfo_t *info, void *) {
  faulted = info->si_addr;
  siglongjmp(jump, 1);
}

static void the_programs_own_fault_handler_stays_its_own() {
  struct sigaction mine = {}, before = {}, after = {};
  mine.sa_sigaction = on_fault;
  mine.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &mine, &before);
  unsigned char *data = pinned(300000);
  char *hole = static_cast<char *>(mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  for (int turn = 0; turn < 10; ++turn) {
    for (int i = 0; i < 300000; i += 1000)
      data[i] = static_cast<unsigned char>(turn);
    add<<<4, 256>>>(data, 300000, 1);
    faulted = nullptr;
    if (sigsetjmp(jump, 1) == 0) {
      *reinterpret_cast<volatile char *>(hole + 123) = 1;
      fail("a write to nothing succeeded");
    }
    if (faulted != hole + 123)
      fail("the signal handler got a different address");
    HIP_OK(hipDeviceSynchronize());
    for (int i = 0; i < 300000; i += 1000)
      if (data[i] != turn + 1)
        fail("byte %d is %d in turn %d", i, data[i], turn);
  }
  sigaction(SIGSEGV, nullptr, &after);
  if (after.sa_sigaction != on_fault)
    fail("the handler was replaced");
  sigaction(SIGSEGV, &before, nullptr);
  munmap(hole, 4096);
  HIP_OK(hipHostFree(data));
}

// Words of one page: the device and each thread write different words. No write may be lost to a neighbouring one.
static void threads_and_kernels_write_to_one_page() {
  constexpr int words = 1024, threads = 3, turns = 60, share = words / (threads + 1);
  auto *data = reinterpret_cast<unsigned *>(pinned(words * sizeof(unsigned)));
  std::fill_n(data, words, 0u);
  std::vector<std::thread> all;
  std::atomic<int> ready{0};
  for (int me = 0; me < threads; ++me)
    all.emplace_back([=, &ready] {
      HIP_OK(hipSetDevice(0));
      hipStream_t stream;
      HIP_OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
      ++ready;
      while (ready < threads)
        std::this_thread::yield();
      for (int turn = 1; turn <= turns; ++turn) {
        // Every fourth word belongs to this thread; every fourth, starting at 3, to kernels, a third of them to this thread's kernels.
        for (int i = 0; i < share; ++i)
          data[me + i * (threads + 1)] = static_cast<unsigned>(turn);
        const int own = share / threads;
        add_words<<<1, 64, 0, stream>>>(data, threads + me * own * (threads + 1), threads + 1, own, 1);
        if (turn % 5 == 0) {
          HIP_OK(hipStreamSynchronize(stream));
          for (int i = 0; i < own; ++i)
            if (data[threads + (me * own + i) * (threads + 1)] != static_cast<unsigned>(turn))
              fail("a kernel's word is %u in turn %d", data[threads + (me * own + i) * (threads + 1)], turn);
          for (int i = 0; i < share; ++i)
            if (data[me + i * (threads + 1)] != static_cast<unsigned>(turn))
              fail("thread %d's word is %u in turn %d", me, data[me + i * (threads + 1)], turn);
        }
      }
      HIP_OK(hipStreamSynchronize(stream));
      HIP_OK(hipStreamDestroy(stream));
    });
  for (std::thread &thread : all)
    thread.join();
  HIP_OK(hipDeviceSynchronize());
  for (int i = 0; i < words; ++i) {
    bool left_over = i % (threads + 1) == threads && i / (threads + 1) >= share / threads * threads;
    if (data[i] != static_cast<unsigned>(left_over ? 0 : turns))
      fail("word %d ends as %u", i, data[i]);
  }
  // The threads' writes are visible on the device too.
  unsigned *device = nullptr;
  HIP_OK(hipMalloc(reinterpret_cast<void **>(&device), words * sizeof *device));
  HIP_OK(hipMemcpyAsync(device, data, words * sizeof *device, hipMemcpyHostToDevice, nullptr));
  std::vector<unsigned> seen(words);
  HIP_OK(hipMemcpy(seen.data(), device, words * sizeof *device, hipMemcpyDeviceToHost));
  if (std::memcmp(seen.data(), data, words * sizeof *device) != 0)
    fail("the device has other words");
  HIP_OK(hipFree(device));
  HIP_OK(hipHostFree(data));
}

__managed__ int variable = 3;

__global__ void bump() { variable += 10; }

static void a_forked_child_has_a_copy() {
  unsigned char *data = pinned(500000);
  std::memset(data, 1, 500000);
  add<<<4, 256>>>(data, 500000, 1);
  HIP_OK(hipDeviceSynchronize());
  bump<<<1, 1>>>();
  HIP_OK(hipDeviceSynchronize());
  std::fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    // The child has a private copy from here on, and starts a new HIP session.
    bool right = data[0] == 2 && data[499999] == 2 && variable == 13;
    std::memset(data, 9, 500000);
    variable = 100;
    unsigned char *own = pinned(1000);
    std::memset(own, 30, 1000);
    add<<<1, 64>>>(own, 1000, 3);
    bump<<<1, 1>>>();
    HIP_OK(hipDeviceSynchronize());
    right = right && own[0] == 33 && own[999] == 33 && data[0] == 9 && variable == 110;
    std::exit(right ? 0 : 1);
  }
  add<<<4, 256>>>(data, 500000, 1);
  bump<<<1, 1>>>();
  HIP_OK(hipDeviceSynchronize());
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    fail("the child ended with status %x", static_cast<unsigned>(status));
  for (int i = 0; i < 500000; ++i)
    if (data[i] != 3)
      fail("byte %d of the parent is %d", i, data[i]);
  if (variable != 23)
    fail("the parent's variable is %d", variable);
  HIP_OK(hipHostFree(data));
}

int main() {
  system_calls_write_straight_into_it();
  the_programs_own_fault_handler_stays_its_own();
  threads_and_kernels_write_to_one_page();
  a_forked_child_has_a_copy();
  return pass();
}
