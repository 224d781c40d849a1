// Textures of linear memory: every width and number of channels, plain and normalized integers, and fetches past the end.
#include "check.h"

EXAMPLE("textures");

#define EXPECT(claim)                                                                                                  \
  do {                                                                                                                 \
    if (!(claim))                                                                                                      \
      fail("line %d: not so: %s", __LINE__, #claim);                                                                   \
  } while (0)

constexpr int count = 1000;

template <typename T> __global__ void fetch(hipTextureObject_t texture, T *out, int elements) {
  int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < elements)
    out[at] = tex1Dfetch<T>(texture, at);
}

static hipTextureObject_t texture_of(void *memory, size_t bytes, hipChannelFormatDesc format, hipTextureReadMode mode) {
  hipResourceDesc resource{};
  resource.resType = hipResourceTypeLinear;
  resource.res.linear.devPtr = memory;
  resource.res.linear.desc = format;
  resource.res.linear.sizeInBytes = bytes;
  hipTextureDesc sampling{};
  sampling.readMode = mode;
  hipTextureObject_t texture = nullptr;
  HIP_OK(hipCreateTextureObject(&texture, &resource, &sampling, nullptr));
  hipResourceDesc told{};
  HIP_OK(hipGetTextureObjectResourceDesc(&told, texture));
  EXPECT(told.resType == hipResourceTypeLinear && told.res.linear.devPtr == memory);
  hipTextureDesc how{};
  HIP_OK(hipGetTextureObjectTextureDesc(&how, texture));
  EXPECT(how.readMode == mode);
  return texture;
}

// Fetches `elements` elements on a non-blocking stream.
template <typename T> static std::vector<T> fetched(hipTextureObject_t texture, int elements) {
  T *out = nullptr;
  HIP_OK(hipMalloc(&out, elements * sizeof(T)));
  hipStream_t stream;
  HIP_OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  fetch<T><<<(elements + 63) / 64, 64, 0, stream>>>(texture, out, elements);
  HIP_OK(hipGetLastError());
  HIP_OK(hipStreamSynchronize(stream));
  std::vector<T> host(elements);
  HIP_OK(hipMemcpy(host.data(), out, elements * sizeof(T), hipMemcpyDeviceToHost));
  HIP_OK(hipStreamDestroy(stream));
  HIP_OK(hipFree(out));
  return host;
}

template <typename T> static T *on_device(const std::vector<T> &values) {
  T *memory = nullptr;
  HIP_OK(hipMalloc(&memory, values.size() * sizeof(T)));
  HIP_OK(hipMemcpy(memory, values.data(), values.size() * sizeof(T), hipMemcpyHostToDevice));
  return memory;
}

template <typename T> static void elements_are_read_as_they_are() {
  std::vector<T> values(count);
  for (int i = 0; i < count; ++i)
    values[i] = T(i * 37 - 500);
  T *memory = on_device(values);
  hipTextureObject_t texture =
      texture_of(memory, count * sizeof(T), hipCreateChannelDesc<T>(), hipReadModeElementType);
  std::vector<T> got = fetched<T>(texture, count + 100);
  for (int i = 0; i < count; ++i)
    EXPECT(got[i] == values[i]);
  for (int i = count; i < count + 100; ++i)
    EXPECT(got[i] == T(0));
  HIP_OK(hipDestroyTextureObject(texture));
  HIP_OK(hipFree(memory));
}

static void pairs_and_quadruples_keep_their_order() {
  std::vector<float4> four(count);
  std::vector<int2> two(count);
  for (int i = 0; i < count; ++i) {
    four[i] = make_float4(i, i + 0.25f, i + 0.5f, -i);
    two[i] = make_int2(i, -i);
  }
  float4 *fours = on_device(four);
  int2 *twos = on_device(two);
  hipTextureObject_t of_four =
      texture_of(fours, count * sizeof(float4), hipCreateChannelDesc<float4>(), hipReadModeElementType);
  hipTextureObject_t of_two =
      texture_of(twos, count * sizeof(int2), hipCreateChannelDesc<int2>(), hipReadModeElementType);
  std::vector<float4> got_four = fetched<float4>(of_four, count);
  std::vector<int2> got_two = fetched<int2>(of_two, count);
  for (int i = 0; i < count; ++i) {
    EXPECT(got_four[i].x == four[i].x && got_four[i].y == four[i].y);
    EXPECT(got_four[i].z == four[i].z && got_four[i].w == four[i].w);
    EXPECT(got_two[i].x == two[i].x && got_two[i].y == two[i].y);
  }
  HIP_OK(hipDestroyTextureObject(of_four));
  HIP_OK(hipDestroyTextureObject(of_two));
  HIP_OK(hipFree(fours));
  HIP_OK(hipFree(twos));
}

static void small_integers_can_be_fractions() {
  std::vector<unsigned char> values(256);
  for (int i = 0; i < 256; ++i)
    values[i] = static_cast<unsigned char>(i);
  unsigned char *memory = on_device(values);
  hipTextureObject_t texture =
      texture_of(memory, 256, hipCreateChannelDesc<unsigned char>(), hipReadModeNormalizedFloat);
  std::vector<float> got = fetched<float>(texture, 256);
  for (int i = 0; i < 256; ++i)
    EXPECT(std::fabs(got[i] - i / 255.0f) <= 1e-7f);
  HIP_OK(hipDestroyTextureObject(texture));
  HIP_OK(hipFree(memory));
}

static void what_cannot_be_a_texture_is_refused() {
  int *memory = nullptr;
  HIP_OK(hipMalloc(&memory, 1024));
  hipResourceDesc resource{};
  resource.resType = hipResourceTypeLinear;
  resource.res.linear.devPtr = memory;
  resource.res.linear.desc = hipCreateChannelDesc<int>();
  resource.res.linear.sizeInBytes = 1024;
  hipTextureDesc sampling{};
  hipTextureObject_t texture = nullptr;
  HIP_FAILS(hipErrorInvalidValue, hipCreateTextureObject(nullptr, &resource, &sampling, nullptr));
  HIP_FAILS(hipErrorInvalidValue, hipCreateTextureObject(&texture, nullptr, &sampling, nullptr));
  HIP_FAILS(hipErrorInvalidValue, hipCreateTextureObject(&texture, &resource, nullptr, nullptr));
  hipResourceViewDesc view{};
  HIP_FAILS(hipErrorInvalidValue, hipCreateTextureObject(&texture, &resource, &sampling, &view));
  resource.res.linear.devPtr = memory + 1;
  HIP_FAILS(hipErrorInvalidValue, hipCreateTextureObject(&texture, &resource, &sampling, nullptr));
  resource.res.linear.devPtr = nullptr;
  HIP_FAILS(hipErrorInvalidValue, hipCreateTextureObject(&texture, &resource, &sampling, nullptr));
  resource.res.linear.devPtr = memory;
  sampling.maxAnisotropy = 4;
  HIP_FAILS(hipErrorNotSupported, hipCreateTextureObject(&texture, &resource, &sampling, nullptr));
  HIP_OK(hipDestroyTextureObject(nullptr));
  HIP_FAILS(hipErrorInvalidValue, hipGetTextureObjectResourceDesc(&resource, nullptr));
  (void)hipGetLastError();
  HIP_OK(hipFree(memory));
}

int main() {
  elements_are_read_as_they_are<int>();
  elements_are_read_as_they_are<unsigned>();
  elements_are_read_as_they_are<float>();
  elements_are_read_as_they_are<char>();
  elements_are_read_as_they_are<unsigned char>();
  elements_are_read_as_they_are<short>();
  elements_are_read_as_they_are<unsigned short>();
  pairs_and_quadruples_keep_their_order();
  small_integers_can_be_fractions();
  what_cannot_be_a_texture_is_refused();
  return pass();
}
