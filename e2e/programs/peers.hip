// Two devices: copies between them, kernels that read and change each other's memory, and per-device state.
#include "check.h"

#include <string>

EXAMPLE("peers");

const int count = 3000;

__global__ void fill(int *out, int start) {
  int item = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (item < count)
    out[item] = start + item;
}

// Reads the peer's memory and changes it.
__global__ void exchange(const int *theirs, int *mine, int *counter) {
  int item = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (item >= count)
    return;
  mine[item] = theirs[item] * 2;
  __hip_atomic_fetch_add(counter, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

static void expect(const char *what, const int *device_memory, int factor, int start) {
  std::vector<int> got(count);
  HIP_OK(hipMemcpy(got.data(), device_memory, count * sizeof(int), hipMemcpyDeviceToHost));
  for (int item = 0; item < count; ++item)
    if (int wanted = factor * (start + item); got[static_cast<size_t>(item)] != wanted)
      fail("%s: item %d is %d, not %d", what, item, got[static_cast<size_t>(item)], wanted);
}

int main() {
  int devices = 0;
  HIP_OK(hipGetDeviceCount(&devices));
  if (devices != 2)
    fail("there are %d devices, not 2", devices);
  int can[2] = {0, 0};
  HIP_OK(hipDeviceCanAccessPeer(&can[0], 0, 1));
  HIP_OK(hipDeviceCanAccessPeer(&can[1], 1, 0));
  if (can[0] != 1 || can[1] != 1)
    fail("the devices do not reach each other");
  char buses[2][32];
  for (int device = 0; device < 2; ++device)
    HIP_OK(hipDeviceGetPCIBusId(buses[device], sizeof buses[device], device));
  if (std::string(buses[0]) == buses[1])
    fail("both devices are at %s", buses[0]);

  int *memory[2] = {}, *copies[2] = {};
  hipStream_t streams[2];
  for (int device = 0; device < 2; ++device) {
    HIP_OK(hipSetDevice(device));
    HIP_OK(hipDeviceEnablePeerAccess(1 - device, 0));
    HIP_FAILS(hipErrorPeerAccessAlreadyEnabled, hipDeviceEnablePeerAccess(1 - device, 0));
    HIP_FAILS(hipErrorInvalidDevice, hipDeviceEnablePeerAccess(device, 0));
    HIP_OK(hipMalloc(&memory[device], count * sizeof(int)));
    HIP_OK(hipMalloc(&copies[device], count * sizeof(int)));
    HIP_OK(hipStreamCreate(&streams[device]));
    fill<<<blocks_for(count, 256), 256, 0, streams[device]>>>(memory[device], 1000 * device);
    hipPointerAttribute_t attributes;
    HIP_OK(hipPointerGetAttributes(&attributes, memory[device]));
    if (attributes.device != device)
      fail("memory of device %d is said to be of device %d", device, attributes.device);
  }
  HIP_OK(hipStreamSynchronize(streams[0]));
  HIP_OK(hipStreamSynchronize(streams[1]));
  HIP_OK(hipMemcpyPeer(copies[1], 1, memory[0], 0, count * sizeof(int)));
  expect("hipMemcpyPeer", copies[1], 1, 0);
  HIP_OK(hipMemcpyPeerAsync(copies[0], 0, memory[1], 1, count * sizeof(int), streams[0]));
  HIP_OK(hipStreamSynchronize(streams[0]));
  expect("hipMemcpyPeerAsync", copies[0], 1, 1000);
  HIP_OK(hipMemcpy(copies[0], memory[0], count * sizeof(int), hipMemcpyDeviceToDevice));
  expect("hipMemcpy on one device", copies[0], 1, 0);
  HIP_OK(hipMemcpy(copies[0], memory[1], count * sizeof(int), hipMemcpyDefault));
  expect("hipMemcpy between devices", copies[0], 1, 1000);

  // Kernels of device 1 on memory of device 0, after an event of device 0's stream.
  int *counter = nullptr;
  HIP_OK(hipSetDevice(0));
  HIP_OK(hipMalloc(&counter, sizeof(int)));
  HIP_OK(hipMemsetAsync(counter, 0, sizeof(int), streams[0]));
  fill<<<blocks_for(count, 256), 256, 0, streams[0]>>>(memory[0], 77);
  hipEvent_t filled;
  HIP_OK(hipEventCreateWithFlags(&filled, hipEventDisableTiming));
  HIP_OK(hipEventRecord(filled, streams[0]));
  HIP_OK(hipSetDevice(1));
  HIP_OK(hipStreamWaitEvent(streams[1], filled, 0));
  exchange<<<blocks_for(count, 256), 256, 0, streams[1]>>>(memory[0], memory[1], counter);
  HIP_OK(hipStreamSynchronize(streams[1]));
  expect("a kernel on the peer's memory", memory[1], 2, 77);
  int counted = 0;
  HIP_OK(hipMemcpy(&counted, counter, sizeof counted, hipMemcpyDeviceToHost));
  if (counted != count)
    fail("%d of %d additions arrived", counted, count);

  for (int device = 0; device < 2; ++device) {
    HIP_OK(hipSetDevice(device));
    HIP_OK(hipDeviceDisablePeerAccess(1 - device));
    HIP_FAILS(hipErrorPeerAccessNotEnabled, hipDeviceDisablePeerAccess(1 - device));
    HIP_OK(hipStreamDestroy(streams[device]));
    HIP_OK(hipFree(memory[device]));
    HIP_OK(hipFree(copies[device]));
  }
  HIP_OK(hipEventDestroy(filled));
  HIP_OK(hipFree(counter));
  return pass();
}
