// Cooperative launches: repeated barriers across the whole grid.
#include "check.h"

#include <hip/hip_cooperative_groups.h>

namespace cg = cooperative_groups;

EXAMPLE("grid_sync");

// Heat spreads along a ring. Every step needs what other workgroups wrote in the step before.
__global__ void spread(float *from, float *to, int count, int steps) {
  cg::grid_group grid = cg::this_grid();
  for (int step = 0; step < steps; ++step) {
    for (int k = static_cast<int>(grid.thread_rank()); k < count; k += static_cast<int>(grid.size())) {
      float left = from[(k + count - 1) % count], right = from[(k + 1) % count];
      to[k] = 0.25f * left + 0.5f * from[k] + 0.25f * right;
    }
    grid.sync();
    float *swap = from;
    from = to;
    to = swap;
  }
}

// Sizes and ranks of every kind of group, and a sum over tiles of a wave.
__global__ void groups(unsigned *out) {
  cg::grid_group grid = cg::this_grid();
  cg::thread_block block = cg::this_thread_block();
  auto tile = cg::tiled_partition<16>(block);
  unsigned value = tile.thread_rank();
  for (unsigned step = 8; step > 0; step /= 2)
    value += tile.shfl_down(value, step);
  bool right = grid.is_valid() && grid.size() == gridDim.x * blockDim.x &&
               grid.thread_rank() == blockIdx.x * blockDim.x + threadIdx.x && block.size() == blockDim.x &&
               block.thread_rank() == threadIdx.x && tile.size() == 16 && tile.thread_rank() == threadIdx.x % 16 &&
               (tile.thread_rank() != 0 || value == 120);
  out[grid.thread_rank()] = right ? 1 : 0;
}

int main() {
  hipDeviceProp_t properties;
  HIP_OK(hipGetDeviceProperties(&properties, 0));
  if (!properties.cooperativeLaunch)
    fail("the device cannot launch cooperatively");
  const int count = 5000;
  int steps = 20;
  std::vector<float> heat(count, 0.0f);
  for (int k = 0; k < count; k += 7)
    heat[static_cast<size_t>(k)] = static_cast<float>(k % 100);
  std::vector<double> wanted(heat.begin(), heat.end());
  for (int step = 0; step < steps; ++step) {
    std::vector<double> next(wanted.size());
    for (int k = 0; k < count; ++k)
      next[static_cast<size_t>(k)] = 0.25 * wanted[static_cast<size_t>((k + count - 1) % count)] +
                                     0.5 * wanted[static_cast<size_t>(k)] +
                                     0.25 * wanted[static_cast<size_t>((k + 1) % count)];
    wanted = next;
  }
  // More workgroups than a machine has CPUs.
  int resident = 0;
  HIP_OK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&resident, spread, 64, 0));
  unsigned blocks = std::min(64u, static_cast<unsigned>(resident * properties.multiProcessorCount));
  DeviceArray<float> from(heat), to(count);
  float *from_pointer = from.get(), *to_pointer = to.get();
  int argument_count = count;
  void *arguments[] = {&from_pointer, &to_pointer, &argument_count, &steps};
  HIP_OK(hipLaunchCooperativeKernel(reinterpret_cast<const void *>(spread), dim3(blocks), dim3(64), arguments, 0, nullptr));
  HIP_OK(hipDeviceSynchronize());
  expect_near("heat", from.read(), wanted, 1e-5);

  DeviceArray<unsigned> out(4 * 128);
  unsigned *out_pointer = out.get();
  void *group_arguments[] = {&out_pointer};
  HIP_OK(hipLaunchCooperativeKernel(reinterpret_cast<const void *>(groups), dim3(4), dim3(128), group_arguments, 0, nullptr));
  for (unsigned right : out.read())
    if (right != 1)
      fail("a group has the wrong size, rank or sum");

  // More workgroups than can be resident on the device at the same time.
  dim3 too_many(static_cast<unsigned>(resident * properties.multiProcessorCount) + 1);
  HIP_FAILS(hipErrorCooperativeLaunchTooLarge,
            hipLaunchCooperativeKernel(reinterpret_cast<const void *>(spread), too_many, dim3(64), arguments, 0, nullptr));
  return pass();
}
