// Self-checking helpers of the examples: each prints one line, `PASS name` or `FAIL name: reason`, and exits with 0 or 1.
#pragma once

#include <hip/hip_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

// The name of the program; every example defines it once.
extern const char *const example_name;

#define EXAMPLE(name) const char *const example_name = name

[[noreturn]] __attribute__((format(printf, 1, 2))) inline void fail(const char *format, ...) {
  char reason[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(reason, sizeof reason, format, arguments);
  va_end(arguments);
  std::printf("FAIL %s: %s\n", example_name, reason);
  std::fflush(stdout);
  std::_Exit(1);
}

inline int pass() {
  std::printf("PASS %s\n", example_name);
  std::fflush(stdout);
  return 0;
}

// Fails unless the call succeeds.
#define HIP_OK(call)                                                                                                   \
  do {                                                                                                                 \
    hipError_t hip_ok_result = (call);                                                                                 \
    if (hip_ok_result != hipSuccess)                                                                                   \
      fail("line %d: %s: %s", __LINE__, #call, hipGetErrorString(hip_ok_result));                                      \
  } while (0)

// Fails unless the call returns exactly this error.
#define HIP_FAILS(expected, call)                                                                                      \
  do {                                                                                                                 \
    hipError_t hip_fails_result = (call);                                                                              \
    if (hip_fails_result != (expected))                                                                                \
      fail("line %d: %s: got %s, not %s", __LINE__, #call, hipGetErrorName(hip_fails_result),                          \
           hipGetErrorName(expected));                                                                                 \
  } while (0)

// Device memory, freed at the end of the scope.
template <typename T> class DeviceArray {
public:
  explicit DeviceArray(size_t count) : count_(count) { HIP_OK(hipMalloc(&data_, count * sizeof(T))); }
  explicit DeviceArray(const std::vector<T> &values) : DeviceArray(values.size()) {
    HIP_OK(hipMemcpy(data_, values.data(), count_ * sizeof(T), hipMemcpyHostToDevice));
  }
  DeviceArray(const DeviceArray &) = delete;
  DeviceArray &operator=(const DeviceArray &) = delete;
  ~DeviceArray() { HIP_OK(hipFree(data_)); }

  T *get() const { return data_; }
  size_t bytes() const { return count_ * sizeof(T); }

  std::vector<T> read() const {
    std::vector<T> values(count_);
    HIP_OK(hipMemcpy(values.data(), data_, bytes(), hipMemcpyDeviceToHost));
    return values;
  }

private:
  T *data_ = nullptr;
  size_t count_;
};

// A small random number generator with a fixed sequence, so that results can be compared bit for bit.
class Random {
public:
  explicit Random(uint32_t seed) : state_(seed * 2654435761u + 1u) {}
  uint32_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 17;
    state_ ^= state_ << 5;
    return state_;
  }
  // 0 <= value < limit
  uint32_t below(uint32_t limit) { return next() % limit; }
  // -1 <= value < 1
  float signed_unit() { return static_cast<float>(next() >> 8) / 8388608.0f - 1.0f; }

private:
  uint32_t state_;
};

inline unsigned blocks_for(size_t count, unsigned block) { return static_cast<unsigned>((count + block - 1) / block); }

// Fails unless every value is within `tolerance`, relative to the larger of 1 and the expected magnitude.
inline void expect_near(const char *what, const std::vector<float> &got, const std::vector<double> &wanted,
                        double tolerance) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    double difference = std::fabs(got[i] - wanted[i]);
    if (!(difference <= tolerance * std::fmax(1.0, std::fabs(wanted[i]))))
      fail("%s[%zu] is %.9g, not %.9g", what, i, static_cast<double>(got[i]), wanted[i]);
  }
}
