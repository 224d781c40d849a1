// How fast the device computes: kernels that do one thing each. Every command runs its kernel once and answers the
// nanoseconds from the launch to its end; `check` compares all of them with the same sums done here.
#include "command.h"

#include <cmath>
#include <map>

typedef float float_x2 __attribute__((ext_vector_type(2)));
typedef float float_x4 __attribute__((ext_vector_type(4)));
typedef float float_x16 __attribute__((ext_vector_type(16)));
typedef _Float16 half_x4 __attribute__((ext_vector_type(4)));

constexpr int chains = 8;
constexpr int rounds = 4;
constexpr int tile = 16;
constexpr float softening = 1e-3f;

extern "C" __global__ void empty() {}

// Chains of multiply-adds in registers. The loop is not unrolled: its instructions are counted in the disassembly.
extern "C" __global__ void fma_loop(float *out, float x, float y, int iterations) {
  float chain[chains];
  for (int j = 0; j < chains; ++j)
    chain[j] = static_cast<float>(threadIdx.x) + static_cast<float>(j);
#pragma clang loop unroll(disable)
  for (int i = 0; i < iterations; ++i) {
#pragma unroll
    for (int round = 0; round < rounds; ++round)
#pragma unroll
      for (int j = 0; j < chains; ++j)
        chain[j] = __builtin_fmaf(chain[j], x, y);
  }
  float sum = 0.0f;
  for (int j = 0; j < chains; ++j)
    sum += chain[j];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// The same by instructions that do two of them.
extern "C" __global__ void packed_fma_loop(float *out, float x, float y, int iterations) {
  float_x2 chain[chains / 2], factor = {x, x}, summand = {y, y};
  for (int j = 0; j < chains / 2; ++j)
    for (int k = 0; k < 2; ++k)
      chain[j][k] = static_cast<float>(threadIdx.x) + static_cast<float>(2 * j + k);
#pragma clang loop unroll(disable)
  for (int i = 0; i < iterations; ++i) {
#pragma unroll
    for (int round = 0; round < rounds; ++round)
#pragma unroll
      for (int j = 0; j < chains / 2; ++j)
        chain[j] = __builtin_elementwise_fma(chain[j], factor, summand);
  }
  float sum = 0.0f;
  for (int j = 0; j < chains / 2; ++j)
    sum += chain[j][0] + chain[j][1];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

extern "C" __global__ void saxpy(float *y, const float *x, float a, int count) {
  int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count)
    y[i] = a * x[i] + y[i];
}

// Square matrices, a tile of each in local memory at a time.
extern "C" __global__ void matmul(const float *a, const float *b, float *c, int size) {
  __shared__ float left[tile][tile], right[tile][tile];
  int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  int column = static_cast<int>(blockIdx.x) * tile + x, row = static_cast<int>(blockIdx.y) * tile + y;
  float sum = 0.0f;
  for (int k = 0; k < size; k += tile) {
    left[y][x] = a[row * size + k + x];
    right[y][x] = b[(k + y) * size + column];
    __syncthreads();
    for (int i = 0; i < tile; ++i)
      sum += left[y][i] * right[i][x];
    __syncthreads();
  }
  c[row * size + column] = sum;
}

// What all bodies do to one: a block of them in local memory at a time.
extern "C" __global__ void nbody(const float4 *bodies, float4 *forces, int count) {
  __shared__ float4 block[256];
  int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  float4 here = bodies[i];
  float x = 0.0f, y = 0.0f, z = 0.0f;
  for (int start = 0; start < count; start += 256) {
    block[threadIdx.x] = bodies[start + static_cast<int>(threadIdx.x)];
    __syncthreads();
#pragma unroll 8
    for (int j = 0; j < 256; ++j) {
      float4 there = block[j];
      float dx = there.x - here.x, dy = there.y - here.y, dz = there.z - here.z;
      float inverse = __builtin_amdgcn_rsqf(dx * dx + dy * dy + dz * dz + softening);
      float pull = there.w * inverse * inverse * inverse;
      x += dx * pull;
      y += dy * pull;
      z += dz * pull;
    }
    __syncthreads();
  }
  forces[i] = make_float4(x, y, z, 0.0f);
}

// 32x32x8 matrix multiply-adds in registers.
extern "C" __global__ void mfma_half(float *out, int iterations) {
#if defined(__gfx90a__) || defined(__gfx942__)
  _Float16 lane = static_cast<_Float16>(threadIdx.x % 4);
  half_x4 a = {lane, 1, 0, 1}, b = {1, lane, 1, 0};
  float_x16 sum = {};
#pragma clang loop unroll(disable)
  for (int i = 0; i < iterations; ++i)
    sum = __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, sum, 0, 0, 0);
  for (int i = 0; i < 16; ++i)
    out[(blockIdx.x * blockDim.x + threadIdx.x) * 16 + i] = sum[i];
#else
  (void)out, (void)iterations;
#endif
}

// The same in float, 16x16x4.
extern "C" __global__ void mfma_float(float *out, int iterations) {
#if defined(__gfx90a__) || defined(__gfx942__)
  float a = static_cast<float>(threadIdx.x % 4), b = 1.0f;
  float_x4 sum = {};
#pragma clang loop unroll(disable)
  for (int i = 0; i < iterations; ++i)
    sum = __builtin_amdgcn_mfma_f32_16x16x4f32(a, b, sum, 0, 0, 0);
  for (int i = 0; i < 4; ++i)
    out[(blockIdx.x * blockDim.x + threadIdx.x) * 4 + i] = sum[i];
#else
  (void)out, (void)iterations;
#endif
}

static float *allocate(size_t count) {
  float *memory;
  HIP_OK(hipMalloc(&memory, count * sizeof(float)));
  HIP_OK(hipMemset(memory, 0, count * sizeof(float)));
  return memory;
}

static float *upload(const std::vector<float> &values) {
  float *memory = allocate(values.size());
  HIP_OK(hipMemcpy(memory, values.data(), values.size() * sizeof(float), hipMemcpyHostToDevice));
  return memory;
}

static std::vector<float> download(const float *memory, size_t count) {
  std::vector<float> values(count);
  HIP_OK(hipMemcpy(values.data(), memory, count * sizeof(float), hipMemcpyDeviceToHost));
  return values;
}

// From the launch to its end.
template <typename Launch> static Answer timed(Launch launch) {
  HIP_OK(hipDeviceSynchronize());
  int64_t start = now();
  launch();
  HIP_OK(hipGetLastError());
  HIP_OK(hipDeviceSynchronize());
  return {now() - start};
}

static void expect(const char *what, size_t index, float got, float wanted) {
  if (!(std::fabs(got - wanted) <= 1e-4f * std::fmax(1.0f, std::fabs(wanted))))
    fail("%s[%zu] is %g, not %g", what, index, static_cast<double>(got), static_cast<double>(wanted));
}

// What a kernel works on, made before the first run and kept, so that a command is the kernel and nothing else.
template <typename Key, typename Make> static auto &kept(const Key &key, Make make) {
  static std::map<Key, decltype(make())> all;
  auto found = all.find(key);
  return found != all.end() ? found->second : all.emplace(key, make()).first->second;
}

static Answer run_fma(bool packed, int64_t iterations, unsigned blocks, std::vector<float> *result) {
  float *out = kept(blocks, [=] { return allocate(blocks * 256); });
  Answer time = timed([=] {
    if (packed)
      packed_fma_loop<<<blocks, 256>>>(out, 0.5f, 1.0f, static_cast<int>(iterations));
    else
      fma_loop<<<blocks, 256>>>(out, 0.5f, 1.0f, static_cast<int>(iterations));
  });
  if (result)
    *result = download(out, blocks * 256);
  return time;
}

struct Vectors {
  float *x, *y;
};

static Answer run_saxpy(int64_t count, std::vector<float> *result) {
  size_t size = static_cast<size_t>(count);
  Vectors memory = kept(count, [=] {
    std::vector<float> ones(size, 1.0f);
    return Vectors{upload(ones), upload(ones)};
  });
  unsigned blocks = static_cast<unsigned>((count + 255) / 256);
  Answer time = timed([=] { saxpy<<<blocks, 256>>>(memory.y, memory.x, 3.0f, static_cast<int>(count)); });
  if (result)
    *result = download(memory.y, size);
  return time;
}

struct Matrices {
  float *a, *b, *c;
};

static Answer run_matmul(int64_t size, std::vector<float> *result) {
  size_t count = static_cast<size_t>(size * size);
  Matrices memory = kept(size, [=] {
    std::vector<float> left(count), right(count);
    for (size_t i = 0; i < count; ++i) {
      left[i] = static_cast<float>(i % 7);
      right[i] = static_cast<float>(i % 5);
    }
    return Matrices{upload(left), upload(right), allocate(count)};
  });
  unsigned blocks = static_cast<unsigned>(size / tile);
  Answer time = timed([=] {
    matmul<<<dim3(blocks, blocks), dim3(tile, tile)>>>(memory.a, memory.b, memory.c, static_cast<int>(size));
  });
  if (result)
    *result = download(memory.c, count);
  return time;
}

struct System {
  float4 *bodies, *forces;
};

// The bodies of native.cpp.
static std::vector<float> bodies(size_t count) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i)
    for (size_t value : {i % 17, i % 29, i % 37, 1 + i % 3})
      values.push_back(static_cast<float>(value));
  return values;
}

static Answer run_nbody(int64_t count, std::vector<float> *result) {
  size_t size = static_cast<size_t>(count);
  System memory = kept(count, [=] {
    return System{reinterpret_cast<float4 *>(upload(bodies(size))), reinterpret_cast<float4 *>(allocate(4 * size))};
  });
  unsigned blocks = static_cast<unsigned>(count / 256);
  Answer time = timed([=] { nbody<<<blocks, 256>>>(memory.bodies, memory.forces, static_cast<int>(count)); });
  if (result)
    *result = download(reinterpret_cast<float *>(memory.forces), 4 * size);
  return time;
}

static Answer run_mfma(bool half, int64_t iterations, unsigned blocks, std::vector<float> *result) {
  size_t count = blocks * 64 * 16;
  float *out = kept(blocks, [=] { return allocate(count); });
  Answer time = timed([=] {
    if (half)
      mfma_half<<<blocks, 64>>>(out, static_cast<int>(iterations));
    else
      mfma_float<<<blocks, 64>>>(out, static_cast<int>(iterations));
  });
  if (result)
    *result = download(out, blocks * 64 * (half ? 16 : 4));
  return time;
}

static Answer run_empty(int64_t count) {
  return timed([=] {
    for (int64_t i = 0; i < count; ++i)
      empty<<<1, 64>>>();
  });
}

// A speed of wrong results is no speed.
static Answer check() {
  std::vector<float> got;
  for (bool packed : {false, true}) {
    run_fma(packed, 3, 2, &got);
    for (size_t i = 0; i < got.size(); ++i) {
      float sum = 0.0f;
      for (int j = 0; j < chains; ++j) {
        float chain = static_cast<float>(i % 256) + static_cast<float>(j);
        for (int step = 0; step < 3 * rounds; ++step)
          chain = std::fmaf(chain, 0.5f, 1.0f);
        sum += chain;
      }
      expect(packed ? "packed fma" : "fma", i, got[i], sum);
    }
  }
  run_saxpy(1000, &got);
  for (size_t i = 0; i < got.size(); ++i)
    expect("saxpy", i, got[i], 4.0f);
  run_matmul(64, &got);
  for (size_t row = 0; row < 64; ++row)
    for (size_t column = 0; column < 64; ++column) {
      float sum = 0.0f;
      for (size_t k = 0; k < 64; ++k)
        sum += static_cast<float>((row * 64 + k) % 7) * static_cast<float>((k * 64 + column) % 5);
      expect("matmul", row * 64 + column, got[row * 64 + column], sum);
    }
  run_nbody(512, &got);
  std::vector<float> all = bodies(512);
  for (size_t i = 0; i < 512; ++i)
    for (size_t axis = 0; axis < 3; ++axis) {
      double sum = 0.0;
      for (size_t j = 0; j < 512; ++j) {
        double square = static_cast<double>(softening);
        for (size_t k = 0; k < 3; ++k) {
          double distance = static_cast<double>(all[4 * j + k]) - static_cast<double>(all[4 * i + k]);
          square += distance * distance;
        }
        double distance = static_cast<double>(all[4 * j + axis]) - static_cast<double>(all[4 * i + axis]);
        sum += distance * static_cast<double>(all[4 * j + 3]) / (square * std::sqrt(square));
      }
      expect("nbody", 4 * i + axis, got[4 * i + axis], static_cast<float>(sum));
    }
  // Lane l holds A[l % 32][4 * (l / 32) ..] and B[4 * (l / 32) ..][l % 32], four elements each, and 16 rows of column l % 32.
  run_mfma(true, 3, 1, &got);
  for (size_t lane = 0; lane < 64; ++lane)
    for (size_t i = 0; i < 16; ++i) {
      size_t row = 8 * (i / 4) + 4 * (lane / 32) + i % 4;
      float a[4] = {static_cast<float>(row % 4), 1, 0, 1}, b[4] = {1, static_cast<float>(lane % 4), 1, 0};
      float product = 0.0f;
      for (int k = 0; k < 4; ++k)
        product += 2.0f * a[k] * b[k];
      expect("mfma half", lane * 16 + i, got[lane * 16 + i], 3.0f * product);
    }
  // Lane l holds A[l % 16][l / 16], B[l / 16][l % 16] and four rows of column l % 16.
  run_mfma(false, 3, 1, &got);
  for (size_t lane = 0; lane < 64; ++lane)
    for (size_t i = 0; i < 4; ++i) {
      size_t row = 4 * (lane / 16) + i;
      expect("mfma float", lane * 4 + i, got[lane * 4 + i], 3.0f * 4.0f * static_cast<float>(row % 4));
    }
  return {1};
}

int main() {
  return serve([](const std::string &name, Words &words) -> Answer {
    if (name == "check")
      return check();
    if (name == "empty")
      return run_empty(words.number());
    if (name == "saxpy")
      return run_saxpy(words.number(), nullptr);
    if (name == "nbody")
      return run_nbody(words.number(), nullptr);
    if (name == "matmul")
      return run_matmul(words.number(), nullptr);
    if (name == "fma_loop" || name == "packed_fma_loop" || name == "mfma_half" || name == "mfma_float") {
      int64_t iterations = words.number();
      unsigned blocks = static_cast<unsigned>(words.number());
      if (name == "fma_loop" || name == "packed_fma_loop")
        return run_fma(name == "packed_fma_loop", iterations, blocks, nullptr);
      return run_mfma(name == "mfma_half", iterations, blocks, nullptr);
    }
    fail("there is no command %s", name.c_str());
  });
}
