// A captured stream does nothing until the graph is launched, and then the same on every launch: kernels, fills, copies of the
// memory's contents at that time, and host functions.
#include "check.h"

EXAMPLE("graph");

__global__ void add(int *data, const int *more) { data[threadIdx.x] += more[threadIdx.x]; }

static void count(void *data) { ++*static_cast<int *>(data); }

int main() {
  constexpr int n = 64;
  hipStream_t stream;
  HIP_OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  int *input = nullptr, *output = nullptr;
  HIP_OK(hipHostMalloc(reinterpret_cast<void **>(&input), n * sizeof(int), hipHostMallocDefault));
  HIP_OK(hipHostMalloc(reinterpret_cast<void **>(&output), n * sizeof(int), hipHostMallocDefault));
  std::fill_n(input, n, 1);
  std::fill_n(output, n, -1);
  DeviceArray<int> sum(std::vector<int>(n, 7)), more(n);
  int calls = 0;

  hipStreamCaptureStatus status;
  HIP_OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  HIP_FAILS(hipErrorIllegalState, hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  HIP_OK(hipStreamIsCapturing(stream, &status));
  if (status != hipStreamCaptureStatusActive)
    fail("the stream is not capturing");
  HIP_OK(hipMemsetAsync(sum.get(), 0, n * sizeof(int), stream));
  HIP_OK(hipMemcpyAsync(more.get(), input, n * sizeof(int), hipMemcpyHostToDevice, stream));
  add<<<1, n, 0, stream>>>(sum.get(), more.get());
  HIP_OK(hipGetLastError());
  add<<<1, n, 0, stream>>>(sum.get(), more.get());
  HIP_OK(hipGetLastError());
  HIP_OK(hipMemcpyAsync(output, sum.get(), n * sizeof(int), hipMemcpyDeviceToHost, stream));
  HIP_OK(hipLaunchHostFunc(stream, count, &calls));
  hipGraph_t graph;
  HIP_OK(hipStreamEndCapture(stream, &graph));
  HIP_OK(hipStreamSynchronize(stream));
  if (calls != 0 || output[0] != -1 || sum.read() != std::vector<int>(n, 7))
    fail("something was done during the capture");

  hipGraphExec_t executable;
  HIP_OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  HIP_OK(hipGraphDestroy(graph));
  HIP_FAILS(hipErrorInvalidValue, hipGraphDestroy(graph));
  for (int turn = 1; turn <= 3; ++turn) {
    std::fill_n(input, n, 10 * turn);
    HIP_OK(hipGraphLaunch(executable, stream));
    HIP_OK(hipStreamSynchronize(stream));
    if (calls != turn || std::vector<int>(output, output + n) != std::vector<int>(n, 20 * turn))
      fail("launch %d: %d host functions, and the first element is %d", turn, calls, output[0]);
  }

  // Synchronizing a captured stream is an error and invalidates the capture.
  HIP_OK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
  HIP_FAILS(hipErrorStreamCaptureUnsupported, hipStreamSynchronize(stream));
  HIP_FAILS(hipErrorStreamCaptureInvalidated, hipMemsetAsync(sum.get(), 0, n * sizeof(int), stream));
  HIP_FAILS(hipErrorStreamCaptureInvalidated, hipStreamEndCapture(stream, &graph));
  HIP_FAILS(hipErrorIllegalState, hipStreamEndCapture(stream, &graph));
  HIP_FAILS(hipErrorStreamCaptureUnsupported, hipStreamBeginCapture(nullptr, hipStreamCaptureModeGlobal));
  HIP_OK(hipGraphLaunch(executable, stream));
  HIP_OK(hipStreamSynchronize(stream));
  HIP_OK(hipGraphExecDestroy(executable));
  HIP_FAILS(hipErrorInvalidValue, hipGraphLaunch(executable, stream));
  HIP_OK(hipHostFree(input));
  HIP_OK(hipHostFree(output));
  HIP_OK(hipStreamDestroy(stream));
  return pass();
}
