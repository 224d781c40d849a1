// Matrix products on the matrix cores: float through 16x16x4, half through 32x32x8. One wave computes one tile.
#include "check.h"

EXAMPLE("mfma_matmul");

typedef float float_x4 __attribute__((ext_vector_type(4)));
typedef float float_x16 __attribute__((ext_vector_type(16)));
typedef _Float16 half_x4 __attribute__((ext_vector_type(4)));

constexpr int size = 64;

// Lane l holds A[l % 16][l / 16], B[l / 16][l % 16] and four rows of column l % 16 of the result.
__global__ void matmul_float(const float *a, const float *b, float *c) {
#if defined(__gfx90a__) || defined(__gfx942__)
  int lane = static_cast<int>(threadIdx.x);
  int row = static_cast<int>(blockIdx.y) * 16, column = static_cast<int>(blockIdx.x) * 16;
  float_x4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int k = 0; k < size; k += 4)
    sum = __builtin_amdgcn_mfma_f32_16x16x4f32(a[(row + lane % 16) * size + k + lane / 16],
                                               b[(k + lane / 16) * size + column + lane % 16], sum, 0, 0, 0);
  for (int i = 0; i < 4; ++i)
    c[(row + 4 * (lane / 16) + i) * size + column + lane % 16] = sum[i];
#else
  (void)a, (void)b, (void)c;
#endif
}

// Lane l holds four adjacent elements of row l % 32 of A and of column l % 32 of B, and 16 elements of the result.
__global__ void matmul_half(const _Float16 *a, const _Float16 *b, float *c) {
#if defined(__gfx90a__) || defined(__gfx942__)
  int lane = static_cast<int>(threadIdx.x);
  int row = static_cast<int>(blockIdx.y) * 32, column = static_cast<int>(blockIdx.x) * 32;
  float_x16 sum = {};
  for (int k = 0; k < size; k += 8) {
    half_x4 left, right;
    for (int j = 0; j < 4; ++j) {
      left[j] = a[(row + lane % 32) * size + k + 4 * (lane / 32) + j];
      right[j] = b[(k + 4 * (lane / 32) + j) * size + column + lane % 32];
    }
    sum = __builtin_amdgcn_mfma_f32_32x32x8f16(left, right, sum, 0, 0, 0);
  }
  for (int i = 0; i < 16; ++i)
    c[(row + 8 * (i / 4) + 4 * (lane / 32) + i % 4) * size + column + lane % 32] = sum[i];
#else
  (void)a, (void)b, (void)c;
#endif
}

// Small integers, so every order of additions gives the same result.
static void expect_product(const char *what, const std::vector<float> &a, const std::vector<float> &b,
                           const std::vector<float> &c) {
  for (int i = 0; i < size; ++i)
    for (int j = 0; j < size; ++j) {
      float wanted = 0.0f;
      for (int k = 0; k < size; ++k)
        wanted += a[i * size + k] * b[k * size + j];
      if (c[i * size + j] != wanted)
        fail("%s: c[%d][%d] is %g, not %g", what, i, j, static_cast<double>(c[i * size + j]), static_cast<double>(wanted));
    }
}

int main() {
  std::vector<float> a(size * size), b(size * size);
  Random random(8);
  for (float &value : a)
    value = static_cast<float>(random.below(31)) - 15.0f;
  for (float &value : b)
    value = static_cast<float>(random.below(31)) - 15.0f;
  DeviceArray<float> c(size * size);

  DeviceArray<float> float_a(a), float_b(b);
  matmul_float<<<dim3(size / 16, size / 16), 64>>>(float_a.get(), float_b.get(), c.get());
  HIP_OK(hipGetLastError());
  expect_product("float", a, b, c.read());

  HIP_OK(hipMemset(c.get(), 0, c.bytes()));
  std::vector<_Float16> narrow_a(a.begin(), a.end()), narrow_b(b.begin(), b.end());
  DeviceArray<_Float16> half_a(narrow_a), half_b(narrow_b);
  matmul_half<<<dim3(size / 32, size / 32), 64>>>(half_a.get(), half_b.get(), c.get());
  HIP_OK(hipGetLastError());
  expect_product("half", a, b, c.read());
  return pass();
}
