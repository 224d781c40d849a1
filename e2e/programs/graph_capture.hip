// Stream captures over several streams, their queries, and everything that invalidates them, with the HIP error for it.
#include "check.h"

#include <thread>

EXAMPLE("graph_capture");

constexpr int n = 64;

__global__ void scale(int *data, int factor) { data[threadIdx.x] *= factor; }
__global__ void add(int *data, const int *more) { data[threadIdx.x] += more[threadIdx.x]; }

static hipStreamCaptureStatus status_of(hipStream_t stream) {
  hipStreamCaptureStatus status;
  HIP_OK(hipStreamIsCapturing(stream, &status));
  return status;
}

static size_t nodes_of(hipGraph_t graph) {
  size_t count = 0;
  HIP_OK(hipGraphGetNodes(graph, nullptr, &count));
  return count;
}

int main() {
  hipStream_t one, two, other;
  for (hipStream_t *stream : {&one, &two, &other})
    HIP_OK(hipStreamCreateWithFlags(stream, hipStreamNonBlocking));
  hipEvent_t forked, joined, plain;
  for (hipEvent_t *event : {&forked, &joined, &plain})
    HIP_OK(hipEventCreate(event));
  DeviceArray<int> a(std::vector<int>(n, 1)), b(std::vector<int>(n, 2));
  hipGraph_t graph;
  hipGraphExec_t executable;

  // Two streams, one graph: scale two buffers in parallel, then add them.
  HIP_OK(hipStreamBeginCapture(one, hipStreamCaptureModeGlobal));
  HIP_OK(hipEventRecord(forked, one));
  HIP_OK(hipStreamWaitEvent(two, forked, 0));
  if (status_of(two) != hipStreamCaptureStatusActive)
    fail("the second stream is not in the capture");
  scale<<<1, n, 0, one>>>(a.get(), 3);
  scale<<<1, n, 0, two>>>(b.get(), 5);
  HIP_OK(hipEventRecord(joined, two));
  HIP_OK(hipStreamWaitEvent(one, joined, 0));
  hipStreamCaptureStatus status;
  unsigned long long id = 0, same = 1;
  hipGraph_t into;
  const hipGraphNode_t *last = nullptr;
  size_t count = 0;
  HIP_OK(hipStreamGetCaptureInfo_v2(one, &status, &id, &into, &last, &count));
  HIP_OK(hipStreamGetCaptureInfo(two, &status, &same));
  if (status != hipStreamCaptureStatusActive || id != same || count != 2 || last[0] == last[1])
    fail("the next node comes after %zu nodes, in capture %llu and %llu", count, id, same);
  add<<<1, n, 0, one>>>(a.get(), b.get());
  HIP_FAILS(hipErrorStreamCaptureUnmatched, hipStreamEndCapture(two, &graph));
  HIP_OK(hipStreamEndCapture(one, &graph));
  if (graph != into || nodes_of(graph) != 3 || status_of(two) != hipStreamCaptureStatusNone)
    fail("the graph has %zu nodes", nodes_of(graph));
  HIP_OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  HIP_OK(hipGraphLaunch(executable, one));
  HIP_OK(hipStreamSynchronize(one));
  if (a.read() != std::vector<int>(n, 13) || b.read() != std::vector<int>(n, 10))
    fail("a is %d and b is %d", a.read()[0], b.read()[0]);

  // A graph launched during a capture becomes a child graph.
  HIP_OK(hipGraphDestroy(graph));
  HIP_OK(hipStreamBeginCapture(one, hipStreamCaptureModeGlobal));
  HIP_OK(hipGraphLaunch(executable, one));
  scale<<<1, n, 0, one>>>(a.get(), 2);
  HIP_OK(hipStreamEndCapture(one, &graph));
  if (nodes_of(graph) != 2)
    fail("a launch and a kernel are %zu nodes", nodes_of(graph));
  hipGraphExec_t outer;
  HIP_OK(hipGraphInstantiate(&outer, graph, nullptr, nullptr, 0));
  HIP_OK(hipGraphExecDestroy(executable));
  HIP_OK(hipGraphLaunch(outer, two));
  HIP_OK(hipStreamSynchronize(two));
  if (a.read() != std::vector<int>(n, 178))
    fail("a is %d after the child ran", a.read()[0]);
  HIP_OK(hipGraphExecDestroy(outer));
  HIP_OK(hipGraphDestroy(graph));

  // Capture into an existing graph, after one of its nodes; and dependencies that the program sets itself.
  HIP_OK(hipGraphCreate(&graph, 0));
  hipMemsetParams zero{};
  zero.dst = a.get();
  zero.elementSize = 4;
  zero.width = n;
  zero.height = 1;
  zero.value = 4;
  hipGraphNode_t filling;
  HIP_OK(hipGraphAddMemsetNode(&filling, graph, nullptr, 0, &zero));
  HIP_FAILS(hipErrorInvalidValue, hipStreamBeginCaptureToGraph(one, nullptr, &filling, nullptr, 1, hipStreamCaptureModeGlobal));
  HIP_FAILS(hipErrorInvalidValue, hipStreamBeginCaptureToGraph(one, graph, nullptr, nullptr, 1, hipStreamCaptureModeGlobal));
  HIP_OK(hipStreamBeginCaptureToGraph(one, graph, &filling, nullptr, 1, hipStreamCaptureModeGlobal));
  scale<<<1, n, 0, one>>>(a.get(), 7);
  HIP_FAILS(hipErrorInvalidValue, hipStreamUpdateCaptureDependencies(one, &filling, 1, 9));
  HIP_OK(hipStreamUpdateCaptureDependencies(one, &filling, 1, hipStreamAddCaptureDependencies));
  HIP_OK(hipStreamGetCaptureInfo_v2(one, &status, &id, nullptr, nullptr, &count));
  if (count != 2)
    fail("after adding a dependency there are %zu", count);
  scale<<<1, n, 0, one>>>(a.get(), 2);
  HIP_OK(hipStreamEndCapture(one, &into));
  if (into != graph || nodes_of(graph) != 3)
    fail("the capture returned a different graph");
  HIP_OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  HIP_OK(hipGraphLaunch(executable, one));
  HIP_OK(hipStreamSynchronize(one));
  if (a.read() != std::vector<int>(n, 56))
    fail("a is %d", a.read()[0]);
  HIP_OK(hipGraphExecDestroy(executable));
  HIP_OK(hipGraphDestroy(graph));
  HIP_FAILS(hipErrorIllegalState, hipStreamUpdateCaptureDependencies(one, nullptr, 0, hipStreamSetCaptureDependencies));

  // Memory allocated during a capture.
  std::vector<int> output(n, -1);
  HIP_OK(hipStreamBeginCapture(one, hipStreamCaptureModeGlobal));
  int *temporary = nullptr;
  HIP_OK(hipMallocAsync(reinterpret_cast<void **>(&temporary), n * sizeof(int), one));
  HIP_OK(hipMemsetAsync(temporary, 0, n * sizeof(int), one));
  add<<<1, n, 0, one>>>(temporary, b.get());
  HIP_OK(hipMemcpyAsync(output.data(), temporary, n * sizeof(int), hipMemcpyDeviceToHost, one));
  HIP_OK(hipFreeAsync(temporary, one));
  HIP_OK(hipStreamEndCapture(one, &graph));
  HIP_OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  for (int turn = 0; turn < 2; ++turn)
    HIP_OK(hipGraphLaunch(executable, one));
  HIP_OK(hipStreamSynchronize(one));
  if (output != std::vector<int>(n, b.read()[0]))
    fail("the memory of the graph held %d", output[0]);
  HIP_OK(hipGraphExecDestroy(executable));
  HIP_OK(hipGraphDestroy(graph));

  // A forked stream that is not joined.
  HIP_OK(hipStreamBeginCapture(one, hipStreamCaptureModeGlobal));
  HIP_OK(hipEventRecord(forked, one));
  HIP_OK(hipStreamWaitEvent(two, forked, 0));
  scale<<<1, n, 0, two>>>(b.get(), 1);
  HIP_FAILS(hipErrorStreamCaptureUnjoined, hipStreamEndCapture(one, &graph));
  if (graph != nullptr || status_of(one) != hipStreamCaptureStatusNone)
    fail("an invalidated capture returned a graph, or is still active");

  // Two captures that would be merged.
  HIP_OK(hipStreamBeginCapture(one, hipStreamCaptureModeRelaxed));
  HIP_OK(hipStreamBeginCapture(other, hipStreamCaptureModeRelaxed));
  HIP_OK(hipEventRecord(forked, one));
  HIP_FAILS(hipErrorStreamCaptureMerge, hipStreamWaitEvent(other, forked, 0));
  HIP_FAILS(hipErrorStreamCaptureInvalidated, hipStreamEndCapture(one, &graph));
  HIP_FAILS(hipErrorStreamCaptureInvalidated, hipStreamEndCapture(other, &graph));

  // An event recorded before the capture; a query of an event of the capture; a wait by the null stream.
  HIP_OK(hipEventRecord(plain, other));
  HIP_OK(hipStreamBeginCapture(one, hipStreamCaptureModeGlobal));
  HIP_FAILS(hipErrorStreamCaptureIsolation, hipStreamWaitEvent(one, plain, 0));
  HIP_FAILS(hipErrorStreamCaptureInvalidated, hipStreamEndCapture(one, &graph));
  HIP_OK(hipStreamBeginCapture(one, hipStreamCaptureModeGlobal));
  HIP_OK(hipEventRecord(forked, one));
  HIP_FAILS(hipErrorCapturedEvent, hipEventQuery(forked));
  HIP_FAILS(hipErrorStreamCaptureInvalidated, hipStreamEndCapture(one, &graph));
  HIP_OK(hipStreamBeginCapture(one, hipStreamCaptureModeGlobal));
  HIP_OK(hipEventRecord(forked, one));
  HIP_FAILS(hipErrorCapturedEvent, hipEventSynchronize(forked));
  HIP_FAILS(hipErrorStreamCaptureInvalidated, hipStreamEndCapture(one, &graph));

  // Calls that wait, free or allocate.
  auto broken_by = [&](auto call, hipError_t expected, hipStreamCaptureMode mode) {
    HIP_OK(hipStreamBeginCapture(one, mode));
    HIP_FAILS(expected, call());
    if (status_of(one) != hipStreamCaptureStatusInvalidated)
      fail("the capture is still active");
    HIP_FAILS(hipErrorStreamCaptureInvalidated, hipMemsetAsync(a.get(), 0, 4, one));
    HIP_FAILS(hipErrorStreamCaptureInvalidated, hipStreamEndCapture(one, &graph));
  };
  int value = 0;
  void *memory = nullptr;
  auto global = hipStreamCaptureModeGlobal, relaxed = hipStreamCaptureModeRelaxed;
  broken_by([&] { return hipDeviceSynchronize(); }, hipErrorStreamCaptureUnsupported, relaxed);
  broken_by([&] { return hipStreamSynchronize(one); }, hipErrorStreamCaptureUnsupported, relaxed);
  broken_by([&] { return hipStreamQuery(one); }, hipErrorStreamCaptureUnsupported, relaxed);
  broken_by([&] { return hipStreamSynchronize(two); }, hipErrorStreamCaptureUnsupported, global);
  broken_by([&] { return hipMemcpy(&value, a.get(), 4, hipMemcpyDeviceToHost); }, hipErrorStreamCaptureImplicit, relaxed);
  broken_by([&] { return hipMemset(a.get(), 0, 4); }, hipErrorStreamCaptureImplicit, relaxed);
  broken_by([&] { return hipMalloc(&memory, 4); }, hipErrorStreamCaptureUnsupported, global);
  broken_by([&] { return hipFree(memory); }, hipErrorStreamCaptureUnsupported, global);

  // In relaxed mode allocations are permitted; and a thread can exchange its capture mode.
  HIP_OK(hipStreamBeginCapture(one, relaxed));
  HIP_OK(hipMalloc(&memory, 4));
  HIP_OK(hipFree(memory));
  HIP_OK(hipStreamEndCapture(one, &graph));
  HIP_OK(hipGraphDestroy(graph));
  hipStreamCaptureMode mode = relaxed;
  HIP_OK(hipThreadExchangeStreamCaptureMode(&mode));
  if (mode != global)
    fail("a thread begins in mode %d", mode);
  HIP_OK(hipStreamBeginCapture(one, global));
  HIP_OK(hipMalloc(&memory, 4));
  HIP_OK(hipStreamEndCapture(one, &graph));
  HIP_OK(hipGraphDestroy(graph));
  HIP_OK(hipThreadExchangeStreamCaptureMode(&mode));
  HIP_OK(hipFree(memory));

  // Another thread's capture, by mode; and a capture ended by another thread.
  HIP_OK(hipStreamBeginCapture(one, hipStreamCaptureModeThreadLocal));
  std::thread([&] {
    HIP_OK(hipMalloc(&memory, 4));
    HIP_OK(hipFree(memory));
    HIP_FAILS(hipErrorStreamCaptureWrongThread, hipStreamEndCapture(one, &graph));
  }).join();
  HIP_OK(hipStreamEndCapture(one, &graph));
  HIP_OK(hipGraphDestroy(graph));
  HIP_OK(hipStreamBeginCapture(one, global));
  std::thread([&] { HIP_FAILS(hipErrorStreamCaptureUnsupported, hipMalloc(&memory, 4)); }).join();
  HIP_FAILS(hipErrorStreamCaptureInvalidated, hipStreamEndCapture(one, &graph));

  // The null stream waits for blocking streams, so it must not be used while one of those is captured.
  hipStream_t blocking;
  HIP_OK(hipStreamCreate(&blocking));
  HIP_OK(hipStreamBeginCapture(blocking, relaxed));
  HIP_FAILS(hipErrorStreamCaptureImplicit, hipStreamIsCapturing(nullptr, &status));
  HIP_FAILS(hipErrorStreamCaptureImplicit, hipMemsetAsync(a.get(), 0, 4, nullptr));
  HIP_FAILS(hipErrorStreamCaptureInvalidated, hipStreamEndCapture(blocking, &graph));
  HIP_OK(hipStreamIsCapturing(nullptr, &status));
  HIP_FAILS(hipErrorIllegalState, hipStreamEndCapture(nullptr, &graph));
  HIP_FAILS(hipErrorStreamCaptureUnsupported, hipStreamBeginCapture(nullptr, global));
  HIP_FAILS(hipErrorInvalidValue, hipStreamBeginCapture(one, static_cast<hipStreamCaptureMode>(7)));
  HIP_FAILS(hipErrorInvalidValue, hipStreamEndCapture(one, nullptr));
  HIP_FAILS(hipErrorInvalidValue, hipStreamIsCapturing(one, nullptr));

  // Destroying a stream ends its capture.
  HIP_OK(hipStreamBeginCapture(blocking, global));
  scale<<<1, n, 0, blocking>>>(a.get(), 2);
  HIP_OK(hipStreamDestroy(blocking));
  HIP_OK(hipDeviceSynchronize());

  // Event record and event wait nodes of external events.
  HIP_OK(hipStreamBeginCapture(one, global));
  HIP_OK(hipEventRecordWithFlags(plain, one, hipEventRecordExternal));
  HIP_OK(hipStreamWaitEvent(one, plain, hipEventWaitExternal));
  HIP_OK(hipStreamEndCapture(one, &graph));
  if (nodes_of(graph) != 2)
    fail("a record and a wait are %zu nodes", nodes_of(graph));
  HIP_OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  HIP_OK(hipGraphLaunch(executable, one));
  HIP_OK(hipEventSynchronize(plain));
  HIP_OK(hipGraphExecDestroy(executable));
  HIP_OK(hipGraphDestroy(graph));

  for (hipEvent_t event : {forked, joined, plain})
    HIP_OK(hipEventDestroy(event));
  for (hipStream_t stream : {one, two, other})
    HIP_OK(hipStreamDestroy(stream));
  return pass();
}
