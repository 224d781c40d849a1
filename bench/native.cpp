// The limits of the kernels in kernels.hip: the same loops in C++ for the processor itself, on one thread. Every command runs its
// loop once and answers the nanoseconds of processor time it took.
#include "command.h"

#include <ctime>
#include <sys/mman.h>

#ifdef __AVX512F__
constexpr int lanes = 16;
// Two vectors a chain: with one, the processor waits for results.
constexpr int wide_lanes = 2 * lanes;
#else
constexpr int lanes = 8;
// With two vectors a chain there are not enough registers.
constexpr int wide_lanes = lanes;
#endif
constexpr int chains = 8;
constexpr int rounds = 4;
constexpr float softening = 1e-3f;

typedef float vector __attribute__((vector_size(4 * lanes)));

typedef float wide_vector __attribute__((vector_size(4 * wide_lanes)));

// Nanoseconds this process has run.
static int64_t processor_time() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<int64_t>(time.tv_sec) * 1000000000 + time.tv_nsec;
}

// As many multiply-adds as the kernel does: `items` work-items with eight chains each.
static int64_t fma_loop(int64_t iterations, int64_t items, std::vector<float> &out) {
  out.assign(static_cast<size_t>(items), 0.0f);
  // Read at run time, so that nothing is computed beforehand.
  volatile float given_x = 0.5f, given_y = 1.0f;
  wide_vector x = given_x - wide_vector{}, y = given_y - wide_vector{};
  int64_t start = processor_time();
  for (int64_t item = 0; item + wide_lanes <= items; item += wide_lanes) {
    wide_vector chain[chains];
    for (int j = 0; j < chains; ++j)
      for (int lane = 0; lane < wide_lanes; ++lane)
        chain[j][lane] = static_cast<float>((item + lane) % 256) + static_cast<float>(j);
    for (int64_t i = 0; i < iterations; ++i)
#pragma clang loop unroll(full)
      for (int round = 0; round < rounds; ++round)
#pragma clang loop unroll(full)
        for (int j = 0; j < chains; ++j)
          chain[j] = __builtin_elementwise_fma(chain[j], x, y);
    wide_vector sum = {};
    for (int j = 0; j < chains; ++j)
      sum += chain[j];
    for (int lane = 0; lane < wide_lanes; ++lane)
      out[static_cast<size_t>(item + lane)] = sum[lane];
  }
  return processor_time() - start;
}

// Memory in large pages, as the emulated device has it.
static float *ones(size_t count) {
  constexpr size_t page = 2 << 20;
  size_t bytes = (count * sizeof(float) + page - 1) / page * page;
  void *memory = std::aligned_alloc(page, bytes);
  if (!memory)
    fail("no memory");
  madvise(memory, bytes, MADV_HUGEPAGE);
  float *values = static_cast<float *>(memory);
  for (size_t i = 0; i < count; ++i)
    values[i] = 1.0f;
  return values;
}

static int64_t saxpy(float *__restrict to, const float *__restrict from, size_t count, float a) {
  int64_t start = processor_time();
  for (size_t i = 0; i < count; ++i)
    to[i] = a * from[i] + to[i];
  return processor_time() - start;
}

struct Bodies {
  std::vector<float> x, y, z, mass;
};

static int64_t nbody(const Bodies &bodies, std::vector<float> &forces) {
  int64_t start = processor_time();
  size_t count = bodies.x.size();
  forces.assign(3 * count, 0.0f);
  for (size_t i = 0; i < count; i += lanes) {
    vector here_x, here_y, here_z, x = {}, y = {}, z = {};
    __builtin_memcpy(&here_x, &bodies.x[i], sizeof here_x);
    __builtin_memcpy(&here_y, &bodies.y[i], sizeof here_y);
    __builtin_memcpy(&here_z, &bodies.z[i], sizeof here_z);
    for (size_t j = 0; j < count; ++j) {
      vector dx = bodies.x[j] - here_x, dy = bodies.y[j] - here_y, dz = bodies.z[j] - here_z;
      vector inverse = 1.0f / __builtin_elementwise_sqrt(dx * dx + dy * dy + dz * dz + softening);
      vector pull = bodies.mass[j] * inverse * inverse * inverse;
      x += dx * pull;
      y += dy * pull;
      z += dz * pull;
    }
    for (size_t lane = 0; lane < lanes; ++lane) {
      forces[3 * (i + lane)] = x[lane];
      forces[3 * (i + lane) + 1] = y[lane];
      forces[3 * (i + lane) + 2] = z[lane];
    }
  }
  return processor_time() - start;
}

// Square matrices in the order that suits the processor: a row of the result at a time, whole vectors of it.
static int64_t matmul(const std::vector<float> &a, const std::vector<float> &b, std::vector<float> &c, size_t size) {
  int64_t start = processor_time();
  c.assign(size * size, 0.0f);
  for (size_t row = 0; row < size; ++row)
    for (size_t k = 0; k < size; ++k) {
      float factor = a[row * size + k];
      for (size_t column = 0; column < size; ++column)
        c[row * size + column] += factor * b[k * size + column];
    }
  return processor_time() - start;
}

int main() {
  std::vector<float> out, a, b;
  float *x = nullptr, *y = nullptr;
  size_t length = 0;
  Bodies bodies;
  return serve([&](const std::string &name, Words &words) -> Answer {
    size_t size = static_cast<size_t>(words.number());
    if (name == "fma_loop")
      return {fma_loop(static_cast<int64_t>(size), words.number() * 256, out)};
    if (name == "saxpy") {
      if (length != size) {
        x = ones(size);
        y = ones(size);
        length = size;
      }
      return {saxpy(y, x, size, 3.0f)};
    }
    if (name == "nbody") {
      if (bodies.x.size() != size) {
        bodies = Bodies();
        for (size_t i = 0; i < size; ++i) {
          bodies.x.push_back(static_cast<float>(i % 17));
          bodies.y.push_back(static_cast<float>(i % 29));
          bodies.z.push_back(static_cast<float>(i % 37));
          bodies.mass.push_back(1.0f + static_cast<float>(i % 3));
        }
      }
      return {nbody(bodies, out)};
    }
    if (name == "matmul") {
      a.resize(size * size, 1.0f);
      b.resize(size * size, 2.0f);
      return {matmul(a, b, out, size)};
    }
    fail("there is no command %s", name.c_str());
  });
}
