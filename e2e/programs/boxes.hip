// 3D copies in every direction, with offsets and pitches, and 3D fills, through every HIP function for them.
#include "check.h"

#include <cstring>

EXAMPLE("boxes");

constexpr size_t width = 21, height = 7, depth = 5;

// A 3D box of words in host memory, pitched or packed.
struct Host {
  size_t columns, rows, slices;
  std::vector<unsigned> words;
  Host(size_t columns, size_t rows, size_t slices, unsigned filling)
      : columns(columns), rows(rows), slices(slices), words(columns * rows * slices, filling) {}
  unsigned &at(size_t x, size_t y, size_t z) { return words[(z * rows + y) * columns + x]; }
  hipPitchedPtr pointer() { return make_hipPitchedPtr(words.data(), columns * 4, columns * 4, rows); }
};

static unsigned value(size_t x, size_t y, size_t z) { return unsigned(1 + x + 100 * y + 10000 * z); }

static Host numbered(size_t columns, size_t rows, size_t slices) {
  Host host(columns, rows, slices, 0);
  for (size_t z = 0; z < slices; ++z)
    for (size_t y = 0; y < rows; ++y)
      for (size_t x = 0; x < columns; ++x)
        host.at(x, y, z) = value(x, y, z);
  return host;
}

__global__ void add(hipPitchedPtr box, unsigned columns, unsigned rows, unsigned slices, unsigned amount) {
  unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned y = blockIdx.y, z = blockIdx.z;
  if (x < columns && y < rows && z < slices)
    reinterpret_cast<unsigned *>(static_cast<char *>(box.ptr) + (z * rows + y) * box.pitch)[x] += amount;
}

static hipMemcpy3DParms parameters(hipPitchedPtr to, hipPitchedPtr from, hipExtent extent, hipMemcpyKind kind) {
  hipMemcpy3DParms parameters = {};
  parameters.srcPtr = from;
  parameters.dstPtr = to;
  parameters.extent = extent;
  parameters.kind = kind;
  return parameters;
}

static void runtime_style() {
  hipPitchedPtr device;
  hipExtent whole = make_hipExtent(width * 4, height, depth);
  HIP_OK(hipMalloc3D(&device, whole));
  Host in = numbered(width, height, depth);
  hipMemcpy3DParms up = parameters(device, in.pointer(), whole, hipMemcpyHostToDevice);
  HIP_OK(hipMemcpy3D(&up));
  add<<<dim3(1, height, depth), 64>>>(device, width, height, depth, 7);
  HIP_OK(hipGetLastError());

  // Copies a sub-box to a sub-box of a larger one, with every valid copy kind.
  for (hipMemcpyKind kind : {hipMemcpyDeviceToHost, hipMemcpyDefault}) {
    Host out(40, 12, 9, 0xdeadbeef);
    hipMemcpy3DParms down = parameters(out.pointer(), device, make_hipExtent(10 * 4, 4, 3), kind);
    down.srcPos = make_hipPos(5 * 4, 2, 1);
    down.dstPos = make_hipPos(20 * 4, 6, 4);
    HIP_OK(hipMemcpy3D(&down));
    for (size_t z = 0; z < out.slices; ++z)
      for (size_t y = 0; y < out.rows; ++y)
        for (size_t x = 0; x < out.columns; ++x) {
          bool inside = x >= 20 && x < 30 && y >= 6 && y < 10 && z >= 4 && z < 7;
          unsigned wanted = inside ? value(x - 15, y - 4, z - 3) + 7 : 0xdeadbeef;
          if (out.at(x, y, z) != wanted)
            fail("kind %d at %zu %zu %zu: %u, not %u", kind, x, y, z, out.at(x, y, z), wanted);
        }
  }

  // On the device in stream order, between different pitches.
  hipPitchedPtr second;
  HIP_OK(hipMalloc3D(&second, make_hipExtent(3 * width * 4, 2 * height, depth)));
  hipStream_t stream;
  HIP_OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  HIP_OK(hipStreamSynchronize(nullptr));
  HIP_OK(hipMemset3DAsync(second, 0x5a, make_hipExtent(3 * width * 4, 2 * height, depth), stream));
  hipMemcpy3DParms across = parameters(second, device, whole, hipMemcpyDeviceToDevice);
  across.dstPos = make_hipPos(8, 3, 0);
  HIP_OK(hipMemcpy3DAsync(&across, stream));
  HIP_OK(hipMemset3DAsync(device, 0x11, make_hipExtent(8, 2, depth), stream));
  Host result(3 * width, 2 * height, depth, 0);
  hipMemcpy3DParms back =
      parameters(result.pointer(), second, make_hipExtent(3 * width * 4, 2 * height, depth), hipMemcpyDeviceToHost);
  HIP_OK(hipMemcpy3DAsync(&back, stream));
  HIP_OK(hipStreamSynchronize(stream));
  for (size_t z = 0; z < depth; ++z)
    for (size_t y = 0; y < 2 * height; ++y)
      for (size_t x = 0; x < 3 * width; ++x) {
        bool inside = x >= 2 && x < 2 + width && y >= 3 && y < 3 + height;
        unsigned wanted = inside ? value(x - 2, y - 3, z) + 7 : 0x5a5a5a5a;
        if (result.at(x, y, z) != wanted)
          fail("across at %zu %zu %zu: %x, not %x", x, y, z, result.at(x, y, z), wanted);
      }
  Host filled(width, height, depth, 0);
  hipMemcpy3DParms all = parameters(filled.pointer(), device, whole, hipMemcpyDeviceToHost);
  HIP_OK(hipMemcpy3D(&all));
  for (size_t z = 0; z < depth; ++z)
    for (size_t y = 0; y < height; ++y)
      for (size_t x = 0; x < width; ++x) {
        unsigned wanted = x < 2 && y < 2 ? 0x11111111 : value(x, y, z) + 7;
        if (filled.at(x, y, z) != wanted)
          fail("fill at %zu %zu %zu: %x, not %x", x, y, z, filled.at(x, y, z), wanted);
      }

  // From host to host.
  Host copy(width, height, depth, 0);
  hipMemcpy3DParms here = parameters(copy.pointer(), in.pointer(), whole, hipMemcpyHostToHost);
  HIP_OK(hipMemcpy3D(&here));
  if (copy.words != in.words)
    fail("a copy on the host differs");

  // Parameters that HIP rejects, and some that it accepts.
  hipMemcpy3DParms wrong = up;
  wrong.extent.depth = 0;
  HIP_OK(hipMemcpy3D(&wrong));
  wrong = up;
  wrong.extent.depth = depth + 1;
  HIP_FAILS(hipErrorInvalidValue, hipMemcpy3D(&wrong));
  wrong = up;
  wrong.dstPos.x = device.pitch;
  HIP_FAILS(hipErrorInvalidValue, hipMemcpy3D(&wrong));
  wrong = up;
  wrong.srcPtr.ptr = nullptr;
  HIP_FAILS(hipErrorInvalidValue, hipMemcpy3D(&wrong));
  wrong = up;
  wrong.srcPtr.pitch = 8;
  HIP_FAILS(hipErrorInvalidPitchValue, hipMemcpy3D(&wrong));
  wrong = up;
  wrong.kind = static_cast<hipMemcpyKind>(77);
  HIP_FAILS(hipErrorInvalidMemcpyDirection, hipMemcpy3D(&wrong));
  wrong = up;
  wrong.kind = hipMemcpyDeviceToHost;
  HIP_FAILS(hipErrorInvalidValue, hipMemcpy3D(&wrong));
  HIP_FAILS(hipErrorInvalidValue, hipMemcpy3D(nullptr));
  HIP_FAILS(hipErrorInvalidValue, hipMemset3D(device, 1, make_hipExtent(width * 4, height, depth + 1)));
  HIP_OK(hipMemset3D(device, 1, make_hipExtent(0, height, depth + 1)));
  HIP_OK(hipStreamDestroy(stream));
  HIP_OK(hipFree(device.ptr));
  HIP_OK(hipFree(second.ptr));
}

static void driver_style() {
  hipDeviceptr_t device;
  const size_t pitch = 128, rows = 10;
  HIP_OK(hipMalloc(reinterpret_cast<void **>(&device), pitch * rows * depth));
  HIP_OK(hipMemset(reinterpret_cast<void *>(device), 0, pitch * rows * depth));
  Host in = numbered(width, height, depth);
  HIP_MEMCPY3D copy = {};
  copy.srcMemoryType = hipMemoryTypeHost;
  copy.srcHost = in.words.data();
  copy.srcPitch = width * 4;
  copy.srcHeight = height;
  copy.dstMemoryType = hipMemoryTypeDevice;
  copy.dstDevice = device;
  copy.dstPitch = pitch;
  copy.dstHeight = rows;
  copy.dstXInBytes = 4;
  copy.dstY = 2;
  copy.WidthInBytes = width * 4;
  copy.Height = height;
  copy.Depth = depth;
  HIP_OK(hipDrvMemcpy3D(&copy));
  std::vector<unsigned> out(pitch / 4 * rows * depth);
  HIP_OK(hipMemcpy(out.data(), reinterpret_cast<void *>(device), out.size() * 4, hipMemcpyDeviceToHost));
  for (size_t z = 0; z < depth; ++z)
    for (size_t y = 0; y < rows; ++y)
      for (size_t x = 0; x < pitch / 4; ++x) {
        bool inside = x >= 1 && x < 1 + width && y >= 2 && y < 2 + height;
        unsigned wanted = inside ? value(x - 1, y - 2, z) : 0;
        if (out[(z * rows + y) * (pitch / 4) + x] != wanted)
          fail("driver style at %zu %zu %zu: %u", x, y, z, out[(z * rows + y) * (pitch / 4) + x]);
      }
  Host back(width, height, depth, 0);
  HIP_MEMCPY3D down = {};
  down.srcMemoryType = hipMemoryTypeDevice;
  down.srcDevice = device;
  down.srcPitch = pitch;
  down.srcHeight = rows;
  down.srcXInBytes = 4;
  down.srcY = 2;
  down.dstMemoryType = hipMemoryTypeHost;
  down.dstHost = back.words.data();
  down.WidthInBytes = width * 4;
  down.Height = height;
  down.Depth = depth;
  HIP_OK(hipDrvMemcpy3DAsync(&down, nullptr));
  HIP_OK(hipDeviceSynchronize());
  if (back.words != in.words)
    fail("the driver-style copy back differs");
  HIP_FAILS(hipErrorInvalidValue, hipDrvMemcpy3D(nullptr));
  copy.WidthInBytes = 0;
  HIP_OK(hipDrvMemcpy3D(&copy));
  HIP_OK(hipFree(reinterpret_cast<void *>(device)));
}

#if HIP_VERSION_MAJOR >= 7
static void newest() {
  DeviceArray<unsigned> a(4096), b(4096);
  HIP_OK(hipMemsetD2D32(hipDeviceptr_t(a.get()), 64, 0x01020304, 8, 256));
  HIP_OK(hipMemsetD2D16(hipDeviceptr_t(a.get()), 64, 0x0506, 2, 128));
  HIP_OK(hipMemsetD2D8(hipDeviceptr_t(a.get()), 64, 7, 1, 64));
  HIP_FAILS(hipErrorInvalidValue, hipMemsetD2D32(hipDeviceptr_t(a.get()), 16, 1, 8, 2));
  std::vector<unsigned> got = a.read();
  for (size_t y = 0; y < 256; ++y) {
    unsigned first = y < 64 ? 0x05060507 : y < 128 ? 0x05060506 : 0x01020304;
    if (got[y * 16] != first || got[y * 16 + 7] != 0x01020304)
      fail("row %zu is %x %x", y, got[y * 16], got[y * 16 + 7]);
  }

  std::vector<unsigned> first(100, 1), second(200, 2), third(100, 0);
  hipStream_t stream;
  HIP_OK(hipStreamCreate(&stream));
  void *to[] = {a.get(), b.get(), a.get() + 100};
  void *from[] = {first.data(), second.data(), first.data()};
  size_t sizes[] = {400, 800, 400}, failed = 0;
  hipMemcpyAttributes attributes = {};
  attributes.srcAccessOrder = hipMemcpySrcAccessOrderStream;
  size_t index = 0;
  HIP_OK(hipMemcpyBatchAsync(to, from, sizes, 3, &attributes, &index, 1, &failed, stream));
  void *down[] = {third.data(), nullptr};
  void *source[] = {b.get() + 100, b.get()};
  HIP_FAILS(hipErrorInvalidValue,
            hipMemcpyBatchAsync(down, source, sizes, 2, &attributes, &index, 1, &failed, stream));
  HIP_OK(hipStreamSynchronize(stream));
  if (failed != 1)
    fail("the second copy fails, not number %zu", failed);
  if (third[0] != 2 || third[99] != 2)
    fail("the batch copied %u", third[0]);

  hipMemcpy3DBatchOp boxes[1] = {};
  boxes[0].src.type = hipMemcpyOperandTypePointer;
  boxes[0].src.op.ptr.ptr = second.data();
  boxes[0].dst.type = hipMemcpyOperandTypePointer;
  boxes[0].dst.op.ptr.ptr = a.get();
  boxes[0].dst.op.ptr.rowLength = 64;
  boxes[0].dst.op.ptr.layerHeight = 4;
  boxes[0].extent = make_hipExtent(16, 3, 2);
  boxes[0].srcAccessOrder = hipMemcpySrcAccessOrderStream;
  HIP_OK(hipMemset(a.get(), 0, 4096));
  HIP_OK(hipMemcpy3DBatchAsync(1, boxes, &failed, 0, stream));
  HIP_OK(hipStreamSynchronize(stream));
  got = a.read();
  for (size_t row = 0; row < 8; ++row)
    if (got[row * 16] != (row % 4 < 3 ? 2u : 0u))
      fail("row %zu of the batched box is %u", row, got[row * 16]);

  hipMemcpy3DPeerParms peer = {};
  peer.srcPtr = make_hipPitchedPtr(a.get(), 64, 64, 4);
  peer.dstPtr = make_hipPitchedPtr(b.get(), 32, 32, 4);
  peer.extent = make_hipExtent(16, 3, 2);
  HIP_OK(hipMemcpy3DPeer(&peer));
  peer.dstDevice = 5;
  HIP_FAILS(hipErrorInvalidDevice, hipMemcpy3DPeerAsync(&peer, stream));
  got = b.read();
  if (got[0] != 2 || got[5 * 8 + 3] != 2)
    fail("the peer copy gave %u", got[5 * 8 + 3]);
  HIP_OK(hipStreamDestroy(stream));
}
#else
static void newest() {}
#endif

int main() {
  runtime_style();
  driver_style();
  newest();
  return pass();
}
