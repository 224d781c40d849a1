// The main thread ends with pthread_exit: `alone` with no other thread, `thread` while another thread works, `callback` while a host
// function runs, `signal` while another thread waits for SIGTERM, whose handler exits with 42 if it runs on that thread.
#include "check.h"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <thread>
#include <unistd.h>

EXAMPLE("main_ends");

__global__ void add(int *value, int amount) { *value += amount; }

static int *value = nullptr;
static pthread_t waiting;

static void launch(const char *where, int expected) {
  add<<<1, 1>>>(value, 1);
  int seen = -1;
  HIP_OK(hipMemcpy(&seen, value, sizeof seen, hipMemcpyDeviceToHost));
  std::printf("%s=%s\n", where, seen == expected ? "right" : "wrong");
  std::fflush(stdout);
}

int main(int argc, char **argv) {
  const char *how = argc > 1 ? argv[1] : "";
  HIP_OK(hipMalloc(&value, sizeof *value));
  HIP_OK(hipMemset(value, 0, sizeof *value));
  launch("main", 1);
  if (std::strcmp(how, "thread") == 0) {
    // Longer than it takes to notice that the main thread has ended.
    std::thread([] {
      sleep(2);
      launch("thread", 2);
    }).detach();
    std::atexit([] { launch("exit handler", 3); });
  } else if (std::strcmp(how, "callback") == 0) {
    auto function = [](void *) {
      sleep(2);
      std::printf("callback=right\n");
      std::fflush(stdout);
    };
    HIP_OK(hipLaunchHostFunc(nullptr, function, nullptr));
    std::atexit([] { launch("exit handler", 2); });
  } else if (std::strcmp(how, "signal") == 0) {
    // Blocked in the main thread, which may not have ended yet when the signal arrives.
    sigset_t terminate;
    sigemptyset(&terminate);
    sigaddset(&terminate, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &terminate, nullptr);
    std::signal(SIGTERM, [](int) { _exit(pthread_equal(pthread_self(), waiting) ? 42 : 43); });
    std::thread([terminate] {
      waiting = pthread_self();
      pthread_sigmask(SIG_UNBLOCK, &terminate, nullptr);
      std::printf("waiting\n");
      std::fflush(stdout);
      for (;;)
        pause();
    }).detach();
  } else {
    std::atexit([] { launch("exit handler", 2); });
  }
  pthread_exit(nullptr);
}
