// Migration test: creates objects of every kind, waits for a line on standard input, and checks that all of them still work; repeated
// for every line.
#include "check.h"

#include <atomic>
#include <cstring>
#include <string>

EXAMPLE("moved");

constexpr int count = 4096;

__device__ int counter = 5;
__device__ int table[256];
__constant__ int scale[4] = {1, 2, 3, 4};
__managed__ int shared_by_both = 70;

struct Node {
  int value;
  Node *next;
};

__global__ void add(int *values, int amount) {
  int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  values[at] += amount;
}

__global__ void use_symbols() {
  table[threadIdx.x] += scale[threadIdx.x % 4];
  if (threadIdx.x == 0) {
    counter += 1;
    shared_by_both += 1;
  }
}

__global__ void link(Node *nodes) {
  for (int at = 0; at < 8; ++at)
    nodes[at] = {at, at < 7 ? nodes + at + 1 : nullptr};
}

__global__ void walk(const Node *node, int *sum) {
  for (*sum = 0; node; node = node->next)
    *sum += node->value;
}

__global__ void allocate(int **kept, int value) {
  int *data = static_cast<int *>(malloc(1000 * sizeof(int)));
  for (int at = 0; data && at < 1000; ++at)
    data[at] = value + at;
  *kept = data;
}

__global__ void replace(int **kept, int value, int *sum) {
  *sum = 0;
  for (int at = 0; at < 1000; ++at)
    *sum += (*kept)[at] == value + at;
  free(*kept);
  int *data = static_cast<int *>(malloc(1000 * sizeof(int)));
  for (int at = 0; data && at < 1000; ++at)
    data[at] = value + 1 + at;
  *kept = data;
}

__global__ void wait_for(volatile int *flag, int *done) {
  while (*flag == 0) {
  }
  *done += 1;
}

static std::string line() {
  std::string text;
  for (int letter; (letter = std::getchar()) != '\n' && letter != EOF;)
    text.push_back(static_cast<char>(letter));
  return text;
}

static void say(const char *text) {
  std::printf("%s\n", text);
  std::fflush(stdout);
}

static void expect(const char *what, long got, long wanted) {
  if (got != wanted)
    fail("%s is %ld, not %ld", what, got, wanted);
}

static std::atomic<bool> entered, returns;

int main() {
  std::vector<int> ones(count, 1);
  int *plain, *pooled, *own, *sum;
  HIP_OK(hipMalloc(&plain, count * sizeof(int)));
  HIP_OK(hipMemcpy(plain, ones.data(), count * sizeof(int), hipMemcpyHostToDevice));
  HIP_OK(hipMalloc(&sum, sizeof(int)));
  // A large untouched allocation costs nothing to move.
  char *vast;
  HIP_OK(hipMalloc(&vast, size_t{2} << 30));
  HIP_OK(hipMemset(vast + (size_t{1} << 30) + 12345, 9, 1));
  char *freed;
  HIP_OK(hipMalloc(&freed, 1 << 20));
  HIP_OK(hipFree(freed));

  hipStream_t urgent, beside;
  HIP_OK(hipStreamCreateWithPriority(&urgent, hipStreamDefault, -1));
  HIP_OK(hipStreamCreateWithFlags(&beside, hipStreamNonBlocking));
  hipEvent_t first, second, untimed;
  HIP_OK(hipEventCreate(&first));
  HIP_OK(hipEventCreate(&second));
  HIP_OK(hipEventCreateWithFlags(&untimed, hipEventDisableTiming));
  HIP_OK(hipEventRecord(first, urgent));
  add<<<count / 256, 256, 0, urgent>>>(plain, 1);
  HIP_OK(hipEventRecord(second, urgent));
  HIP_OK(hipStreamSynchronize(urgent));
  float between;
  HIP_OK(hipEventElapsedTime(&between, first, second));

  hipMemPool_t pool;
  hipMemPoolProps wanted = {};
  wanted.allocType = hipMemAllocationTypePinned;
  wanted.location.type = hipMemLocationTypeDevice;
  HIP_OK(hipMemPoolCreate(&pool, &wanted));
  HIP_OK(hipMallocAsync(reinterpret_cast<void **>(&pooled), count * sizeof(int), urgent));
  HIP_OK(hipMallocFromPoolAsync(reinterpret_cast<void **>(&own), count * sizeof(int), pool, urgent));
  HIP_OK(hipMemsetAsync(pooled, 0, count * sizeof(int), urgent));
  HIP_OK(hipMemsetAsync(own, 0, count * sizeof(int), urgent));

  Node *nodes;
  HIP_OK(hipMalloc(&nodes, 8 * sizeof(Node)));
  link<<<1, 1>>>(nodes);
  int factors[4] = {10, 20, 30, 40};
  HIP_OK(hipMemcpyToSymbol(HIP_SYMBOL(scale), factors, sizeof factors));
  use_symbols<<<1, 256>>>();

  // A graph with branches, launched before and after.
  hipGraph_t graph;
  hipGraphExec_t executable;
  HIP_OK(hipStreamBeginCapture(urgent, hipStreamCaptureModeGlobal));
  add<<<count / 256, 256, 0, urgent>>>(pooled, 2);
  HIP_OK(hipEventRecord(untimed, urgent));
  HIP_OK(hipStreamWaitEvent(beside, untimed, 0));
  add<<<count / 256, 256, 0, beside>>>(own, 3);
  hipEvent_t joined;
  HIP_OK(hipEventCreateWithFlags(&joined, hipEventDisableTiming));
  HIP_OK(hipEventRecord(joined, beside));
  HIP_OK(hipStreamWaitEvent(urgent, joined, 0));
  add<<<count / 256, 256, 0, urgent>>>(pooled, 4);
  HIP_OK(hipStreamEndCapture(urgent, &graph));
  HIP_OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  HIP_OK(hipGraphLaunch(executable, urgent));

  int *pinned, *pinned_there, *managed, *registered_there;
  HIP_OK(hipHostMalloc(reinterpret_cast<void **>(&pinned), count * sizeof(int), hipHostMallocMapped));
  HIP_OK(hipHostGetDevicePointer(reinterpret_cast<void **>(&pinned_there), pinned, 0));
  HIP_OK(hipMallocManaged(reinterpret_cast<void **>(&managed), count * sizeof(int), hipMemAttachGlobal));
  std::vector<int> registered(count, 100);
  HIP_OK(hipHostRegister(registered.data(), count * sizeof(int), hipHostRegisterMapped));
  HIP_OK(hipHostGetDevicePointer(reinterpret_cast<void **>(&registered_there), registered.data(), 0));
  for (int at = 0; at < count; ++at)
    pinned[at] = managed[at] = at;
  add<<<count / 256, 256>>>(pinned_there, 1);
  add<<<count / 256, 256>>>(managed, 1);
  add<<<count / 256, 256>>>(registered_there, 1);

  int **kept;
  HIP_OK(hipMalloc(&kept, sizeof(int *)));
  HIP_OK(hipDeviceSetLimit(hipLimitMallocHeapSize, 16 << 20));
  allocate<<<1, 1>>>(kept, 0);

  // Physical memory that is mapped twice, and physical memory that is not mapped.
  hipMemAllocationProp prop = {};
  prop.type = hipMemAllocationTypePinned;
  prop.location.type = hipMemLocationTypeDevice;
  hipMemAccessDesc both = {};
  both.location.type = hipMemLocationTypeDevice;
  both.flags = hipMemAccessFlagsProtReadWrite;
  size_t grain;
  HIP_OK(hipMemGetAllocationGranularity(&grain, &prop, hipMemAllocationGranularityMinimum));
  char *reserved;
  hipMemGenericAllocationHandle_t twice, nowhere;
  HIP_OK(hipMemAddressReserve(reinterpret_cast<void **>(&reserved), 4 * grain, 0, nullptr, 0));
  HIP_OK(hipMemCreate(&twice, grain, &prop, 0));
  HIP_OK(hipMemCreate(&nowhere, grain, &prop, 0));
  HIP_OK(hipMemMap(reserved, grain, 0, twice, 0));
  HIP_OK(hipMemMap(reserved + 2 * grain, grain, 0, twice, 0));
  HIP_OK(hipMemMap(reserved + 3 * grain, grain, 0, nowhere, 0));
  HIP_OK(hipMemSetAccess(reserved, grain, &both, 1));
  HIP_OK(hipMemSetAccess(reserved + 2 * grain, grain, &both, 1));
  HIP_OK(hipMemSetAccess(reserved + 3 * grain, grain, &both, 1));
  HIP_OK(hipMemset(reserved, 0, grain));
  HIP_OK(hipMemset(reserved + 3 * grain, 33, grain));
  HIP_OK(hipDeviceSynchronize());
  HIP_OK(hipMemUnmap(reserved + 3 * grain, grain));

  int *flag, *done;
  HIP_OK(hipMalloc(&flag, sizeof(int)));
  HIP_OK(hipMalloc(&done, sizeof(int)));
  HIP_OK(hipMemset(done, 0, sizeof(int)));

  say("ready");
  int turns = 0;
  for (std::string text = line(); !text.empty(); text = line()) {
    if (text == "hold") {
      // The stream waits for the program, which waits for its input.
      returns = entered = false;
      HIP_OK(hipLaunchHostFunc(urgent, [](void *) {
        entered = true;
        while (!returns) {
        }
      }, nullptr));
      while (!entered) {
      }
      say("held");
      line();
      returns = true;
      HIP_OK(hipStreamSynchronize(urgent));
      say("let go");
      continue;
    }
    if (text == "spin") {
      // A kernel that runs until a flag is set, which happens after the next line.
      HIP_OK(hipMemset(flag, 0, sizeof(int)));
      wait_for<<<1, 1, 0, urgent>>>(flag, done);
      HIP_OK(hipGetLastError());
      // A round trip: the device has received the launch when it replies.
      int one = 1, ended;
      HIP_OK(hipMemcpyAsync(&ended, done, sizeof(int), hipMemcpyDeviceToHost, beside));
      HIP_OK(hipStreamSynchronize(beside));
      say("spinning");
      line();
      HIP_OK(hipMemcpyAsync(flag, &one, sizeof(int), hipMemcpyHostToDevice, beside));
      HIP_OK(hipStreamSynchronize(urgent));
      HIP_OK(hipMemcpy(&ended, done, sizeof(int), hipMemcpyDeviceToHost));
      std::printf("ended=%d\n", ended);
      std::fflush(stdout);
      continue;
    }
    ++turns;
    std::vector<int> got(count);
    auto read = [&](const int *from) {
      HIP_OK(hipMemcpy(got.data(), from, count * sizeof(int), hipMemcpyDeviceToHost));
      for (int at = 1; at < count; ++at)
        expect("an element", got[at], got[0]);
      return got[0];
    };
    add<<<count / 256, 256, 0, beside>>>(plain, 1);
    HIP_OK(hipStreamSynchronize(beside));
    expect("plain", read(plain), 2 + turns);
    char vastly[3];
    HIP_OK(hipMemcpy(vastly, vast + (size_t{1} << 30) + 12344, 3, hipMemcpyDeviceToHost));
    expect("vast", vastly[0] * 100 + vastly[1] * 10 + vastly[2], 90);
    float now, across;
    HIP_OK(hipEventElapsedTime(&now, first, second));
    if (now != between)
      fail("%g ms became %g ms", between, now);
    hipEvent_t later;
    HIP_OK(hipEventCreate(&later));
    HIP_OK(hipEventRecord(later, urgent));
    HIP_OK(hipEventSynchronize(later));
    HIP_OK(hipEventElapsedTime(&across, second, later));
    if (!(across > 0))
      fail("%g ms from before to now", across);
    HIP_OK(hipEventDestroy(later));
    HIP_OK(hipGraphLaunch(executable, urgent));
    HIP_OK(hipStreamSynchronize(urgent));
    expect("pooled", read(pooled), 6 * (1 + turns));
    expect("own", read(own), 3 * (1 + turns));
    walk<<<1, 1>>>(nodes, sum);
    int number;
    HIP_OK(hipMemcpy(&number, sum, sizeof(int), hipMemcpyDeviceToHost));
    expect("the list", number, 28);
    use_symbols<<<1, 256>>>();
    HIP_OK(hipMemcpyFromSymbol(&number, HIP_SYMBOL(counter), sizeof(int)));
    expect("counter", number, 6 + turns);
    HIP_OK(hipMemcpyFromSymbol(&number, HIP_SYMBOL(table), sizeof(int), 3 * sizeof(int)));
    expect("table", number, 40 * (1 + turns));
    expect("shared_by_both", shared_by_both, 71 + turns);
    pinned[7] += 1000;
    add<<<count / 256, 256>>>(pinned_there, 1);
    add<<<count / 256, 256>>>(managed, 1);
    add<<<count / 256, 256>>>(registered_there, 1);
    HIP_OK(hipDeviceSynchronize());
    expect("pinned", pinned[7], 7 + 1 + turns + 1000 * turns);
    expect("pinned", pinned[count - 1], count + turns);
    expect("managed", managed[17], 18 + turns);
    expect("registered", registered[count - 1], 101 + turns);
    replace<<<1, 1>>>(kept, turns - 1, sum);
    HIP_OK(hipMemcpy(&number, sum, sizeof(int), hipMemcpyDeviceToHost));
    expect("the heap", number, 1000);
    size_t heap_limit;
    HIP_OK(hipDeviceGetLimit(&heap_limit, hipLimitMallocHeapSize));
    expect("the limit", static_cast<long>(heap_limit), 16 << 20);
    add<<<1, 64>>>(reinterpret_cast<int *>(reserved), 5);
    HIP_OK(hipMemcpy(&number, reserved + 2 * grain, sizeof(int), hipMemcpyDeviceToHost));
    expect("the other place", number, 5 * turns);
    HIP_OK(hipMemMap(reserved + 3 * grain, grain, 0, nowhere, 0));
    HIP_OK(hipMemSetAccess(reserved + 3 * grain, grain, &both, 1));
    char byte;
    HIP_OK(hipMemcpy(&byte, reserved + 4 * grain - 1, 1, hipMemcpyDeviceToHost));
    expect("memory that was nowhere", byte, 33);
    HIP_OK(hipMemUnmap(reserved + 3 * grain, grain));
    int priority;
    HIP_OK(hipStreamGetPriority(urgent, &priority));
    expect("priority", priority, -1);
    char *again;
    HIP_OK(hipMalloc(&again, 1 << 20));
    HIP_OK(hipMemset(again, 1, 1 << 20));
    HIP_OK(hipFree(again));
    say(("turn " + std::to_string(turns)).c_str());
  }
  HIP_OK(hipGraphExecDestroy(executable));
  HIP_OK(hipHostUnregister(registered.data()));
  HIP_OK(hipFreeAsync(pooled, urgent));
  HIP_OK(hipFreeAsync(own, urgent));
  HIP_OK(hipMemPoolDestroy(pool));
  HIP_OK(hipStreamDestroy(urgent));
  HIP_OK(hipStreamDestroy(beside));
  HIP_OK(hipDeviceSynchronize());
  return pass();
}
