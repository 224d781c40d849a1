// Host functions run in this process, in stream order: after the work before them, before the work after them.
#include "check.h"

#include <atomic>
#include <unistd.h>

EXAMPLE("host_functions");

__global__ void set(int *data, int value) { *data = value; }

struct Turn {
  int number;
  int seen;
  int order;
  hipError_t status;
  pid_t process;
  int *host;
};

static std::atomic<int> next{0};

static void take(Turn *turn) {
  turn->seen = *turn->host;
  turn->process = getpid();
  turn->order = next++;
}

static void function(void *data) { take(static_cast<Turn *>(data)); }

static void callback(hipStream_t, hipError_t status, void *data) {
  Turn *turn = static_cast<Turn *>(data);
  turn->status = status;
  take(turn);
}

int main() {
  constexpr int turns = 40;
  hipStream_t stream;
  HIP_OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  int *host = nullptr;
  HIP_OK(hipHostMalloc(reinterpret_cast<void **>(&host), sizeof *host, hipHostMallocDefault));
  DeviceArray<int> value(1);
  std::vector<Turn> taken(turns);
  for (int number = 0; number < turns; ++number) {
    taken[number] = {number, -1, -1, hipErrorUnknown, 0, host};
    set<<<1, 1, 0, stream>>>(value.get(), 1000 + number);
    HIP_OK(hipGetLastError());
    HIP_OK(hipMemcpyAsync(host, value.get(), sizeof *host, hipMemcpyDeviceToHost, stream));
    if (number % 2 == 0)
      HIP_OK(hipLaunchHostFunc(stream, function, &taken[number]));
    else
      HIP_OK(hipStreamAddCallback(stream, callback, &taken[number], 0));
  }
  HIP_OK(hipStreamSynchronize(stream));
  for (const Turn &turn : taken) {
    if (turn.order != turn.number || turn.seen != 1000 + turn.number)
      fail("host function %d came as number %d and saw %d", turn.number, turn.order, turn.seen);
    if (turn.process != getpid())
      fail("host function %d ran in another process", turn.number);
    if (turn.number % 2 == 1 && turn.status != hipSuccess)
      fail("callback %d was told %s", turn.number, hipGetErrorName(turn.status));
  }
  HIP_OK(hipHostFree(host));
  HIP_OK(hipStreamDestroy(stream));
  return pass();
}
