// Kernels with published figures, for `cargo xtask conformance model`. They are written for this purpose and do what the measured
// kernels do: the same accesses, workgroup sizes and arithmetic per byte.
#include <hip/hip_runtime.h>

typedef _Float16 half4 __attribute__((ext_vector_type(4)));
typedef short short4_ __attribute__((ext_vector_type(4)));
typedef float float4_ __attribute__((ext_vector_type(4)));
typedef float float16_ __attribute__((ext_vector_type(16)));
typedef double double4_ __attribute__((ext_vector_type(4)));
typedef int int16_ __attribute__((ext_vector_type(16)));
typedef int int4_ __attribute__((ext_vector_type(4)));

#define KERNEL extern "C" __global__ __launch_bounds__(1024)
#define INDEX (blockIdx.x * blockDim.x + threadIdx.x)

// BabelStream: one double per work-item, workgroups of 1024.
KERNEL void stream_copy(const double *a, double *c) { c[INDEX] = a[INDEX]; }
KERNEL void stream_mul(double *b, const double *c) { b[INDEX] = 0.4 * c[INDEX]; }
KERNEL void stream_add(const double *a, const double *b, double *c) { c[INDEX] = a[INDEX] + b[INDEX]; }
KERNEL void stream_triad(double *a, const double *b, const double *c) { a[INDEX] = b[INDEX] + 0.4 * c[INDEX]; }
KERNEL void stream_dot(const double *a, const double *b, double *sums, unsigned count) {
  __shared__ double part[1024];
  double sum = 0;
  for (unsigned i = INDEX; i < count; i += gridDim.x * blockDim.x)
    sum += a[i] * b[i];
  part[threadIdx.x] = sum;
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half)
      part[threadIdx.x] += part[threadIdx.x + half];
  }
  if (threadIdx.x == 0)
    sums[blockIdx.x] = part[0];
}

// A seven-point stencil on a cube, workgroups of 256 in a row.
extern "C" __global__ __launch_bounds__(256) void stencil_3d(double *f, const double *u, int nx, int ny, int nz, double x, double y,
                                                             double z, double middle) {
  int i = blockIdx.x * 256 + threadIdx.x, j = blockIdx.y, k = blockIdx.z;
  if (i == 0 || i >= nx - 1 || j == 0 || j >= ny - 1 || k == 0 || k >= nz - 1)
    return;
  size_t slice = size_t(nx) * ny, at = i + size_t(nx) * j + slice * k;
  f[at] = u[at] * middle + (u[at - 1] + u[at + 1]) * x + (u[at - nx] + u[at + nx]) * y + (u[at - slice] + u[at + slice]) * z;
}

// The kernels of a Jacobi solver on a square.
extern "C" __global__ __launch_bounds__(256) void jacobi_update(unsigned count, double factor, const double *__restrict__ right,
                                                                const double *__restrict__ product, double *__restrict__ residual,
                                                                double *__restrict__ u) {
  for (unsigned i = INDEX; i < count; i += gridDim.x * blockDim.x) {
    double rest = right[i] - product[i];
    residual[i] = rest;
    u[i] += rest * factor;
  }
}
extern "C" __global__ __launch_bounds__(256) void jacobi_stencil(int width, int inner, double x, double y, const double *u,
                                                                 double *product) {
  int at = INDEX;
  if (at > inner + inner * width || at < width + 1)
    return;
  __builtin_nontemporal_store((-u[at - 1] + 2 * u[at] - u[at + 1]) * x + (-u[at - width] + 2 * u[at] - u[at + width]) * y,
                              product + at);
}
extern "C" __global__ __launch_bounds__(512) void jacobi_norm(const double *a, double *sums, unsigned count) {
  __shared__ double part[512];
  part[threadIdx.x] = 0;
  for (unsigned i = INDEX; i < count; i += gridDim.x * blockDim.x)
    part[threadIdx.x] += a[i] * a[i];
  for (unsigned half = 256; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half)
      part[threadIdx.x] += part[threadIdx.x + half];
  }
  if (threadIdx.x == 0)
    sums[blockIdx.x] = part[0];
}

// Arithmetic in registers: independent chains of fused multiply-adds.
template <typename T> __device__ void multiply_add(T *out, T factor, int rounds) {
  T values[16];
  for (int k = 0; k < 16; ++k)
    values[k] = T(threadIdx.x + k);
  for (int round = 0; round < rounds; ++round)
#pragma unroll
    for (int k = 0; k < 16; ++k)
      values[k] = __builtin_fma(values[k], factor, T(1));
  T sum = 0;
  for (int k = 0; k < 16; ++k)
    sum += values[k];
  out[INDEX] = sum;
}
template <> __device__ void multiply_add<float>(float *out, float factor, int rounds) {
  float values[16];
  for (int k = 0; k < 16; ++k)
    values[k] = float(threadIdx.x + k);
  for (int round = 0; round < rounds; ++round)
#pragma unroll
    for (int k = 0; k < 16; ++k)
      asm volatile("v_fma_f32 %0, %0, %1, 1.0" : "+v"(values[k]) : "v"(factor));
  float sum = 0;
  for (int k = 0; k < 16; ++k)
    sum += values[k];
  out[INDEX] = sum;
}
extern "C" __global__ __launch_bounds__(256) void fma_f32(float *out, float factor, int rounds) { multiply_add(out, factor, rounds); }
extern "C" __global__ __launch_bounds__(256) void fma_f64(double *out, double factor, int rounds) {
  multiply_add(out, factor, rounds);
}

// Matrix operations on registers: four independent accumulators. An iteration has many, because the compiler copies
// accumulators at its end.
#define MATRIX(name, accumulator, operand, operation, literal)                                                                   \
  extern "C" __global__ __launch_bounds__(256) void name(float *out, int rounds) {                                               \
    accumulator sum[4] = {};                                                                                                     \
    operand left = literal, right = literal;                                                                                     \
    for (int round = 0; round < rounds; ++round) {                                                                               \
      _Pragma("unroll") for (int k = 0; k < 32; ++k) sum[k % 4] = operation(left, right, sum[k % 4], 0, 0, 0);                   \
    }                                                                                                                            \
    float total = 0;                                                                                                             \
    for (int k = 0; k < 4; ++k)                                                                                                  \
      for (unsigned m = 0; m < sizeof(accumulator) / sizeof(sum[0][0]); ++m)                                                     \
        total += float(sum[k][m]);                                                                                               \
    out[INDEX] = total;                                                                                                          \
  }
#define LANE_VECTOR(type, value) (type){value, value, value, value}
MATRIX(mfma_f16, float16_, half4, __builtin_amdgcn_mfma_f32_32x32x8f16, LANE_VECTOR(half4, 1))
MATRIX(mfma_bf16, float16_, short4_, __builtin_amdgcn_mfma_f32_32x32x8bf16_1k, LANE_VECTOR(short4_, 1))
MATRIX(mfma_f32, float16_, float, __builtin_amdgcn_mfma_f32_32x32x2f32, 1.0f)
MATRIX(mfma_f64, double4_, double, __builtin_amdgcn_mfma_f64_16x16x4f64, 1.0)
#ifdef __gfx90a__
MATRIX(mfma_i8, int16_, int, __builtin_amdgcn_mfma_i32_32x32x8i8, 0x01010101)
#endif

// Reads of LDS without bank conflicts, 16 bytes per lane. The compiler would move plain loads out of the loop.
extern "C" __global__ __launch_bounds__(256) void lds_read(float *out, int rounds) {
  __shared__ float4_ tile[1024];
  for (int k = threadIdx.x; k < 1024; k += 256)
    tile[k] = float(k);
  __syncthreads();
  auto *own = (__attribute__((address_space(3))) float4_ *)(tile + threadIdx.x);
  float4_ value[4];
  for (int round = 0; round < rounds; ++round)
    asm volatile("ds_read_b128 %0, %4\n ds_read_b128 %1, %4 offset:4096\n ds_read_b128 %2, %4 offset:8192\n"
                 "ds_read_b128 %3, %4 offset:12288\n s_waitcnt lgkmcnt(0)"
                 : "=&v"(value[0]), "=&v"(value[1]), "=&v"(value[2]), "=&v"(value[3])
                 : "v"(own));
  out[INDEX] = value[0][0] + value[1][1] + value[2][2] + value[3][3];
}

// Reads of global memory that are only summed up.
KERNEL void global_read(const float4_ *in, float *out, unsigned count) {
  float4_ sum = {};
  unsigned step = gridDim.x * blockDim.x;
  for (unsigned i = INDEX; i + 3 * step < count; i += 4 * step)
    sum += in[i] + in[i + step] + in[i + 2 * step] + in[i + 3 * step];
  out[INDEX] = sum[0] + sum[1] + sum[2] + sum[3];
}

// A chain of dependent loads in one lane.
extern "C" __global__ void chase(const unsigned *next, unsigned *out, int steps) {
  unsigned at = 0;
  for (int step = 0; step < steps; ++step)
    at = next[at + threadIdx.x];
  out[threadIdx.x] = at;
}

// C = A * B^T, both with K consecutive elements. A workgroup of four waves computes 128 x 128 elements with tiles in LDS; the next
// tiles are loaded to registers while the matrix cores work.
template <typename Operand, typename Multiply> __device__ void gemm(const Operand *a, const Operand *b, float *c, int n, int k4,
                                                                    Multiply multiply) {
  constexpr int Depth = 8, Row = Depth + 1;
  __shared__ Operand left[128 * Row], right[128 * Row];
  int lane = threadIdx.x & 63, wave = threadIdx.x >> 6;
  int row = blockIdx.y * 128, column = blockIdx.x * 128;
  int wave_row = (wave >> 1) * 64, wave_column = (wave & 1) * 64;
  float4_ sum[4][4] = {};
  Operand next_left[4], next_right[4];
  auto load = [&](int at) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      int cell = threadIdx.x + 256 * k;
      next_left[k] = a[size_t(row + cell / Depth) * k4 + at + cell % Depth];
      next_right[k] = b[size_t(column + cell / Depth) * k4 + at + cell % Depth];
    }
  };
  load(0);
  for (int at = 0; at < k4; at += Depth) {
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      int cell = threadIdx.x + 256 * k;
      left[cell / Depth * Row + cell % Depth] = next_left[k];
      right[cell / Depth * Row + cell % Depth] = next_right[k];
    }
    __syncthreads();
    if (at + Depth < k4)
      load(at + Depth);
#pragma unroll
    for (int depth = 0; depth < Depth; depth += 4) {
      Operand x[4], y[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        x[k] = left[(wave_row + k * 16 + lane % 16) * Row + depth + lane / 16];
        y[k] = right[(wave_column + k * 16 + lane % 16) * Row + depth + lane / 16];
      }
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          sum[i][j] = multiply(x[i], y[j], sum[i][j]);
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int m = 0; m < 4; ++m)
        c[size_t(row + wave_row + i * 16 + lane / 16 * 4 + m) * n + column + wave_column + j * 16 + lane % 16] = sum[i][j][m];
}
extern "C" __global__ __launch_bounds__(256) void gemm_f16(const half4 *a, const half4 *b, float *c, int n, int k4) {
  gemm(a, b, c, n, k4, [](half4 x, half4 y, float4_ z) { return __builtin_amdgcn_mfma_f32_16x16x16f16(x, y, z, 0, 0, 0); });
}
extern "C" __global__ __launch_bounds__(256) void gemm_bf16(const short4_ *a, const short4_ *b, float *c, int n, int k4) {
  gemm(a, b, c, n, k4,
       [](short4_ x, short4_ y, float4_ z) { return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(x, y, z, 0, 0, 0); });
}
