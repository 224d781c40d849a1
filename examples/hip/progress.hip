// Workgroups that wait for each other (forward progress): a decoupled look-back scan, and device-wide locks.
#include "check.h"

EXAMPLE("progress");

enum : unsigned { EMPTY = 0, PARTIAL = 1, WHOLE = 2 };

// State of one tile: the value in the upper bits, its status in the lower bits.
__device__ unsigned long long packed(unsigned status, unsigned value) {
  return static_cast<unsigned long long>(value) << 32 | status;
}

// One pass over the data. A workgroup takes its tile number when it starts, so the workgroups of all earlier tiles have started too.
__global__ void scan(const unsigned *in, unsigned *out, unsigned count, unsigned long long *states, unsigned *tickets) {
  __shared__ unsigned sums[256], tile, before;
  unsigned item = threadIdx.x;
  if (item == 0)
    tile = atomicAdd(tickets, 1u);
  __syncthreads();
  unsigned at = tile * 256 + item;
  sums[item] = at < count ? in[at] : 0;
  __syncthreads();
  for (unsigned step = 1; step < 256; step *= 2) {
    unsigned other = item >= step ? sums[item - step] : 0;
    __syncthreads();
    sums[item] += other;
    __syncthreads();
  }
  if (item == 0) {
    unsigned total = sums[255], sum = 0;
    __hip_atomic_store(&states[tile], packed(tile == 0 ? WHOLE : PARTIAL, total), __ATOMIC_RELEASE,
                       __HIP_MEMORY_SCOPE_AGENT);
    for (unsigned look = tile; look > 0;) {
      unsigned long long state = __hip_atomic_load(&states[look - 1], __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT);
      unsigned status = static_cast<unsigned>(state);
      if (status == EMPTY)
        continue;
      sum += static_cast<unsigned>(state >> 32);
      if (status == WHOLE)
        break;
      --look;
    }
    if (tile > 0)
      __hip_atomic_store(&states[tile], packed(WHOLE, sum + total), __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
    before = sum;
  }
  __syncthreads();
  if (at < count)
    out[at] = before + sums[item];
}

// One work-item of every workgroup takes the spin lock and changes the guarded data without atomics.
__global__ void spin_lock(unsigned *lock, unsigned *guarded, unsigned rounds) {
  if (threadIdx.x != 0)
    return;
  for (unsigned round = 0; round < rounds; ++round) {
    while (atomicCAS(lock, 0u, 1u) != 0)
      ;
    __threadfence();
    guarded[0] += 1;
    guarded[1] = guarded[1] * 3 + 1;
    __threadfence();
    atomicExch(lock, 0u);
  }
}

// Ticket lock, taken by every lane of every wave. A lane that is done waits for the other lanes of its wave inside the loop, not
// after it: a wave leaves a loop as a whole, so a lane that left alone would wait for lanes that wait for it (deadlock).
__global__ void ticket_lock(unsigned *next, volatile unsigned *serving, unsigned *guarded) {
  unsigned ticket = atomicAdd(next, 1u);
  for (bool served = false; __any(!served);) {
    if (!served && *serving == ticket) {
      __threadfence();
      guarded[0] += 1;
      guarded[1] ^= ticket * 2654435761u;
      __threadfence();
      *serving = ticket + 1;
      served = true;
    }
  }
}

// Two workgroups alternate (ping-pong); neither can end without the other.
__global__ void ping_pong(unsigned *ball, unsigned rounds) {
  if (threadIdx.x != 0)
    return;
  unsigned players = gridDim.x;
  for (unsigned round = 0; round < rounds; ++round) {
    unsigned mine = round * players + blockIdx.x;
    while (__hip_atomic_load(ball, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) != mine)
      __builtin_amdgcn_s_sleep(1);
    __hip_atomic_store(ball, mine + 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
  }
}

int main() {
  // About six hundred workgroups, each of which waits for the earlier ones.
  const unsigned count = 150000, tiles = blocks_for(count, 256);
  Random random(5);
  std::vector<unsigned> values(count);
  for (unsigned &value : values)
    value = random.below(1000);
  DeviceArray<unsigned> in(values), out(count), tickets(std::vector<unsigned>(1, 0));
  DeviceArray<unsigned long long> states(std::vector<unsigned long long>(tiles, 0));
  scan<<<tiles, 256>>>(in.get(), out.get(), count, states.get(), tickets.get());
  std::vector<unsigned> got = out.read();
  unsigned sum = 0;
  for (unsigned k = 0; k < count; ++k)
    if (sum += values[k]; got[k] != sum)
      fail("the sum up to %u is %u, not %u", k, got[k], sum);

  const unsigned groups = 48, rounds = 20;
  DeviceArray<unsigned> words(std::vector<unsigned>(4, 0));
  spin_lock<<<groups, 64>>>(words.get(), words.get() + 1, rounds);
  unsigned chain = 0;
  for (unsigned k = 0; k < groups * rounds; ++k)
    chain = chain * 3 + 1;
  got = words.read();
  if (got[1] != groups * rounds || got[2] != chain)
    fail("under the spin lock %u and %u were counted, not %u and %u", got[1], got[2], groups * rounds, chain);

  HIP_OK(hipMemset(words.get(), 0, words.bytes()));
  ticket_lock<<<6, 96>>>(words.get(), words.get() + 1, words.get() + 2);
  unsigned mix = 0;
  for (unsigned ticket = 0; ticket < 6 * 96; ++ticket)
    mix ^= ticket * 2654435761u;
  got = words.read();
  if (got[1] != 6 * 96 || got[2] != 6 * 96 || got[3] != mix)
    fail("the ticket lock served %u of %u, mixed to %#x and not %#x", got[2], 6 * 96, got[3], mix);

  HIP_OK(hipMemset(words.get(), 0, words.bytes()));
  ping_pong<<<5, 64>>>(words.get(), 50);
  if (unsigned hits = words.read()[0]; hits != 250)
    fail("the ball was hit %u times, not 250", hits);
  return pass();
}
