// Invalid graph calls: invalid handles, nodes of other graphs, duplicate or missing edges, cycles.
#include "check.h"

EXAMPLE("graph_errors");

__global__ void scale(int *data, int factor) { data[threadIdx.x] *= factor; }
static void nothing(void *) {}

int main() {
  constexpr hipError_t invalid = hipErrorInvalidValue;
  DeviceArray<int> data(std::vector<int>(64, 1));
  int *a = data.get(), three = 3;
  hipGraph_t graph, second;
  hipGraphNode_t node, other, foreign, found;
  hipGraphExec_t executable;
  size_t count = 0;
  HIP_FAILS(invalid, hipGraphCreate(nullptr, 0));
  HIP_FAILS(invalid, hipGraphCreate(&graph, 1));
  HIP_OK(hipGraphCreate(&graph, 0));
  HIP_OK(hipGraphCreate(&second, 0));
  HIP_OK(hipGraphAddEmptyNode(&foreign, second, nullptr, 0));
  HIP_OK(hipGraphAddEmptyNode(&node, graph, nullptr, 0));
  HIP_OK(hipGraphAddEmptyNode(&other, graph, &node, 1));

  // Handles.
  HIP_FAILS(invalid, hipGraphAddEmptyNode(nullptr, graph, nullptr, 0));
  HIP_FAILS(invalid, hipGraphAddEmptyNode(&found, nullptr, nullptr, 0));
  HIP_FAILS(invalid, hipGraphAddEmptyNode(&found, graph, nullptr, 1));
  HIP_FAILS(invalid, hipGraphAddEmptyNode(&found, graph, &foreign, 1));
  hipGraphNode_t twice[] = {node, node};
  HIP_FAILS(invalid, hipGraphAddEmptyNode(&found, graph, twice, 2));
  HIP_FAILS(invalid, hipGraphGetNodes(nullptr, nullptr, &count));
  HIP_FAILS(invalid, hipGraphGetNodes(graph, nullptr, nullptr));
  HIP_FAILS(invalid, hipGraphGetRootNodes(graph, nullptr, nullptr));
  HIP_FAILS(invalid, hipGraphGetEdges(graph, &found, nullptr, &count));
  HIP_FAILS(invalid, hipGraphNodeGetType(nullptr, nullptr));
  HIP_FAILS(invalid, hipGraphNodeGetDependencies(nullptr, nullptr, &count));
  HIP_FAILS(invalid, hipGraphClone(nullptr, graph));
  HIP_FAILS(invalid, hipGraphDestroy(nullptr));
  HIP_FAILS(invalid, hipGraphDestroyNode(nullptr));
  HIP_FAILS(invalid, hipGraphInstantiate(nullptr, graph, nullptr, nullptr, 0));
  HIP_FAILS(invalid, hipGraphInstantiate(&executable, nullptr, nullptr, nullptr, 0));
  HIP_FAILS(invalid, hipGraphInstantiateWithFlags(&executable, graph, 10));
  HIP_FAILS(invalid, hipGraphLaunch(nullptr, nullptr));
  HIP_FAILS(invalid, hipGraphExecDestroy(nullptr));
  HIP_FAILS(invalid, hipGraphUpload(nullptr, nullptr));

  // Edges.
  HIP_FAILS(invalid, hipGraphAddDependencies(graph, &node, &other, 1)); // the edge exists
  HIP_FAILS(invalid, hipGraphAddDependencies(graph, &node, &node, 1));
  HIP_FAILS(invalid, hipGraphAddDependencies(graph, &node, &foreign, 1));
  HIP_FAILS(invalid, hipGraphAddDependencies(graph, nullptr, &other, 1));
  HIP_OK(hipGraphAddDependencies(graph, nullptr, nullptr, 0));
  HIP_FAILS(invalid, hipGraphRemoveDependencies(graph, &other, &node, 1));
  HIP_OK(hipGraphRemoveDependencies(graph, &node, &other, 1));
  HIP_FAILS(invalid, hipGraphRemoveDependencies(graph, &node, &other, 1));
  HIP_OK(hipGraphAddDependencies(graph, &node, &other, 1));

  // A graph with a cycle cannot be instantiated.
  HIP_OK(hipGraphAddDependencies(graph, &other, &node, 1));
  HIP_FAILS(invalid, hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  HIP_OK(hipGraphRemoveDependencies(graph, &other, &node, 1));
  hipGraphInstantiateParams parameters{};
  parameters.flags = 77;
  HIP_FAILS(invalid, hipGraphInstantiateWithParams(&executable, graph, &parameters));
  if (parameters.result_out != hipGraphInstantiateError)
    fail("the result is %d", parameters.result_out);
  parameters.flags = hipGraphInstantiateFlagUpload;
  HIP_OK(hipGraphInstantiateWithParams(&executable, graph, &parameters));
  unsigned long long flags = 0;
  HIP_OK(hipGraphExecGetFlags(executable, &flags));
  if (parameters.result_out != hipGraphInstantiateSuccess || flags != hipGraphInstantiateFlagUpload)
    fail("the result is %d and the flags are %llu", parameters.result_out, flags);

  // Nodes of each kind.
  void *arguments[] = {&a, &three};
  hipKernelNodeParams kernel{};
  HIP_FAILS(invalid, hipGraphAddKernelNode(&found, graph, nullptr, 0, nullptr));
  HIP_FAILS(invalid, hipGraphAddKernelNode(&found, graph, nullptr, 0, &kernel));
  kernel.func = reinterpret_cast<void *>(&nothing);
  kernel.gridDim = kernel.blockDim = dim3(1);
  kernel.kernelParams = arguments;
  HIP_FAILS(hipErrorInvalidDeviceFunction, hipGraphAddKernelNode(&found, graph, nullptr, 0, &kernel));
  kernel.func = reinterpret_cast<void *>(scale);
  kernel.blockDim = dim3(0);
  HIP_FAILS(hipErrorInvalidConfiguration, hipGraphAddKernelNode(&found, graph, nullptr, 0, &kernel));
  kernel.blockDim = dim3(64);
  kernel.kernelParams = nullptr;
  HIP_FAILS(invalid, hipGraphAddKernelNode(&found, graph, nullptr, 0, &kernel));
  kernel.kernelParams = arguments;
  HIP_OK(hipGraphAddKernelNode(&found, graph, nullptr, 0, &kernel));
  HIP_FAILS(invalid, hipGraphExecKernelNodeSetParams(executable, found, &kernel)); // added after instantiation
  HIP_FAILS(invalid, hipGraphKernelNodeSetParams(node, &kernel));
  HIP_FAILS(invalid, hipGraphKernelNodeGetParams(found, nullptr));
  hipMemsetParams fill{};
  fill.dst = a;
  fill.elementSize = 4;
  fill.width = 64;
  fill.height = 1;
  auto broken = [&](hipMemsetParams wrong) { HIP_FAILS(invalid, hipGraphAddMemsetNode(&found, graph, nullptr, 0, &wrong)); };
  auto with = [&](auto change) {
    hipMemsetParams changed = fill;
    change(changed);
    return changed;
  };
  broken(with([](hipMemsetParams &it) { it.elementSize = 3; }));
  broken(with([](hipMemsetParams &it) { it.width = 0; }));
  broken(with([](hipMemsetParams &it) { it.height = 0; }));
  broken(with([](hipMemsetParams &it) { it.dst = nullptr; }));
  broken(with([](hipMemsetParams &it) { it.width = 65; }));
  broken(with([](hipMemsetParams &it) { it.height = 2, it.width = 8, it.pitch = 8; }));
  HIP_FAILS(invalid, hipGraphMemsetNodeSetParams(node, &fill));
  HIP_FAILS(invalid, hipGraphAddMemsetNode(&found, graph, nullptr, 0, nullptr));
  std::vector<int> host(64);
  HIP_FAILS(invalid, hipGraphAddMemcpyNode1D(&found, graph, nullptr, 0, a, host.data(), 0, hipMemcpyHostToDevice));
  HIP_FAILS(invalid, hipGraphAddMemcpyNode1D(&found, graph, nullptr, 0, nullptr, host.data(), 4, hipMemcpyHostToDevice));
  HIP_FAILS(invalid, hipGraphAddMemcpyNode1D(&found, graph, nullptr, 0, a, host.data(), 4, hipMemcpyDeviceToHost));
  HIP_FAILS(invalid, hipGraphAddMemcpyNode1D(&found, graph, nullptr, 0, a, host.data(), 4 * 65, hipMemcpyHostToDevice));
  HIP_FAILS(hipErrorInvalidMemcpyDirection,
            hipGraphAddMemcpyNode1D(&found, graph, nullptr, 0, a, host.data(), 4, static_cast<hipMemcpyKind>(99)));
  hipMemcpy3DParms box{};
  HIP_FAILS(invalid, hipGraphAddMemcpyNode(&found, graph, nullptr, 0, &box));
  HIP_FAILS(invalid, hipGraphAddMemcpyNode(&found, graph, nullptr, 0, nullptr));
  box.srcPtr = {host.data(), 32, 64, 2};
  box.dstPtr = {a, 32, 32, 2};
  HIP_FAILS(hipErrorInvalidPitchValue, hipGraphAddMemcpyNode(&found, graph, nullptr, 0, &box));
  hipHostNodeParams call{};
  HIP_FAILS(invalid, hipGraphAddHostNode(&found, graph, nullptr, 0, &call));
  call.fn = nothing;
  HIP_FAILS(invalid, hipGraphHostNodeSetParams(node, &call));
  HIP_FAILS(invalid, hipGraphAddChildGraphNode(&found, graph, nullptr, 0, nullptr));
  HIP_FAILS(invalid, hipGraphChildGraphNodeGetGraph(node, &second));
  HIP_FAILS(invalid, hipGraphAddEventRecordNode(&found, graph, nullptr, 0, nullptr));
  HIP_FAILS(invalid, hipGraphAddEventWaitNode(&found, graph, nullptr, 0, nullptr));
  hipMemAllocNodeParams allocation{};
  HIP_FAILS(invalid, hipGraphAddMemAllocNode(&found, graph, nullptr, 0, &allocation));
  HIP_FAILS(invalid, hipGraphAddMemFreeNode(&found, graph, nullptr, 0, nullptr));
  HIP_FAILS(invalid, hipGraphAddMemFreeNode(&found, graph, nullptr, 0, a)); // not allocated by a graph
  HIP_FAILS(hipErrorInvalidDevice, hipDeviceGraphMemTrim(99));
  HIP_FAILS(hipErrorInvalidDevice, hipDeviceGetGraphMemAttribute(-1, hipGraphMemAttrUsedMemCurrent, &count));
  HIP_FAILS(invalid, hipDeviceGetGraphMemAttribute(0, hipGraphMemAttrUsedMemCurrent, nullptr));
  hipGraphExecUpdateResult result;
  HIP_FAILS(invalid, hipGraphExecUpdate(executable, graph, nullptr, &result));
  HIP_FAILS(invalid, hipGraphExecUpdate(nullptr, graph, &found, &result));
  HIP_FAILS(invalid, hipGraphDebugDotPrint(graph, nullptr, 0));

  // Destroyed streams.
  hipStream_t stream;
  HIP_OK(hipStreamCreate(&stream));
  HIP_OK(hipStreamDestroy(stream));
  hipStreamCaptureStatus status;
  HIP_FAILS(hipErrorContextIsDestroyed, hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  HIP_FAILS(hipErrorContextIsDestroyed, hipStreamEndCapture(stream, &second));
  HIP_FAILS(hipErrorContextIsDestroyed, hipStreamIsCapturing(stream, &status));
  HIP_FAILS(hipErrorContextIsDestroyed, hipGraphLaunch(executable, stream));
  HIP_FAILS(hipErrorContextIsDestroyed, hipGraphUpload(executable, stream));

  // A node of a destroyed graph.
  HIP_OK(hipGraphDestroy(graph));
  HIP_FAILS(invalid, hipGraphNodeGetDependencies(node, nullptr, &count));
  HIP_FAILS(invalid, hipGraphDestroyNode(node));
  HIP_OK(hipGraphLaunch(executable, nullptr));
  HIP_OK(hipDeviceSynchronize());
  HIP_OK(hipGraphExecDestroy(executable));
  HIP_FAILS(invalid, hipGraphExecDestroy(executable));
  return pass();
}
