// Shared code of the programs for AMD's libraries: test cases, device memory, and the element types.
//
// A program prints a line `ok NAME` or `wrong NAME: REASON` for each case, then `END`; a failing case throws its reason.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

// In every status type of these libraries, zero is success.
#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    auto ok_result = (call);                                                                                           \
    if (static_cast<int>(ok_result) != 0)                                                                              \
      throw std::runtime_error(std::string(#call) + " gave " + std::to_string(static_cast<int>(ok_result)));          \
  } while (0)

class Cases {
public:
  // The first argument of a program selects the cases whose name contains it.
  Cases(int count, char **arguments) : filter_(count > 1 ? arguments[1] : "") {}

  void run(const std::string &name, const std::function<void()> &body) {
    if (name.find(filter_) != std::string::npos)
      always(name, body);
  }

  // Cases that the others depend on run regardless of the filter.
  void always(const std::string &name, const std::function<void()> &body) {
    try {
      body();
      std::printf("ok %s\n", name.c_str());
    } catch (const std::exception &problem) {
      std::printf("wrong %s: %s\n", name.c_str(), problem.what());
      wrong_ = true;
    }
    std::fflush(stdout);
  }

  int end() const {
    std::printf("END\n");
    return wrong_ ? 1 : 0;
  }

private:
  std::string filter_;
  bool wrong_ = false;
};

// A half as its bits, so that no compiler support is needed.
struct Half {
  uint16_t bits;
};
// A bfloat16: the upper half of a float.
struct Brain {
  uint16_t bits;
};

inline double value(float number) { return number; }
inline double value(double number) { return number; }
inline double value(Half number) {
  int exponent = number.bits >> 10 & 31;
  double fraction = number.bits & 1023;
  double size = exponent == 31  ? (fraction == 0 ? INFINITY : NAN)
                : exponent == 0 ? std::ldexp(fraction, -24)
                                : std::ldexp(fraction + 1024, exponent - 25);
  return number.bits & 0x8000 ? -size : size;
}
inline double value(Brain number) {
  uint32_t bits = static_cast<uint32_t>(number.bits) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}

// `sixteenths` / 16 for -32 to 32, which every type here represents exactly.
template <typename T> T exact(int sixteenths) { return static_cast<T>(sixteenths / 16.0); }
template <> inline Brain exact<Brain>(int sixteenths) {
  float number = static_cast<float>(sixteenths) / 16;
  uint32_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  return Brain{static_cast<uint16_t>(bits >> 16)};
}
template <> inline Half exact<Half>(int sixteenths) {
  if (sixteenths == 0)
    return Half{0};
  int exponent = 0;
  double fraction = std::frexp(std::fabs(sixteenths / 16.0), &exponent);
  auto mantissa = static_cast<uint16_t>(std::ldexp(fraction, 11));
  return Half{static_cast<uint16_t>((sixteenths < 0 ? 0x8000 : 0) | ((exponent + 14) << 10) | (mantissa & 1023))};
}

// Pseudo-random numbers between -2 and 2, the same in every run.
template <typename T> std::vector<T> numbers(size_t count, uint32_t seed) {
  std::vector<T> result(count);
  uint32_t state = seed * 2654435761u + 1u;
  for (T &number : result) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    number = exact<T>(static_cast<int>(state % 65) - 32);
  }
  return result;
}

template <typename T> class DeviceArray {
public:
  explicit DeviceArray(size_t count) : count_(count) {
    OK(hipMalloc(reinterpret_cast<void **>(&data_), bytes()));
    // Filled with NaN, so that values the library does not write are never right by chance.
    OK(hipMemset(data_, 0xff, bytes()));
  }
  explicit DeviceArray(const std::vector<T> &values) : DeviceArray(values.size()) {
    OK(hipMemcpy(data_, values.data(), bytes(), hipMemcpyHostToDevice));
  }
  DeviceArray(const DeviceArray &) = delete;
  DeviceArray &operator=(const DeviceArray &) = delete;
  ~DeviceArray() { (void)hipFree(data_); }

  T *get() const { return data_; }
  size_t bytes() const { return (count_ == 0 ? 1 : count_) * sizeof(T); }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    OK(hipMemcpy(values.data(), data_, count_ * sizeof(T), hipMemcpyDeviceToHost));
    return values;
  }

private:
  T *data_ = nullptr;
  size_t count_;
};

// Every value must be within `tolerance`, relative to the larger of 1 and the expected magnitude.
template <typename T>
void expect_near(const std::vector<T> &got, const std::vector<double> &wanted, double tolerance) {
  if (got.size() != wanted.size())
    throw std::runtime_error("there are " + std::to_string(got.size()) + " values, not " +
                             std::to_string(wanted.size()));
  for (size_t i = 0; i < wanted.size(); ++i) {
    double difference = std::fabs(value(got[i]) - wanted[i]);
    if (!(difference <= tolerance * std::fmax(1.0, std::fabs(wanted[i])))) {
      char text[128];
      std::snprintf(text, sizeof text, "[%zu] is %.9g, not %.9g", i, value(got[i]), wanted[i]);
      throw std::runtime_error(text);
    }
  }
}

// The reference product of two column-major matrices: rows x inner times inner x columns, either one transposed in memory.
template <typename T>
std::vector<double> product(const T *a, const T *b, int rows, int columns, int inner, bool a_transposed,
                            bool b_transposed) {
  std::vector<double> result(static_cast<size_t>(rows) * columns);
  for (int j = 0; j < columns; ++j)
    for (int i = 0; i < rows; ++i) {
      double sum = 0;
      for (int k = 0; k < inner; ++k)
        sum += value(a_transposed ? a[k + i * inner] : a[i + k * rows]) *
               value(b_transposed ? b[j + k * columns] : b[k + j * inner]);
      result[i + static_cast<size_t>(j) * rows] = sum;
    }
  return result;
}
