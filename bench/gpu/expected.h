// The kernels' inputs and results, computed by the processor in double precision.
#pragma once

#include "portable.h"

#include <algorithm>
#include <cmath>
#include <cstring>

constexpr int mandelbrot_limit = 1000;

// A value in [0, 1) that depends on place and seed. Exact in float, so that all sides have the same inputs.
__host__ __device__ inline float value_at(unsigned place, unsigned seed) {
  unsigned hash = (place ^ seed * 0x9e3779b9u) * 2654435761u;
  hash ^= hash >> 15;
  hash *= 0x85ebca6bu;
  hash ^= hash >> 13;
  return static_cast<float>(hash >> 8) * (1.0f / 16777216.0f);
}

__host__ __device__ inline int integer_at(unsigned place, unsigned seed) {
  return static_cast<int>(value_at(place, seed) * 1024.0f) - 300;
}

enum class Type { floats, doubles, integers };

inline double number_at(const char *bytes, size_t place, Type type) {
  if (type == Type::doubles) {
    double value;
    std::memcpy(&value, bytes + 8 * place, 8);
    return value;
  }
  if (type == Type::integers) {
    int value;
    std::memcpy(&value, bytes + 4 * place, 4);
    return value;
  }
  float value;
  std::memcpy(&value, bytes + 4 * place, 4);
  return static_cast<double>(value);
}

// Two sums that are never negative: of the values, and of the values weighted by their place. A negative value counts twice,
// so that its sign matters.
struct Checksum {
  double plain = 0.0, placed = 0.0;
};

inline Checksum checksum_of(const char *bytes, size_t count, Type type) {
  Checksum sum;
  for (size_t i = 0; i < count; ++i) {
    double value = number_at(bytes, i, type), size = value < 0.0 ? -2.0 * value : value;
    sum.plain += size;
    sum.placed += size * static_cast<double>(1 + i % 8191);
  }
  return sum;
}

// The largest difference to the exact result, relative where the result is above 1.
inline double tolerance_of(const std::string &name) {
  if (name == "wavescan" || name == "mandelbrot")
    return 0.0;
  if (name == "dmatmul")
    return 1e-12;
  if (name == "nbody")
    return 1e-3;
  // Matrix units round sums in their own way.
  return name == "hgemm" || name == "hgemm_wide" ? 5e-5 : 1e-5;
}

using Results = std::vector<double>;

inline double input(size_t place, unsigned seed) {
  return static_cast<double>(value_at(static_cast<unsigned>(place), seed));
}

inline Results expected_vector(const std::string &name, size_t count) {
  Results out;
  double sum = 0.0;
  for (size_t i = 0; i < count; ++i) {
    double x = input(i, 1);
    if (i % 64 == 0 && name != "reduce")
      sum = 0.0;
    sum += name == "wavescan" ? static_cast<double>(integer_at(static_cast<unsigned>(i), 1)) : x;
    if (name == "saxpy")
      out.push_back(1.5 * x + input(i, 2));
    else if (name == "compact")
      out.push_back(x > 0.5 ? x : 0.0);
    else if (name == "wavescan" || (name == "wavesync" && (i % 64 == 63 || i + 1 == count)))
      out.push_back(sum);
  }
  if (name == "reduce")
    out.push_back(sum);
  if (name == "wavesync")
    out.resize((count + 255) / 256 * 4, 0.0);
  if (name == "compact")
    std::sort(out.begin(), out.end());
  return out;
}

inline Results expected_stencil(size_t side) {
  Results out;
  auto last = side - 1;
  auto at = [=](size_t x, size_t y, size_t z) { return input((z * side + y) * side + x, 1); };
  for (size_t z = 0; z < side; ++z)
    for (size_t y = 0; y < side; ++y)
      for (size_t x = 0; x < side; ++x) {
        double around = at(x ? x - 1 : x, y, z) + at(x < last ? x + 1 : x, y, z) + at(x, y ? y - 1 : y, z) +
                        at(x, y < last ? y + 1 : y, z) + at(x, y, z ? z - 1 : z) + at(x, y, z < last ? z + 1 : z);
        out.push_back(at(x, y, z) + 0.1 * (around - 6.0 * at(x, y, z)));
      }
  return out;
}

inline Results expected_mandelbrot(size_t side) {
  Results out;
  for (size_t row = 0; row < side; ++row)
    for (size_t column = 0; column < side; ++column) {
      double real = 3.0 * static_cast<double>(column) / static_cast<double>(side) - 2.0;
      double imaginary = 2.5 * static_cast<double>(row) / static_cast<double>(side) - 1.25, x = 0.0, y = 0.0;
      int count = 0;
      for (; count < mandelbrot_limit && x * x + y * y < 4.0; ++count) {
        double next = x * x - y * y + real;
        y = 2.0 * x * y + imaginary;
        x = next;
      }
      out.push_back(count);
    }
  return out;
}

inline Results expected_nbody(size_t count) {
  Results out(4 * count, 0.0);
  for (size_t i = 0; i < count; ++i)
    for (size_t j = 0; j < count; ++j) {
      double square = 1e-4, distance[3];
      for (size_t axis = 0; axis < 3; ++axis) {
        distance[axis] = input(4 * j + axis, 1) - input(4 * i + axis, 1);
        square += distance[axis] * distance[axis];
      }
      for (size_t axis = 0; axis < 3; ++axis)
        out[4 * i + axis] += distance[axis] * input(4 * j + 3, 1) / (square * std::sqrt(square));
    }
  return out;
}

inline Results expected_product(const std::string &name, size_t size) {
  bool half = name == "hgemm" || name == "hgemm_wide";
  Results a, b, out(size * size, 0.0);
  for (size_t i = 0; i < size * size; ++i)
    for (unsigned seed : {1u, 2u}) {
      float value = value_at(static_cast<unsigned>(i), seed);
#ifdef __HIP__
      double rounded = static_cast<double>(static_cast<_Float16>(value));
#else
      double rounded = static_cast<double>(__half2float(__float2half(value)));
#endif
      (seed == 1 ? a : b).push_back(half ? rounded : static_cast<double>(value));
    }
  for (size_t i = 0; i < size; ++i)
    for (size_t k = 0; k < size; ++k)
      for (size_t j = 0; j < size; ++j)
        out[i * size + j] += a[i * size + k] * (half ? b[j * size + k] : b[k * size + j]);
  return out;
}

inline Results expected(const std::string &name, size_t size) {
  if (name == "stencil")
    return expected_stencil(size);
  if (name == "mandelbrot")
    return expected_mandelbrot(size);
  if (name == "nbody")
    return expected_nbody(size);
  if (name == "matmul" || name == "dmatmul" || name == "sgemm" || name == "hgemm" || name == "hgemm_wide")
    return expected_product(name, size);
  return expected_vector(name, size);
}
