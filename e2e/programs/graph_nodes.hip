// Graphs built node by node: their results, their queries, and the effect of changed node parameters.
#include "check.h"

#include <cstring>
#include <string>

EXAMPLE("graph_nodes");

constexpr int n = 64;

__global__ void scale(int *data, int factor) { data[threadIdx.x] *= factor; }
__global__ void add(int *data, const int *more) { data[threadIdx.x] += more[threadIdx.x]; }

__device__ int table[n];
__global__ void add_table(int *data) { data[threadIdx.x] += table[threadIdx.x]; }

static void count(void *data) { ++*static_cast<int *>(data); }

struct Launcher {
  hipStream_t stream;
  Launcher() { HIP_OK(hipStreamCreate(&stream)); }
  ~Launcher() { HIP_OK(hipStreamDestroy(stream)); }
  void operator()(hipGraphExec_t executable) {
    HIP_OK(hipGraphLaunch(executable, stream));
    HIP_OK(hipStreamSynchronize(stream));
  }
};

static void expect(const char *what, const std::vector<int> &got, int wanted) {
  for (size_t i = 0; i < got.size(); ++i)
    if (got[i] != wanted)
      fail("%s[%zu] is %d, not %d", what, i, got[i], wanted);
}

static hipKernelNodeParams kernel(void *function, void **arguments) {
  hipKernelNodeParams parameters{};
  parameters.func = function;
  parameters.gridDim = dim3(1);
  parameters.blockDim = dim3(n);
  parameters.kernelParams = arguments;
  return parameters;
}

static hipMemsetParams fill(void *to, unsigned value, unsigned element, size_t width) {
  hipMemsetParams parameters{};
  parameters.dst = to;
  parameters.value = value;
  parameters.elementSize = element;
  parameters.width = width;
  parameters.height = 1;
  parameters.pitch = width * element;
  return parameters;
}

// memset -> copy in -> kernel -> copy out, and a host function.
static void a_graph_does_what_its_nodes_say() {
  Launcher launch;
  DeviceArray<int> sum(n), more(n);
  std::vector<int> input(n, 3), output(n, -1);
  int calls = 0, factor = 10;
  hipGraph_t graph;
  HIP_OK(hipGraphCreate(&graph, 0));
  hipGraphNode_t set, in, adding, scaling, out, host;
  hipMemsetParams zero = fill(sum.get(), 1, 4, n);
  HIP_OK(hipGraphAddMemsetNode(&set, graph, nullptr, 0, &zero));
  HIP_OK(hipGraphAddMemcpyNode1D(&in, graph, nullptr, 0, more.get(), input.data(), more.bytes(), hipMemcpyHostToDevice));
  int *a = sum.get(), *b = more.get();
  void *both[] = {&a, &b}, *scaled[] = {&a, &factor};
  hipKernelNodeParams first = kernel(reinterpret_cast<void *>(add), both);
  hipGraphNode_t roots[] = {set, in};
  HIP_OK(hipGraphAddKernelNode(&adding, graph, roots, 2, &first));
  hipKernelNodeParams second = kernel(reinterpret_cast<void *>(scale), scaled);
  HIP_OK(hipGraphAddKernelNode(&scaling, graph, &adding, 1, &second));
  factor = 77; // The node has a copy of the old value.
  HIP_OK(hipGraphAddMemcpyNode1D(&out, graph, &scaling, 1, output.data(), sum.get(), sum.bytes(), hipMemcpyDeviceToHost));
  hipHostNodeParams counting{count, &calls};
  HIP_OK(hipGraphAddHostNode(&host, graph, &out, 1, &counting));

  size_t nodes = 0, edges = 0, found = 0;
  HIP_OK(hipGraphGetNodes(graph, nullptr, &nodes));
  HIP_OK(hipGraphGetEdges(graph, nullptr, nullptr, &edges));
  HIP_OK(hipGraphGetRootNodes(graph, nullptr, &found));
  if (nodes != 6 || edges != 5 || found != 2)
    fail("%zu nodes, %zu edges, %zu roots", nodes, edges, found);
  std::vector<hipGraphNode_t> list(8, host);
  nodes = 8;
  HIP_OK(hipGraphGetNodes(graph, list.data(), &nodes));
  if (nodes != 6 || list[6] != nullptr || list[5] != host)
    fail("the nodes are not listed in order, with nulls behind them");
  found = 1;
  HIP_OK(hipGraphNodeGetDependencies(adding, list.data(), &found));
  if (found != 1 || list[0] != set)
    fail("the first dependency is not the first that was named");
  HIP_OK(hipGraphNodeGetDependentNodes(adding, nullptr, &found));
  if (found != 1)
    fail("%zu nodes depend on the first kernel", found);
  hipGraphNodeType type;
  HIP_OK(hipGraphNodeGetType(in, &type));
  if (type != hipGraphNodeTypeMemcpy)
    fail("a copy is of type %d", type);

  hipGraphExec_t executable;
  HIP_OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  HIP_OK(hipGraphUpload(executable, launch.stream));
  for (int turn = 1; turn <= 3; ++turn) {
    std::fill(input.begin(), input.end(), turn);
    launch(executable);
    expect("output", output, 10 * (turn + 1));
    if (calls != turn)
      fail("%d host functions after launch %d", calls, turn);
  }

  // Launches of one graph on several streams are serialized, without a synchronization in between.
  Launcher other;
  std::fill(input.begin(), input.end(), 5);
  for (int turn = 0; turn < 6; ++turn)
    HIP_OK(hipGraphLaunch(executable, turn % 2 ? launch.stream : other.stream));
  HIP_OK(hipDeviceSynchronize());
  expect("output", output, 60);
  if (calls != 9)
    fail("%d host functions after nine launches", calls);

  // Parameters of executable nodes.
  int *c = more.get();
  void *twice[] = {&a, &c};
  hipKernelNodeParams changed = kernel(reinterpret_cast<void *>(add), twice);
  HIP_OK(hipGraphExecKernelNodeSetParams(executable, scaling, &changed)); // a different kernel function
  hipMemsetParams hundred = fill(sum.get(), 100, 4, n);
  HIP_OK(hipGraphExecMemsetNodeSetParams(executable, set, &hundred));
  std::vector<int> elsewhere(n, -1), from(n, 7);
  HIP_OK(hipGraphExecMemcpyNodeSetParams1D(executable, out, elsewhere.data(), sum.get(), sum.bytes(), hipMemcpyDeviceToHost));
  HIP_OK(hipGraphExecMemcpyNodeSetParams1D(executable, in, more.get(), from.data(), more.bytes(), hipMemcpyHostToDevice));
  HIP_FAILS(hipErrorInvalidValue, hipGraphExecMemcpyNodeSetParams1D(executable, in, from.data(), more.get(), more.bytes(),
                                                                    hipMemcpyDeviceToHost));
  int other_calls = 0;
  hipHostNodeParams counting_others{count, &other_calls};
  HIP_OK(hipGraphExecHostNodeSetParams(executable, host, &counting_others));
  launch(executable);
  expect("elsewhere", elsewhere, 114);
  if (calls != 9 || other_calls != 1)
    fail("the old host function was called");

  // Switching nodes off and on.
  unsigned enabled = 9;
  HIP_OK(hipGraphNodeSetEnabled(executable, scaling, 0));
  HIP_OK(hipGraphNodeGetEnabled(executable, scaling, &enabled));
  launch(executable);
  expect("elsewhere", elsewhere, 107);
  HIP_OK(hipGraphNodeSetEnabled(executable, scaling, 1));
  HIP_OK(hipGraphNodeSetEnabled(executable, in, 0));
  std::fill(from.begin(), from.end(), 1000);
  launch(executable);
  expect("elsewhere", elsewhere, 114);
  HIP_FAILS(hipErrorInvalidValue, hipGraphNodeSetEnabled(executable, host, 0));
  if (enabled != 0)
    fail("the node is not reported as disabled");

  // The graph itself did not change; updating from it restores the original parameters.
  hipGraphNode_t wrong = host;
  hipGraphExecUpdateResult result;
  HIP_OK(hipGraphNodeSetEnabled(executable, in, 1));
  HIP_OK(hipGraphExecUpdate(executable, graph, &wrong, &result));
  if (wrong != nullptr || result != hipGraphExecUpdateSuccess)
    fail("the update failed at node %p: %d", static_cast<void *>(wrong), result);
  std::fill(input.begin(), input.end(), 1);
  launch(executable);
  expect("output", output, 20);

  // Parameters can be read, modified and set again.
  hipKernelNodeParams read{};
  HIP_OK(hipGraphKernelNodeGetParams(scaling, &read));
  if (read.func != reinterpret_cast<void *>(scale) || read.blockDim.x != n || *static_cast<int *>(read.kernelParams[1]) != 10)
    fail("the kernel node returns wrong parameters");
  int four = 4;
  read.kernelParams[1] = &four;
  HIP_OK(hipGraphKernelNodeSetParams(scaling, &read));
  hipMemcpy3DParms box{};
  HIP_OK(hipGraphMemcpyNodeGetParams(in, &box));
  if (box.srcPtr.ptr != input.data() || box.extent.width != more.bytes() || box.kind != hipMemcpyHostToDevice)
    fail("the copy node returns wrong parameters");
  hipMemsetParams told{};
  HIP_OK(hipGraphMemsetNodeGetParams(set, &told));
  told.value = 2;
  HIP_OK(hipGraphMemsetNodeSetParams(set, &told));
  hipHostNodeParams host_told{};
  HIP_OK(hipGraphHostNodeGetParams(host, &host_told));
  if (host_told.fn != count || host_told.userData != &calls)
    fail("the host node returns wrong parameters");
  launch(executable); // the executable graph has not changed yet
  expect("output", output, 20);
  HIP_OK(hipGraphExecUpdate(executable, graph, &wrong, &result));
  launch(executable);
  expect("output", output, 12);

  // An update from a graph of another topology is rejected and changes nothing.
  hipGraph_t clone;
  HIP_OK(hipGraphClone(&clone, graph));
  hipGraphNode_t twin;
  HIP_OK(hipGraphNodeFindInClone(&twin, scaling, clone));
  HIP_FAILS(hipErrorInvalidValue, hipGraphNodeFindInClone(&twin, scaling, graph));
  HIP_OK(hipGraphNodeFindInClone(&twin, out, clone));
  HIP_OK(hipGraphDestroyNode(twin));
  HIP_FAILS(hipErrorGraphExecUpdateFailure, hipGraphExecUpdate(executable, clone, &wrong, &result));
  if (result != hipGraphExecUpdateErrorTopologyChanged)
    fail("a node less is result %d", result);
  hipGraphNode_t empty, last;
  HIP_OK(hipGraphNodeFindInClone(&twin, scaling, clone));
  HIP_OK(hipGraphNodeFindInClone(&last, host, clone));
  HIP_OK(hipGraphAddEmptyNode(&empty, clone, &twin, 1));
  HIP_OK(hipGraphAddDependencies(clone, &empty, &last, 1));
  HIP_FAILS(hipErrorGraphExecUpdateFailure, hipGraphExecUpdate(executable, clone, &wrong, &result));
  if (result != hipGraphExecUpdateErrorNodeTypeChanged || wrong != empty)
    fail("a node of another type is result %d", result);
  launch(executable);
  expect("output", output, 12);
  HIP_OK(hipGraphDestroy(clone));
  HIP_OK(hipGraphDestroy(graph));
  launch(executable);
  expect("output", output, 12);
  HIP_FAILS(hipErrorInvalidValue, hipGraphNodeSetEnabled(executable, scaling, 0)); // a node of a destroyed graph
  HIP_OK(hipGraphExecDestroy(executable));
}

static void children_are_graphs_of_their_own() {
  Launcher launch;
  DeviceArray<int> data(std::vector<int>(n, 1));
  int *a = data.get(), three = 3, five = 5;
  void *by_three[] = {&a, &three}, *by_five[] = {&a, &five};
  hipGraph_t inner, outer, found;
  HIP_OK(hipGraphCreate(&inner, 0));
  HIP_OK(hipGraphCreate(&outer, 0));
  hipGraphNode_t scaling, again, child, first, last;
  hipKernelNodeParams parameters = kernel(reinterpret_cast<void *>(scale), by_three);
  HIP_OK(hipGraphAddKernelNode(&scaling, inner, nullptr, 0, &parameters));
  HIP_OK(hipGraphAddKernelNode(&again, inner, &scaling, 1, &parameters));
  hipMemsetParams two = fill(data.get(), 2, 4, n);
  HIP_OK(hipGraphAddMemsetNode(&first, outer, nullptr, 0, &two));
  HIP_OK(hipGraphAddChildGraphNode(&child, outer, &first, 1, inner));
  HIP_OK(hipGraphAddKernelNode(&last, outer, &child, 1, &parameters));
  HIP_OK(hipGraphChildGraphNodeGetGraph(child, &found));
  if (found == inner)
    fail("the child is not a copy");
  hipGraphExec_t executable;
  HIP_OK(hipGraphInstantiateWithFlags(&executable, outer, 0));
  launch(executable);
  expect("data", data.read(), 54);
  // The child of the executable graph can be updated from a graph of the same topology.
  hipKernelNodeParams other = kernel(reinterpret_cast<void *>(scale), by_five);
  HIP_OK(hipGraphKernelNodeSetParams(scaling, &other));
  HIP_OK(hipGraphExecChildGraphNodeSetParams(executable, child, inner));
  launch(executable);
  expect("data", data.read(), 90);
  hipGraphNode_t extra;
  HIP_OK(hipGraphAddEmptyNode(&extra, inner, nullptr, 0));
  HIP_FAILS(hipErrorUnknown, hipGraphExecChildGraphNodeSetParams(executable, child, inner));
  // A graph can contain a copy of its earlier state as a child.
  hipGraphNode_t self;
  size_t nodes = 0;
  HIP_OK(hipGraphAddChildGraphNode(&self, inner, nullptr, 0, inner));
  HIP_OK(hipGraphChildGraphNodeGetGraph(self, &found));
  HIP_OK(hipGraphGetNodes(found, nullptr, &nodes));
  if (nodes != 3)
    fail("the copy of a graph in itself has %zu nodes", nodes);
  HIP_OK(hipGraphDestroy(inner));
  HIP_OK(hipGraphDestroy(outer));
  launch(executable);
  expect("data", data.read(), 90);
  HIP_OK(hipGraphExecDestroy(executable));
}

static void copies_of_boxes_and_variables() {
  Launcher launch;
  constexpr int width = 5, height = 4, depth = 3, pitch = 8;
  std::vector<int> volume(width * height * depth), back(volume.size() * 2, -1);
  for (size_t i = 0; i < volume.size(); ++i)
    volume[i] = static_cast<int>(i * i);
  DeviceArray<int> one(std::vector<int>(pitch * height * depth, 0)), two(std::vector<int>(pitch * height * depth, 0));
  hipGraph_t graph;
  HIP_OK(hipGraphCreate(&graph, 0));
  auto pitched = [](void *pointer, size_t row, size_t rows) {
    return hipPitchedPtr{pointer, row * sizeof(int), row * sizeof(int), rows};
  };
  hipMemcpy3DParms in{}, over{}, out{};
  in.srcPtr = pitched(volume.data(), width, height);
  in.dstPtr = pitched(one.get(), pitch, height);
  in.extent = {width * sizeof(int), height, depth};
  in.kind = hipMemcpyHostToDevice;
  over.srcPtr = pitched(one.get(), pitch, height);
  over.dstPtr = pitched(two.get(), pitch, height);
  over.srcPos = {sizeof(int), 1, 1};
  over.dstPos = {2 * sizeof(int), 0, 0};
  over.extent = {3 * sizeof(int), 2, 2};
  over.kind = hipMemcpyDeviceToDevice;
  out.srcPtr = pitched(two.get(), pitch, height);
  out.srcPos = {2 * sizeof(int), 0, 0};
  out.dstPtr = pitched(back.data(), 10, 3);
  out.extent = {3 * sizeof(int), 2, 2};
  out.kind = hipMemcpyDeviceToHost;
  hipGraphNode_t nodes[3];
  HIP_OK(hipGraphAddMemcpyNode(&nodes[0], graph, nullptr, 0, &in));
  HIP_OK(hipGraphAddMemcpyNode(&nodes[1], graph, &nodes[0], 1, &over));
  HIP_OK(hipGraphAddMemcpyNode(&nodes[2], graph, &nodes[1], 1, &out));
  hipGraphExec_t executable;
  HIP_OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  launch(executable);
  for (int z = 0; z < 3; ++z)
    for (int y = 0; y < 3; ++y)
      for (int x = 0; x < 10; ++x) {
        int at = (z * 3 + y) * 10 + x, wanted = -1;
        if (z < 2 && y < 2 && x < 3)
          wanted = volume[((z + 1) * height + y + 1) * width + x + 1];
        if (at < static_cast<int>(back.size()) && back[at] != wanted)
          fail("(%d, %d, %d) is %d, not %d", x, y, z, back[at], wanted);
      }
  HIP_OK(hipGraphExecDestroy(executable));
  HIP_OK(hipGraphDestroy(graph));

  // Pitched rows of two-byte elements.
  std::vector<int> lines(pitch * height, 0);
  DeviceArray<int> rows(lines);
  HIP_OK(hipGraphCreate(&graph, 0));
  hipMemsetParams pattern{};
  pattern.dst = rows.get();
  pattern.value = 0x1234;
  pattern.elementSize = 2;
  pattern.width = 6;
  pattern.height = height;
  pattern.pitch = pitch * sizeof(int);
  HIP_OK(hipGraphAddMemsetNode(&nodes[0], graph, nullptr, 0, &pattern));
  HIP_OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  launch(executable);
  std::vector<int> got = rows.read();
  for (int i = 0; i < pitch * height; ++i)
    if (got[i] != (i % pitch < 3 ? 0x12341234 : 0))
      fail("element %d of the filled rows is %#x", i, static_cast<unsigned>(got[i]));
  HIP_OK(hipGraphExecDestroy(executable));
  HIP_OK(hipGraphDestroy(graph));

  // A copy to a symbol, a kernel that uses it, and a copy from it.
  std::vector<int> values(n, 6), readback(n / 2, 0);
  DeviceArray<int> data(std::vector<int>(n, 1));
  int *a = data.get();
  void *arguments[] = {&a};
  HIP_OK(hipGraphCreate(&graph, 0));
  HIP_OK(hipGraphAddMemcpyNodeToSymbol(&nodes[0], graph, nullptr, 0, HIP_SYMBOL(table), values.data(), n * sizeof(int), 0,
                                       hipMemcpyHostToDevice));
  hipKernelNodeParams parameters = kernel(reinterpret_cast<void *>(add_table), arguments);
  HIP_OK(hipGraphAddKernelNode(&nodes[1], graph, &nodes[0], 1, &parameters));
  HIP_OK(hipGraphAddMemcpyNodeFromSymbol(&nodes[2], graph, &nodes[1], 1, readback.data(), HIP_SYMBOL(table),
                                         n / 2 * sizeof(int), n / 2 * sizeof(int), hipMemcpyDeviceToHost));
  HIP_OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  launch(executable);
  expect("data", data.read(), 7);
  expect("readback", readback, 6);
  std::vector<int> nines(n, 9);
  HIP_OK(hipGraphExecMemcpyNodeSetParamsToSymbol(executable, nodes[0], HIP_SYMBOL(table), nines.data(), n * sizeof(int), 0,
                                                 hipMemcpyHostToDevice));
  launch(executable);
  expect("data", data.read(), 16);
  expect("readback", readback, 9);
  HIP_FAILS(hipErrorInvalidSymbol, hipGraphExecMemcpyNodeSetParamsToSymbol(executable, nodes[0], nullptr, nines.data(), 4, 0,
                                                                           hipMemcpyHostToDevice));
  HIP_OK(hipGraphExecDestroy(executable));
  HIP_OK(hipGraphDestroy(graph));
}

struct Fill {
  int *to, value;
};
static void write(void *data) {
  auto *it = static_cast<Fill *>(data);
  for (int i = 0; i < n; ++i)
    it->to[i] = it->value;
  ++it->value;
}

// A copy in a graph reads host memory as an earlier host function or copy of the same graph has written it.
static void copies_take_what_the_graph_itself_wrote() {
  Launcher launch;
  DeviceArray<int> data(n), more(n);
  std::vector<int> staging(n, -1), through(n, -1), out(n, -1);
  Fill job{staging.data(), 40};
  hipGraph_t graph;
  HIP_OK(hipGraphCreate(&graph, 0));
  hipGraphNode_t nodes[6];
  hipHostNodeParams writing{write, &job};
  HIP_OK(hipGraphAddHostNode(&nodes[0], graph, nullptr, 0, &writing));
  HIP_OK(hipGraphAddMemcpyNode1D(&nodes[1], graph, &nodes[0], 1, data.get(), staging.data(), data.bytes(), hipMemcpyHostToDevice));
  HIP_OK(hipGraphAddMemcpyNode1D(&nodes[2], graph, &nodes[1], 1, through.data(), data.get(), data.bytes(), hipMemcpyDeviceToHost));
  HIP_OK(hipGraphAddMemcpyNode1D(&nodes[3], graph, &nodes[2], 1, more.get(), through.data(), data.bytes(), hipMemcpyHostToDevice));
  HIP_OK(hipGraphAddMemcpyNode1D(&nodes[4], graph, &nodes[3], 1, out.data(), more.get(), data.bytes(), hipMemcpyDeviceToHost));
  hipGraphExec_t executable;
  HIP_OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  for (int turn = 0; turn < 3; ++turn) {
    launch(executable);
    expect("out", out, 40 + turn);
  }
  HIP_OK(hipGraphExecDestroy(executable));
  HIP_OK(hipGraphDestroy(graph));

  // The same over two launches without synchronization: a host function of the first writes what the second copies.
  HIP_OK(hipGraphCreate(&graph, 0));
  HIP_OK(hipGraphAddMemcpyNode1D(&nodes[0], graph, nullptr, 0, data.get(), staging.data(), data.bytes(), hipMemcpyHostToDevice));
  HIP_OK(hipGraphAddMemcpyNode1D(&nodes[1], graph, &nodes[0], 1, out.data(), data.get(), data.bytes(), hipMemcpyDeviceToHost));
  HIP_OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  for (int turn = 0; turn < 5; ++turn) {
    HIP_OK(hipLaunchHostFunc(launch.stream, write, &job));
    HIP_OK(hipGraphLaunch(executable, launch.stream));
  }
  HIP_OK(hipStreamSynchronize(launch.stream));
  expect("out", out, 47);
  HIP_OK(hipGraphExecDestroy(executable));
  HIP_OK(hipGraphDestroy(graph));
}

static void events_in_graphs_are_events() {
  Launcher launch, waiting;
  DeviceArray<int> data(std::vector<int>(n, 1));
  int *a = data.get(), three = 3;
  void *arguments[] = {&a, &three};
  hipEvent_t start, stop, got;
  HIP_OK(hipEventCreate(&start));
  HIP_OK(hipEventCreate(&stop));
  hipGraph_t graph;
  HIP_OK(hipGraphCreate(&graph, 0));
  hipGraphNode_t first, scaling, last;
  HIP_OK(hipGraphAddEventRecordNode(&first, graph, nullptr, 0, start));
  hipKernelNodeParams parameters = kernel(reinterpret_cast<void *>(scale), arguments);
  HIP_OK(hipGraphAddKernelNode(&scaling, graph, &first, 1, &parameters));
  HIP_OK(hipGraphAddEventRecordNode(&last, graph, &scaling, 1, stop));
  HIP_OK(hipGraphEventRecordNodeGetEvent(last, &got));
  if (got != stop)
    fail("the node records another event");
  HIP_FAILS(hipErrorInvalidValue, hipGraphEventWaitNodeGetEvent(last, &got));
  hipGraphExec_t executable;
  HIP_OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  HIP_OK(hipGraphLaunch(executable, launch.stream));
  HIP_OK(hipEventSynchronize(stop));
  float milliseconds = -1;
  HIP_OK(hipEventElapsedTime(&milliseconds, start, stop));
  if (!(milliseconds >= 0))
    fail("the kernel took %g ms", static_cast<double>(milliseconds));
  expect("data", data.read(), 3);

  // A graph with a wait for an event of another stream.
  hipGraph_t after;
  hipGraphNode_t wait, again;
  HIP_OK(hipGraphCreate(&after, 0));
  HIP_OK(hipGraphAddEventWaitNode(&wait, after, nullptr, 0, stop));
  HIP_OK(hipGraphAddKernelNode(&again, after, &wait, 1, &parameters));
  hipGraphExec_t follower;
  HIP_OK(hipGraphInstantiate(&follower, after, nullptr, nullptr, 0));
  HIP_OK(hipGraphLaunch(executable, launch.stream));
  HIP_OK(hipGraphLaunch(follower, waiting.stream));
  HIP_OK(hipStreamSynchronize(waiting.stream));
  expect("data", data.read(), 27);
  HIP_OK(hipGraphExecDestroy(executable));
  HIP_OK(hipGraphExecDestroy(follower));
  HIP_OK(hipGraphDestroy(graph));
  HIP_OK(hipGraphDestroy(after));
  HIP_OK(hipEventDestroy(start));
  HIP_OK(hipEventDestroy(stop));
}

static uint64_t memory(hipGraphMemAttributeType attribute) {
  uint64_t value = ~0ull;
  HIP_OK(hipDeviceGetGraphMemAttribute(0, attribute, &value));
  return value;
}

static void graphs_allocate_and_free() {
  Launcher launch;
  std::vector<int> output(n, -1);
  hipGraph_t graph;
  HIP_OK(hipGraphCreate(&graph, 0));
  hipMemAllocNodeParams wanted{};
  wanted.poolProps.allocType = hipMemAllocationTypePinned;
  wanted.poolProps.location.type = hipMemLocationTypeDevice;
  wanted.poolProps.location.id = 0;
  wanted.bytesize = n * sizeof(int);
  hipGraphNode_t allocating, filling, out, freeing;
  HIP_OK(hipGraphAddMemAllocNode(&allocating, graph, nullptr, 0, &wanted));
  if (wanted.dptr == nullptr)
    fail("the allocation has no address");
  hipMemsetParams value = fill(wanted.dptr, 11, 4, n);
  HIP_OK(hipGraphAddMemsetNode(&filling, graph, &allocating, 1, &value));
  HIP_OK(hipGraphAddMemcpyNode1D(&out, graph, &filling, 1, output.data(), wanted.dptr, n * sizeof(int), hipMemcpyDeviceToHost));
  hipGraph_t clone;
  HIP_FAILS(hipErrorNotSupported, hipGraphClone(&clone, graph));
  HIP_FAILS(hipErrorNotSupported, hipGraphDestroyNode(allocating));
  hipGraphExec_t executable, second;
  HIP_OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  HIP_FAILS(hipErrorNotSupported, hipGraphInstantiate(&second, graph, nullptr, nullptr, 0));
  launch(executable);
  expect("output", output, 11);
  // A graph whose memory was not freed cannot be launched again.
  HIP_FAILS(hipErrorInvalidValue, hipGraphLaunch(executable, launch.stream));
  if (memory(hipGraphMemAttrUsedMemCurrent) != n * sizeof(int))
    fail("graphs use %llu bytes", static_cast<unsigned long long>(memory(hipGraphMemAttrUsedMemCurrent)));
  HIP_OK(hipFree(wanted.dptr));
  HIP_FAILS(hipErrorInvalidValue, hipFree(wanted.dptr));
  if (memory(hipGraphMemAttrUsedMemCurrent) != 0 || memory(hipGraphMemAttrReservedMemCurrent) == 0)
    fail("freed memory is still used, or was not kept");
  HIP_OK(hipDeviceGraphMemTrim(0));
  if (memory(hipGraphMemAttrReservedMemCurrent) != 0 || memory(hipGraphMemAttrReservedMemHigh) == 0)
    fail("trimming changed nothing, or the high mark");
  launch(executable);
  expect("output", output, 11);
  HIP_OK(hipFree(wanted.dptr));
  HIP_OK(hipGraphExecDestroy(executable));
  // A second executable graph is possible once the first is destroyed; only two at the same time are rejected.
  HIP_OK(hipGraphInstantiate(&second, graph, nullptr, nullptr, 0));
  output.assign(n, -1);
  launch(second);
  expect("output", output, 11);
  HIP_OK(hipFree(wanted.dptr));
  HIP_OK(hipGraphExecDestroy(second));
  HIP_OK(hipGraphDestroy(graph));
  if (memory(hipGraphMemAttrReservedMemCurrent) != 0)
    fail("a destroyed graph still holds memory");
  uint64_t zero = 0;
  HIP_OK(hipDeviceSetGraphMemAttribute(0, hipGraphMemAttrUsedMemHigh, &zero));
  if (memory(hipGraphMemAttrUsedMemHigh) != 0)
    fail("the high mark was not put back");
  HIP_FAILS(hipErrorInvalidValue, hipDeviceSetGraphMemAttribute(0, hipGraphMemAttrUsedMemCurrent, &zero));
  void *nowhere = reinterpret_cast<void *>(~0ull);
  HIP_FAILS(hipErrorInvalidValue, hipDeviceSetGraphMemAttribute(0, hipGraphMemAttrReservedMemCurrent, nowhere));
  uint64_t one = 1;
  HIP_FAILS(hipErrorInvalidValue, hipDeviceSetGraphMemAttribute(0, hipGraphMemAttrUsedMemHigh, &one));

  // A graph with a free node can be launched repeatedly.
  HIP_OK(hipGraphCreate(&graph, 0));
  HIP_OK(hipGraphAddMemAllocNode(&allocating, graph, nullptr, 0, &wanted));
  value = fill(wanted.dptr, 12, 4, n);
  HIP_OK(hipGraphAddMemsetNode(&filling, graph, &allocating, 1, &value));
  HIP_OK(hipGraphAddMemcpyNode1D(&out, graph, &filling, 1, output.data(), wanted.dptr, n * sizeof(int), hipMemcpyDeviceToHost));
  HIP_OK(hipGraphAddMemFreeNode(&freeing, graph, &out, 1, wanted.dptr));
  HIP_FAILS(hipErrorInvalidValue, hipGraphAddMemFreeNode(&freeing, graph, &out, 1, wanted.dptr));
  HIP_OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  for (int turn = 0; turn < 3; ++turn)
    launch(executable);
  expect("output", output, 12);
  HIP_OK(hipGraphExecDestroy(executable));
  HIP_OK(hipGraphDestroy(graph));
}

static void user_objects_live_as_long_as_their_graphs() {
  int destroyed = 0;
  hipUserObject_t object;
  HIP_OK(hipUserObjectCreate(&object, &destroyed, count, 2, hipUserObjectNoDestructorSync));
  hipGraph_t graph, clone;
  HIP_OK(hipGraphCreate(&graph, 0));
  HIP_OK(hipGraphRetainUserObject(graph, object, 1, hipGraphUserObjectMove));
  HIP_OK(hipUserObjectRelease(object, 1));
  HIP_OK(hipGraphClone(&clone, graph));
  hipGraphExec_t executable;
  HIP_OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  HIP_OK(hipGraphDestroy(graph));
  HIP_OK(hipGraphDestroy(clone));
  if (destroyed != 0)
    fail("the user object was destroyed before the executable graph");
  HIP_OK(hipGraphExecDestroy(executable));
  if (destroyed != 1)
    fail("the destructor ran %d times", destroyed);
  HIP_FAILS(hipErrorInvalidValue, hipUserObjectCreate(&object, &destroyed, nullptr, 1, hipUserObjectNoDestructorSync));
  HIP_FAILS(hipErrorInvalidValue, hipUserObjectCreate(&object, &destroyed, count, 0, hipUserObjectNoDestructorSync));
  HIP_FAILS(hipErrorInvalidValue, hipUserObjectCreate(&object, &destroyed, count, 1, 0));
}

static void any_node_by_one_struct() {
  Launcher launch;
  DeviceArray<int> data(std::vector<int>(n, 1));
  int *a = data.get(), seven = 7;
  void *arguments[] = {&a, &seven};
  hipGraph_t graph;
  HIP_OK(hipGraphCreate(&graph, 0));
  hipGraphNode_t filling, scaling;
  hipGraphNodeParams parameters{};
  parameters.type = hipGraphNodeTypeMemset;
  parameters.memset = fill(data.get(), 2, 4, n);
  HIP_OK(hipGraphAddNode(&filling, graph, nullptr, 0, &parameters));
  std::memset(&parameters, 0, sizeof parameters);
  parameters.type = hipGraphNodeTypeKernel;
  parameters.kernel = kernel(reinterpret_cast<void *>(scale), arguments);
  HIP_OK(hipGraphAddNode(&scaling, graph, &filling, 1, &parameters));
  hipGraphExec_t executable;
  HIP_OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  launch(executable);
  expect("data", data.read(), 14);
  seven = 8;
  HIP_OK(hipGraphNodeSetParams(scaling, &parameters));
  HIP_OK(hipGraphExecNodeSetParams(executable, scaling, &parameters));
  launch(executable);
  expect("data", data.read(), 16);
  parameters.type = hipGraphNodeTypeExtSemaphoreWait;
  HIP_FAILS(hipErrorNotSupported, hipGraphAddNode(&scaling, graph, nullptr, 0, &parameters));
  hipLaunchAttributeValue value{};
  value.priority = 0;
  HIP_OK(hipGraphKernelNodeSetAttribute(scaling, hipLaunchAttributePriority, &value));
  value.priority = 77;
  HIP_FAILS(hipErrorInvalidValue, hipGraphKernelNodeSetAttribute(scaling, hipLaunchAttributePriority, &value));
  HIP_OK(hipGraphKernelNodeGetAttribute(scaling, hipLaunchAttributePriority, &value));
  if (value.priority != 0)
    fail("the priority is %d", value.priority);
  HIP_FAILS(hipErrorInvalidValue, hipGraphKernelNodeGetAttribute(filling, hipLaunchAttributePriority, &value));

  std::string path = std::tmpnam(nullptr);
  HIP_OK(hipGraphDebugDotPrint(graph, path.c_str(), hipGraphDebugDotFlagsVerbose));
  std::FILE *file = std::fopen(path.c_str(), "r");
  std::string text(4096, ' ');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  std::remove(path.c_str());
  if (text.find("digraph") == std::string::npos || text.find("scale") == std::string::npos || text.find("->") == std::string::npos)
    fail("the drawing is %s", text.c_str());
  HIP_FAILS(hipErrorOperatingSystem, hipGraphDebugDotPrint(graph, "/nowhere/at/all", 0));
  HIP_OK(hipGraphExecDestroy(executable));
  HIP_OK(hipGraphDestroy(graph));
}

// The driver-style functions have a separate parameter struct before HIP 7.
#if HIP_VERSION_MAJOR >= 7
using DriverFill = hipMemsetParams;
#else
using DriverFill = HIP_MEMSET_NODE_PARAMS;
#endif

static void fills_of_the_driver_style_are_the_same() {
  Launcher launch;
  DeviceArray<short> data(std::vector<short>(n, 1));
  hipCtx_t context;
// Contexts are deprecated, but these functions require one.
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wdeprecated-declarations"
  HIP_OK(hipCtxGetCurrent(&context));
#pragma clang diagnostic pop
  DriverFill parameters{};
  parameters.dst = data.get();
  parameters.value = 0x0102;
  parameters.elementSize = 2;
  parameters.width = 8;
  parameters.height = 4;
  parameters.pitch = 32;
  hipGraph_t graph;
  hipGraphNode_t node;
  HIP_OK(hipGraphCreate(&graph, 0));
  HIP_OK(hipDrvGraphAddMemsetNode(&node, graph, nullptr, 0, &parameters, context));
  hipGraphExec_t executable;
  HIP_OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  launch(executable);
  std::vector<short> filled = data.read();
  for (int at = 0; at < n; ++at)
    if (filled[at] != (at % 16 < 8 ? 0x0102 : 1))
      fail("element %d is %d", at, filled[at]);
  parameters.value = 7;
  HIP_OK(hipDrvGraphExecMemsetNodeSetParams(executable, node, &parameters, context));
  launch(executable);
  filled = data.read();
  if (filled[0] != 7 || filled[8] != 1 || filled[55] != 7)
    fail("changed, the fill wrote %d, %d, %d", filled[0], filled[8], filled[55]);
  HIP_OK(hipGraphExecDestroy(executable));
  HIP_OK(hipGraphDestroy(graph));
}

int main() {
  a_graph_does_what_its_nodes_say();
  children_are_graphs_of_their_own();
  copies_of_boxes_and_variables();
  copies_take_what_the_graph_itself_wrote();
  events_in_graphs_are_events();
  graphs_allocate_and_free();
  fills_of_the_driver_style_are_the_same();
  user_objects_live_as_long_as_their_graphs();
  any_node_by_one_struct();
  return pass();
}
