// Products of square matrices: tiles in local memory, many sums a lane, matrix units.
#pragma once

#include "portable.h"

#ifndef __HIP__
#include <mma.h>
#endif

constexpr int tile = 16;

template <typename T> __device__ inline void tiled_product(int size, const T *a, const T *b, T *c) {
  __shared__ T left[tile][tile], right[tile][tile];
  int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  int column = static_cast<int>(blockIdx.x) * tile + x, row = static_cast<int>(blockIdx.y) * tile + y;
  T sum = 0;
  for (int start = 0; start < size; start += tile) {
    left[y][x] = a[row * size + start + x];
    right[y][x] = b[(start + y) * size + column];
    __syncthreads();
    for (int k = 0; k < tile; ++k)
      sum += left[y][k] * right[k][x];
    __syncthreads();
  }
  c[row * size + column] = sum;
}

extern "C" __global__ void matmul(int size, const float *a, const float *b, float *c) { tiled_product(size, a, b, c); }

extern "C" __global__ void dmatmul(int size, const double *a, const double *b, double *c) {
  tiled_product(size, a, b, c);
}

constexpr int panel = 128;

// 128x128 elements a workgroup of 256, 8x8 a lane, 8 deep.
extern "C" __global__ void __launch_bounds__(256) sgemm(int size, const float *a, const float *b, float *c) {
  constexpr int depth = 8, own = 8;
  __shared__ __attribute__((aligned(16))) float left[depth][panel], right[depth][panel];
  int thread = static_cast<int>(threadIdx.x), x = thread % 16, y = thread / 16;
  int row = static_cast<int>(blockIdx.y) * panel, column = static_cast<int>(blockIdx.x) * panel;
  float sums[own][own];
#pragma unroll
  for (int i = 0; i < own; ++i)
#pragma unroll
    for (int j = 0; j < own; ++j)
      sums[i][j] = 0.0f;
  for (int start = 0; start < size; start += depth) {
    int k = thread % 2 * 4, i = thread / 2;
    float4 of_a = *reinterpret_cast<const float4 *>(&a[(row + i) * size + start + k]);
    float4 of_b = *reinterpret_cast<const float4 *>(&b[(start + thread / 32) * size + column + thread % 32 * 4]);
    left[k][i] = of_a.x;
    left[k + 1][i] = of_a.y;
    left[k + 2][i] = of_a.z;
    left[k + 3][i] = of_a.w;
    *reinterpret_cast<float4 *>(&right[thread / 32][thread % 32 * 4]) = of_b;
    __syncthreads();
#pragma unroll
    for (int step = 0; step < depth; ++step) {
      float rows[own], columns[own];
#pragma unroll
      for (int part = 0; part < own; part += 4) {
        *reinterpret_cast<float4 *>(&rows[part]) = *reinterpret_cast<const float4 *>(&left[step][y * own + part]);
        *reinterpret_cast<float4 *>(&columns[part]) = *reinterpret_cast<const float4 *>(&right[step][x * own + part]);
      }
#pragma unroll
      for (int m = 0; m < own; ++m)
#pragma unroll
        for (int n = 0; n < own; ++n)
          sums[m][n] += rows[m] * columns[n];
    }
    __syncthreads();
  }
#pragma unroll
  for (int m = 0; m < own; ++m)
#pragma unroll
    for (int n = 0; n < own; n += 4)
      *reinterpret_cast<float4 *>(&c[(row + y * own + m) * size + column + x * own + n]) =
          make_float4(sums[m][n], sums[m][n + 1], sums[m][n + 2], sums[m][n + 3]);
}

#ifdef __HIP__
using half_float = _Float16;
typedef half_float half_x4 __attribute__((ext_vector_type(4)));
typedef float float_x4 __attribute__((ext_vector_type(4)));
#else
using half_float = __half;
#endif

// f16 products with f32 sums, 32 deep, without a pipeline. B is transposed. A workgroup of 256 computes 128 rows and
// `columns` columns. Rows in local memory have 8 elements to spare, against bank conflicts.
constexpr int half_depth = 32, half_row = half_depth + 8;

// Copies `rows` rows of 32 elements to local memory, 16 bytes a lane at a time.
template <int rows> __device__ inline void load_rows(half_float *local, const half_float *from, int size) {
#pragma unroll
  for (int part = 0; part < rows / 64; ++part) {
    int piece = static_cast<int>(threadIdx.x) + part * 256, row = piece / 4, k = piece % 4 * 8;
    *reinterpret_cast<uint4 *>(&local[row * half_row + k]) =
        *reinterpret_cast<const uint4 *>(&from[static_cast<size_t>(row) * static_cast<size_t>(size) + k]);
  }
}

template <int columns>
__device__ inline void half_product(int size, const half_float *a, const half_float *b, float *c) {
  __shared__ __attribute__((aligned(16))) unsigned short storage[(panel + columns) * half_row];
  half_float *left = reinterpret_cast<half_float *>(storage), *right = left + panel * half_row;
  size_t row = blockIdx.y * panel, column = blockIdx.x * columns, width = static_cast<size_t>(size);
  int mine = static_cast<int>(threadIdx.x) / wave;
#ifdef __HIP__
  // 4 waves: 64 rows and half of the columns each.
  constexpr int across = columns / 2 / 16;
  int lane = static_cast<int>(threadIdx.x) % wave;
  int top = mine / 2 * 64, first = mine % 2 * (columns / 2);
  float_x4 sums[4][across];
#else
  // 8 warps: 64 rows and a quarter of the columns each.
  constexpr int across = columns / 4 / 16;
  int top = mine / 4 * 64, first = mine % 4 * (columns / 4);
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> sums[4][across];
#endif
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < across; ++j)
#ifdef __HIP__
      sums[i][j] = float_x4{0.0f, 0.0f, 0.0f, 0.0f};
#else
      nvcuda::wmma::fill_fragment(sums[i][j], 0.0f);
#endif
  for (int start = 0; start < size; start += half_depth) {
    load_rows<panel>(left, a + row * width + start, size);
    load_rows<columns>(right, b + column * width + start, size);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < half_depth; k += 16) {
#ifdef __HIP__
      half_x4 of_a[4], of_b[across];
      int place = lane % 16 * half_row + k + lane / 16 * 4;
#pragma unroll
      for (int i = 0; i < 4; ++i)
        of_a[i] = *reinterpret_cast<const half_x4 *>(&left[(top + i * 16) * half_row + place]);
#pragma unroll
      for (int j = 0; j < across; ++j)
        of_b[j] = *reinterpret_cast<const half_x4 *>(&right[(first + j * 16) * half_row + place]);
#else
      namespace wmma = nvcuda::wmma;
      wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> of_a[4];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> of_b[across];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        wmma::load_matrix_sync(of_a[i], &left[(top + i * 16) * half_row + k], half_row);
#pragma unroll
      for (int j = 0; j < across; ++j)
        wmma::load_matrix_sync(of_b[j], &right[(first + j * 16) * half_row + k], half_row);
#endif
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < across; ++j)
#ifndef __HIP__
          wmma::mma_sync(sums[i][j], of_a[i], of_b[j], sums[i][j]);
#elif defined(__HIP_DEVICE_COMPILE__)
          sums[i][j] = __builtin_amdgcn_mfma_f32_16x16x16f16(of_a[i], of_b[j], sums[i][j], 0, 0, 0);
#else
          sums[i][j] += of_a[i][0] * of_b[j][0]; // Never runs: the host's view of device code.
#endif
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < across; ++j) {
      float *corner = c + (row + static_cast<size_t>(top + i * 16)) * width + column + static_cast<size_t>(first + j * 16);
#ifdef __HIP__
#pragma unroll
      for (int r = 0; r < 4; ++r)
        corner[static_cast<size_t>(lane / 16 * 4 + r) * width + static_cast<size_t>(lane % 16)] = sums[i][j][r];
#else
      nvcuda::wmma::store_matrix_sync(corner, sums[i][j], size, nvcuda::wmma::mem_row_major);
#endif
    }
}

extern "C" __global__ void __launch_bounds__(256) hgemm(int size, const half_float *a, const half_float *b, float *c) {
  half_product<128>(size, a, b, c);
}

// 128 sums a lane in HIP: more registers than two lanes a thread have on NVIDIA GPUs.
extern "C" __global__ void __launch_bounds__(256)
    hgemm_wide(int size, const half_float *a, const half_float *b, float *c) {
  half_product<256>(size, a, b, c);
}
