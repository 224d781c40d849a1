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

struct Line {
  int value;
  int *pinned;
  int count;
};

static void fill(void *data) {
  Line *line = static_cast<Line *>(data);
  for (int i = 0; i < line->count; ++i)
    line->pinned[i] = line->value + i;
}

// One pinned buffer is filled by consecutive host functions; the copy after each must read what that function wrote.
static void what_a_host_function_writes_is_what_a_later_copy_reads() {
  constexpr int turns = 8, rows = 16, columns = 64, count = rows * columns;
  hipStream_t stream;
  HIP_OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  int *pinned = nullptr;
  HIP_OK(hipHostMalloc(reinterpret_cast<void **>(&pinned), count * sizeof *pinned, hipHostMallocDefault));
  std::fill_n(pinned, count, -1);
  DeviceArray<int> flat(turns * count), rectangle(turns * count);
  std::vector<Line> lines(turns);
  const size_t width = columns * sizeof(int);
  for (int turn = 0; turn < turns; ++turn) {
    lines[turn] = {turn * 10000, pinned, count};
    HIP_OK(hipLaunchHostFunc(stream, fill, &lines[turn]));
    HIP_OK(hipMemcpyAsync(flat.get() + turn * count, pinned, count * sizeof *pinned, hipMemcpyHostToDevice, stream));
    HIP_OK(hipMemcpy2DAsync(rectangle.get() + turn * count, width, pinned, width, width, rows, hipMemcpyHostToDevice,
                            stream));
  }
  HIP_OK(hipStreamSynchronize(stream));
  const std::vector<int> in_one = flat.read(), in_rows = rectangle.read();
  for (int i = 0; i < turns * count; ++i) {
    int wanted = i / count * 10000 + i % count;
    if (in_one[i] != wanted || in_rows[i] != wanted)
      fail("element %d behind host function %d is %d and %d, not %d", i % count, i / count, in_one[i], in_rows[i],
           wanted);
  }
  HIP_OK(hipHostFree(pinned));
  HIP_OK(hipStreamDestroy(stream));
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
      fail("callback %d got status %s", turn.number, hipGetErrorName(turn.status));
  }
  HIP_OK(hipHostFree(host));
  HIP_OK(hipStreamDestroy(stream));
  what_a_host_function_writes_is_what_a_later_copy_reads();
  return pass();
}
