// Kernels over grids and particles: masked borders, divergent loops, local memory that all lanes read.
#pragma once

#include "portable.h"

// One step of heat in a cube; nothing flows through its faces.
extern "C" __global__ void stencil(int side, const float *before, float *after) {
  int x = global_x(), y = global_y(), z = global_z();
  if (x >= side || y >= side || z >= side)
    return;
  long row = side, plane = row * side;
  long i = z * plane + y * row + x;
  float here = before[i];
  float left = x > 0 ? before[i - 1] : here, right = x < side - 1 ? before[i + 1] : here;
  float up = y > 0 ? before[i - row] : here, down = y < side - 1 ? before[i + row] : here;
  float front = z > 0 ? before[i - plane] : here, back = z < side - 1 ? before[i + plane] : here;
  after[i] = here + 0.1f * (left + right + up + down + front + back - 6.0f * here);
}

// Steps until a point leaves the circle: every lane leaves the loop at another time.
extern "C" __global__ void mandelbrot(int side, int limit, int *steps) {
  int column = global_x(), row = global_y();
  float scale = 1.0f / static_cast<float>(side);
  float real = static_cast<float>(column) * 3.0f * scale - 2.0f;
  float imaginary = static_cast<float>(row) * 2.5f * scale - 1.25f;
  float x = 0.0f, y = 0.0f;
  int count = 0;
  while (count < limit && x * x + y * y < 4.0f) {
    float next = x * x - y * y + real;
    y = 2.0f * x * y + imaginary;
    x = next;
    ++count;
  }
  steps[row * side + column] = count;
}

constexpr int bodies_at_once = 256;
constexpr float softening = 1e-4f;

// What all bodies do to one: a block of them in local memory at a time.
extern "C" __global__ void nbody(int count, const float4 *bodies, float4 *forces) {
  __shared__ float4 block[bodies_at_once];
  int i = global_x();
  float4 here = bodies[i];
  float x = 0.0f, y = 0.0f, z = 0.0f;
  for (int start = 0; start < count; start += bodies_at_once) {
    block[threadIdx.x] = bodies[start + static_cast<int>(threadIdx.x)];
    __syncthreads();
#pragma unroll 8
    for (int j = 0; j < bodies_at_once; ++j) {
      float4 there = block[j];
      float dx = there.x - here.x, dy = there.y - here.y, dz = there.z - here.z;
      float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + softening);
      float pull = there.w * inverse * inverse * inverse;
      x += dx * pull;
      y += dy * pull;
      z += dz * pull;
    }
    __syncthreads();
  }
  forces[i] = make_float4(x, y, z, 0.0f);
}
