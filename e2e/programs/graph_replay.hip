// Launches one graph of many nodes repeatedly (the argument is the count), with changed inputs in between, and checks the
// result once at the end.
#include "check.h"

EXAMPLE("graph_replay");

__global__ void step(unsigned *data, unsigned salt) { data[threadIdx.x] = data[threadIdx.x] * 3 + salt; }

int main(int count, char **arguments) {
  constexpr int n = 64, nodes = 300;
  int launches = count > 1 ? std::atoi(arguments[1]) : 10;
  std::vector<unsigned> input(n, 1), output(n, 0), wanted(n);
  DeviceArray<unsigned> data(n);
  hipGraph_t graph;
  HIP_OK(hipGraphCreate(&graph, 0));
  hipGraphNode_t last;
  HIP_OK(hipGraphAddMemcpyNode1D(&last, graph, nullptr, 0, data.get(), input.data(), data.bytes(), hipMemcpyHostToDevice));
  unsigned *a = data.get();
  for (unsigned i = 0; i < nodes; ++i) {
    void *list[] = {&a, &i};
    hipKernelNodeParams parameters{};
    parameters.func = reinterpret_cast<void *>(step);
    parameters.gridDim = dim3(1);
    parameters.blockDim = dim3(n);
    parameters.kernelParams = list;
    hipGraphNode_t next;
    HIP_OK(hipGraphAddKernelNode(&next, graph, &last, 1, &parameters));
    last = next;
  }
  HIP_OK(hipGraphAddMemcpyNode1D(&last, graph, &last, 1, output.data(), data.get(), data.bytes(), hipMemcpyDeviceToHost));
  hipGraphExec_t executable;
  HIP_OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  for (int turn = 0; turn < launches; ++turn) {
    std::fill(input.begin(), input.end(), static_cast<unsigned>(turn));
    HIP_OK(hipGraphLaunch(executable, nullptr));
  }
  HIP_OK(hipStreamSynchronize(nullptr));
  std::fill(wanted.begin(), wanted.end(), static_cast<unsigned>(launches - 1));
  for (unsigned i = 0; i < nodes; ++i)
    for (unsigned &value : wanted)
      value = value * 3 + i;
  if (output != wanted)
    fail("the last of %d launches gave %u, not %u", launches, output[0], wanted[0]);
  HIP_OK(hipGraphExecDestroy(executable));
  HIP_OK(hipGraphDestroy(graph));
  return pass();
}
