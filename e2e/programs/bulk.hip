// Copies data of many sizes in both directions, synchronously and asynchronously, and checks each byte.
#include "check.h"

EXAMPLE("bulk");

__global__ void turn(unsigned *data, size_t count, unsigned key) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    data[i] ^= key + static_cast<unsigned>(i);
}

int main() {
  hipStream_t stream;
  HIP_OK(hipStreamCreate(&stream));
  Random random(3);
  unsigned hash = 0;
  // Sizes around likely thresholds of the client's transfer methods, and a few odd ones.
  for (size_t count : {1u, 1000u, 65536u, 65537u, 100003u, 1u << 20, 2600011u}) {
    std::vector<unsigned> sent(count), received(count), late(count);
    for (unsigned &word : sent)
      word = random.next();
    DeviceArray<unsigned> data(count);
    HIP_OK(hipMemcpyAsync(data.get(), sent.data(), data.bytes(), hipMemcpyHostToDevice, stream));
    turn<<<16, 256, 0, stream>>>(data.get(), count, hash);
    HIP_OK(hipGetLastError());
    HIP_OK(hipMemcpyAsync(late.data(), data.get(), data.bytes(), hipMemcpyDeviceToHost, stream));
    turn<<<16, 256, 0, stream>>>(data.get(), count, hash);
    HIP_OK(hipGetLastError());
    HIP_OK(hipStreamSynchronize(stream));
    HIP_OK(hipMemcpy(received.data(), data.get(), data.bytes(), hipMemcpyDeviceToHost));
    for (size_t i = 0; i < count; ++i) {
      if (received[i] != sent[i])
        fail("word %zu of %zu came back as %08x, not %08x", i, count, received[i], sent[i]);
      if (late[i] != (sent[i] ^ (hash + static_cast<unsigned>(i))))
        fail("word %zu of %zu was seen as %08x", i, count, late[i]);
    }
    for (unsigned word : late)
      hash = hash * 31u + word;
  }
  std::printf("hash=%08x\n", hash);
  return pass();
}
