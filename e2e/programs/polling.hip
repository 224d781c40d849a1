// Polling for completion (hipStreamQuery, hipEventQuery): "not ready" while the work cannot be done, "done" as soon as any other call
// has reported it, and no round trip for repeated queries.
#include "check.h"

#include <atomic>
#include <string>
#include <thread>

EXAMPLE("polling");

__global__ void set(int *data, int value) { *data = value; }

static std::atomic<bool> open{false};

static void hold(void *) {
  while (!open.load())
    std::this_thread::yield();
}


int main(int argc, char **argv) {
  // Number of queries while the result can only be "not ready": the round trips of this program must not depend on it.
  const int polls = argc > 1 ? std::stoi(argv[1]) : 10;
  hipStream_t stream, other;
  HIP_OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  HIP_OK(hipStreamCreateWithFlags(&other, hipStreamNonBlocking));
  hipEvent_t event, last;
  HIP_OK(hipEventCreate(&event));
  HIP_OK(hipEventCreate(&last));
  DeviceArray<int> data(1);

  HIP_OK(hipEventQuery(event));
  // The first query asks the worker; from then on the worker notifies the client.
  set<<<1, 1, 0, stream>>>(data.get(), 1);
  HIP_OK(hipEventRecord(event, stream));
  HIP_OK(hipStreamSynchronize(stream));
  HIP_OK(hipEventQuery(event));
  HIP_OK(hipStreamQuery(stream));

  for (int turn = 0; turn < 3; ++turn) {
    open = false;
    HIP_OK(hipLaunchHostFunc(stream, hold, nullptr));
    set<<<1, 1, 0, stream>>>(data.get(), 2);
    HIP_OK(hipEventRecord(event, stream));
    HIP_OK(hipEventRecord(last, stream));
    for (int i = 0; i < polls; ++i) {
      HIP_FAILS(hipErrorNotReady, hipEventQuery(event));
      HIP_FAILS(hipErrorNotReady, hipStreamQuery(stream));
    }
    HIP_OK(hipStreamQuery(other));
    open = true;
    // Whichever call reports completion first, later queries agree.
    switch (turn) {
    case 0: HIP_OK(hipStreamSynchronize(stream)); break;
    case 1: HIP_OK(hipDeviceSynchronize()); break;
    default: HIP_OK(hipEventSynchronize(last)); break;
    }
    HIP_OK(hipEventQuery(event));
    HIP_OK(hipStreamQuery(stream));
  }

  // Queries alone find out too, without another call.
  for (int turn = 0; turn < 100; ++turn) {
    set<<<1, 1, 0, stream>>>(data.get(), turn);
    HIP_OK(hipEventRecord(event, stream));
    hipError_t state;
    while ((state = turn % 2 ? hipEventQuery(event) : hipStreamQuery(stream)) == hipErrorNotReady) {
    }
    HIP_OK(state);
    HIP_OK(hipEventQuery(event));
  }

  // A re-recorded event is not done just because its previous record was.
  open = false;
  HIP_OK(hipLaunchHostFunc(stream, hold, nullptr));
  HIP_OK(hipEventRecord(event, stream));
  HIP_FAILS(hipErrorNotReady, hipEventQuery(event));
  HIP_OK(hipEventRecord(event, other));
  HIP_OK(hipStreamSynchronize(other));
  HIP_OK(hipEventQuery(event));
  open = true;
  HIP_OK(hipDeviceSynchronize());

  HIP_OK(hipEventDestroy(event));
  HIP_OK(hipEventDestroy(last));
  HIP_OK(hipStreamDestroy(stream));
  HIP_OK(hipStreamDestroy(other));
  return pass();
}
