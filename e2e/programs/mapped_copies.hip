// Copies, fills and host functions on memory shared by host and device run in stream order.
#include "check.h"

#include <cstring>
#include <memory>

EXAMPLE("mapped_copies");

constexpr int rows = 48, columns = 100, count = rows * columns;

__global__ void add(int *data, int value) {
  for (int i = threadIdx.x; i < count; i += blockDim.x)
    data[i] += value;
}

__global__ void big_add(int *data, int length, int value) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < length; i += gridDim.x * blockDim.x)
    data[i] += value;
}

static void expect(const char *what, const int *data, int base) {
  for (int i = 0; i < count; ++i)
    if (data[i] != base + i)
      fail("%s: element %d is %d, not %d", what, i, data[i], base + i);
}

struct Buffers {
  int *pinned = nullptr, *managed = nullptr, *device = nullptr;
  hipStream_t stream;
  Buffers() {
    HIP_OK(hipHostMalloc(reinterpret_cast<void **>(&pinned), count * sizeof(int), hipHostMallocDefault));
    HIP_OK(hipMallocManaged(reinterpret_cast<void **>(&managed), count * sizeof(int), hipMemAttachGlobal));
    HIP_OK(hipMalloc(reinterpret_cast<void **>(&device), count * sizeof(int)));
    HIP_OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  }
  ~Buffers() {
    HIP_OK(hipStreamDestroy(stream));
    HIP_OK(hipHostFree(pinned));
    HIP_OK(hipFree(managed));
    HIP_OK(hipFree(device));
  }
};

static void number(int *data, int base) {
  for (int i = 0; i < count; ++i)
    data[i] = base + i;
}

static void copies_come_in_their_place(Buffers &b, int *shared) {
  constexpr size_t bytes = count * sizeof(int);
  for (int turn = 0; turn < 3; ++turn) {
    number(shared, 0);
    add<<<1, 256, 0, b.stream>>>(shared, 10);
    // The copy must see the result of the kernel before it.
    HIP_OK(hipMemcpyAsync(b.device, shared, bytes, hipMemcpyHostToDevice, b.stream));
    add<<<1, 256, 0, b.stream>>>(b.device, 100);
    HIP_OK(hipMemcpyAsync(shared, b.device, bytes, hipMemcpyDeviceToHost, b.stream));
    add<<<1, 256, 0, b.stream>>>(shared, 1000);
    HIP_OK(hipStreamSynchronize(b.stream));
    expect("after a round of asynchronous copies", shared, 1110);

    // The source may be changed as soon as a synchronous copy has returned, whatever the stream is doing.
    add<<<1, 256>>>(b.device, 1);
    HIP_OK(hipMemcpy(b.device, shared, bytes, hipMemcpyHostToDevice));
    number(shared, -7);
    add<<<1, 256>>>(b.device, 1);
    std::vector<int> seen(count);
    HIP_OK(hipMemcpy(seen.data(), b.device, bytes, hipMemcpyDeviceToHost));
    expect("a copy that waits", seen.data(), 1111);
    HIP_OK(hipMemcpy(shared, b.device, bytes, hipMemcpyDeviceToHost));
    expect("and back", shared, 1111);

    // From host to host.
    add<<<1, 256>>>(shared, 5);
    HIP_OK(hipMemcpy(seen.data(), shared, bytes, hipMemcpyDefault));
    expect("from shared to plain", seen.data(), 1116);
    number(seen.data(), 50);
    HIP_OK(hipMemcpy(shared, seen.data(), bytes, hipMemcpyDefault));
    add<<<1, 256>>>(shared, 5);
    HIP_OK(hipDeviceSynchronize());
    expect("from plain to shared", shared, 55);

    // Rows.
    constexpr size_t width = columns * sizeof(int);
    add<<<1, 256>>>(shared, 1);
    HIP_OK(hipMemcpy2DAsync(b.device, width, shared, width, width, rows, hipMemcpyHostToDevice, nullptr));
    add<<<1, 256>>>(b.device, 1);
    HIP_OK(hipMemcpy2D(shared, width, b.device, width, width, rows, hipMemcpyDeviceToHost));
    expect("rows", shared, 57);

    // Fills.
    add<<<1, 256>>>(shared, 1);
    HIP_OK(hipMemset(shared, 0, bytes));
    for (int i = 0; i < count; ++i)
      if (shared[i] != 0)
        fail("filled memory has %d at %d", shared[i], i);
    HIP_OK(hipMemsetD32Async(shared, 3, count, b.stream));
    add<<<1, 256, 0, b.stream>>>(shared, 4);
    HIP_OK(hipStreamSynchronize(b.stream));
    for (int i = 0; i < count; ++i)
      if (shared[i] != 7)
        fail("filled and added to, memory has %d at %d", shared[i], i);
  }
}

struct Step {
  int *data;
  int wanted;
  bool right;
};

static void check_and_set(void *argument) {
  Step *step = static_cast<Step *>(argument);
  step->right = true;
  for (int i = 0; i < count; ++i) {
    step->right = step->right && step->data[i] == step->wanted + i;
    step->data[i] += 1;
  }
}

static void host_functions_see_and_are_seen(Buffers &b, int *shared) {
  constexpr int turns = 10;
  std::vector<Step> steps(turns);
  number(shared, 0);
  for (int turn = 0; turn < turns; ++turn) {
    add<<<1, 256, 0, b.stream>>>(shared, 10);
    steps[turn] = {shared, 11 * turn + 10, false};
    HIP_OK(hipLaunchHostFunc(b.stream, check_and_set, &steps[turn]));
  }
  HIP_OK(hipStreamSynchronize(b.stream));
  for (int turn = 0; turn < turns; ++turn)
    if (!steps[turn].right)
      fail("host function %d saw something else", turn);
  expect("kernels and host functions in turn", shared, 11 * turns);
}

static void a_graph_sees_what_the_host_wrote_before_each_launch(Buffers &b, int *shared) {
  hipGraph_t graph;
  hipGraphExec_t executable;
  HIP_OK(hipStreamBeginCapture(b.stream, hipStreamCaptureModeGlobal));
  add<<<1, 256, 0, b.stream>>>(shared, 10);
  HIP_OK(hipMemcpyAsync(b.device, shared, count * sizeof(int), hipMemcpyHostToDevice, b.stream));
  HIP_OK(hipStreamEndCapture(b.stream, &graph));
  HIP_OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  for (int turn = 0; turn < 4; ++turn) {
    number(shared, turn * 500);
    HIP_OK(hipGraphLaunch(executable, b.stream));
    HIP_OK(hipStreamSynchronize(b.stream));
    expect("after a graph", shared, turn * 500 + 10);
    std::vector<int> seen(count);
    HIP_OK(hipMemcpy(seen.data(), b.device, count * sizeof(int), hipMemcpyDeviceToHost));
    expect("what a graph copied", seen.data(), turn * 500 + 10);
  }
  HIP_OK(hipGraphExecDestroy(executable));
  HIP_OK(hipGraphDestroy(graph));
}

// Large enough that only written pages are compared, and that copies are split.
static void a_large_buffer_is_sent_where_it_changed() {
  constexpr int length = 3 << 20;
  constexpr size_t bytes = length * sizeof(int);
  int *pinned = nullptr, *device = nullptr;
  HIP_OK(hipHostMalloc(reinterpret_cast<void **>(&pinned), bytes, hipHostMallocDefault));
  HIP_OK(hipMalloc(reinterpret_cast<void **>(&device), bytes));
  std::vector<int> wanted(length);
  for (int turn = 0; turn < 3; ++turn) {
    for (int i = turn; i < length; i += turn == 0 ? 1 : 100003)
      pinned[i] = wanted[i] = i * 3 + turn;
    HIP_OK(hipMemcpyAsync(device, pinned, bytes, hipMemcpyHostToDevice, nullptr));
    big_add<<<64, 256>>>(pinned, length, 1);
    big_add<<<64, 256>>>(device, length, 2);
    HIP_OK(hipDeviceSynchronize());
    for (int i = 0; i < length; ++i)
      if (pinned[i] != wanted[i] + 1)
        fail("turn %d: element %d is %d, not %d", turn, i, pinned[i], wanted[i] + 1);
    HIP_OK(hipMemcpyAsync(pinned, device, bytes, hipMemcpyDeviceToHost, nullptr));
    HIP_OK(hipStreamSynchronize(nullptr));
    for (int i = 0; i < length; ++i) {
      wanted[i] += 2;
      if (pinned[i] != wanted[i])
        fail("turn %d: element %d came back as %d, not %d", turn, i, pinned[i], wanted[i]);
    }
  }
  HIP_OK(hipFree(device));
  HIP_OK(hipHostFree(pinned));
}

int main() {
  {
    Buffers b;
    for (int *shared : {b.pinned, b.managed}) {
      copies_come_in_their_place(b, shared);
      host_functions_see_and_are_seen(b, shared);
      a_graph_sees_what_the_host_wrote_before_each_launch(b, shared);
    }
  }
  a_large_buffer_is_sent_where_it_changed();
  return pass();
}
