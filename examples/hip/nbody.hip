// Gravitational n-body simulation: a few steps of leapfrog integration, with bodies staged through LDS.
#include "check.h"

EXAMPLE("nbody");

constexpr int bodies = 384, block = 128, steps = 3;
constexpr float softening = 0.05f, step_time = 0.01f;

__global__ void accelerate(const float4 *position, float4 *velocity) {
  __shared__ float4 staged[block];
  int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  float4 mine = position[i];
  float ax = 0.0f, ay = 0.0f, az = 0.0f;
  for (int start = 0; start < bodies; start += block) {
    staged[threadIdx.x] = position[start + threadIdx.x];
    __syncthreads();
    for (int j = 0; j < block; ++j) {
      float dx = staged[j].x - mine.x, dy = staged[j].y - mine.y, dz = staged[j].z - mine.z;
      float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + softening);
      float strength = staged[j].w * inverse * inverse * inverse;
      ax += dx * strength;
      ay += dy * strength;
      az += dz * strength;
    }
    __syncthreads();
  }
  float4 v = velocity[i];
  velocity[i] = make_float4(v.x + ax * step_time, v.y + ay * step_time, v.z + az * step_time, 0.0f);
}

__global__ void move(float4 *position, const float4 *velocity) {
  int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  float4 p = position[i], v = velocity[i];
  position[i] = make_float4(p.x + v.x * step_time, p.y + v.y * step_time, p.z + v.z * step_time, p.w);
}

int main() {
  std::vector<float4> start(bodies);
  Random random(6);
  for (float4 &body : start) {
    body.x = random.signed_unit();
    body.y = random.signed_unit();
    body.z = random.signed_unit();
    body.w = 0.5f + 0.25f * random.signed_unit();
  }
  DeviceArray<float4> position(start), velocity(bodies);
  HIP_OK(hipMemset(velocity.get(), 0, velocity.bytes()));
  for (int step = 0; step < steps; ++step) {
    accelerate<<<bodies / block, block>>>(position.get(), velocity.get());
    move<<<bodies / block, block>>>(position.get(), velocity.get());
  }
  HIP_OK(hipGetLastError());
  std::vector<float4> end = position.read();

  struct Body {
    double x, y, z, vx, vy, vz, mass;
  };
  std::vector<Body> reference(bodies);
  for (int i = 0; i < bodies; ++i)
    reference[i] = {start[i].x, start[i].y, start[i].z, 0, 0, 0, start[i].w};
  for (int step = 0; step < steps; ++step) {
    for (Body &a : reference) {
      double ax = 0, ay = 0, az = 0;
      for (const Body &b : reference) {
        double dx = b.x - a.x, dy = b.y - a.y, dz = b.z - a.z;
        double strength = b.mass / std::pow(dx * dx + dy * dy + dz * dz + static_cast<double>(softening), 1.5);
        ax += dx * strength, ay += dy * strength, az += dz * strength;
      }
      a.vx += ax * static_cast<double>(step_time);
      a.vy += ay * static_cast<double>(step_time);
      a.vz += az * static_cast<double>(step_time);
    }
    for (Body &a : reference) {
      a.x += a.vx * static_cast<double>(step_time);
      a.y += a.vy * static_cast<double>(step_time);
      a.z += a.vz * static_cast<double>(step_time);
    }
  }
  std::vector<float> got;
  std::vector<double> wanted;
  for (int i = 0; i < bodies; ++i) {
    got.insert(got.end(), {end[i].x, end[i].y, end[i].z});
    wanted.insert(wanted.end(), {reference[i].x, reference[i].y, reference[i].z});
  }
  expect_near("coordinate", got, wanted, 5e-5);
  return pass();
}
