// Computes one of five kinds of work in rounds and prints a digest of every result: `endures KIND ROUNDS`. A single wrong, lost or
// repeated operation changes the digest.
#include "check.h"

#include <chrono>
#include <cstring>
#include <thread>

EXAMPLE("endures");

constexpr unsigned side = 64, count = side *side, block = 256;

static uint64_t digest = 1469598103934665603u;

static void note(const void *bytes, size_t size) {
  for (size_t i = 0; i < size; ++i)
    digest = (digest ^ static_cast<const unsigned char *>(bytes)[i]) * 1099511628211u;
}

// Other programs get time, and disturbances meet programs that wait as well as programs that compute.
static void progress(unsigned round) {
  if (round % 20 == 0) {
    std::printf("round %u\n", round);
    std::fflush(stdout);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

static std::vector<float> noise(uint32_t seed, size_t size) {
  Random random(seed);
  std::vector<float> values(size);
  for (float &value : values)
    value = random.signed_unit();
  return values;
}

__global__ void relax(const float *from, float *to) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x, x = i % side, y = i / side;
  float left = from[y * side + (x + side - 1) % side], right = from[y * side + (x + 1) % side];
  float up = from[(y + side - 1) % side * side + x], down = from[(y + 1) % side * side + x];
  to[i] = 0.249f * (left + right + up + down) + 0.01f * __sinf(from[i]);
}

// An iterative solver: two buffers, one result read in every round.
static void solver(unsigned rounds) {
  DeviceArray<float> a(noise(1, count)), b(count);
  for (unsigned round = 0; round < rounds; ++round) {
    for (int step = 0; step < 4; ++step)
      relax<<<count / block, block>>>(step % 2 ? b.get() : a.get(), step % 2 ? a.get() : b.get());
    float some[4];
    HIP_OK(hipMemcpy(some, a.get() + round % (count - 4), sizeof some, hipMemcpyDeviceToHost));
    note(some, sizeof some);
    progress(round);
  }
  note(a.read().data(), a.bytes());
}

__global__ void descend(const float *batch, const float *wanted, float *weights, float *loss, float rate) {
  __shared__ float errors[block];
  unsigned i = threadIdx.x;
  float guess = 0.0f;
  for (unsigned k = 0; k < 16; ++k)
    guess += batch[i * 16 + k] * weights[k];
  errors[i] = guess - wanted[i];
  __syncthreads();
  if (i < 16) {
    float slope = 0.0f;
    for (unsigned j = 0; j < block; ++j)
      slope += errors[j] * batch[j * 16 + i];
    weights[i] -= rate * slope / block;
  }
  if (i == 0) {
    float sum = 0.0f;
    for (unsigned j = 0; j < block; ++j)
      sum += errors[j] * errors[j];
    *loss = sum;
  }
}

// A training loop: a new batch is uploaded and a loss is read in every round.
static void training(unsigned rounds) {
  DeviceArray<float> batch(block * 16), wanted(noise(2, block)), weights(noise(3, 16)), loss(1);
  for (unsigned round = 0; round < rounds; ++round) {
    std::vector<float> next = noise(100 + round, block * 16);
    HIP_OK(hipMemcpy(batch.get(), next.data(), batch.bytes(), hipMemcpyHostToDevice));
    descend<<<1, block>>>(batch.get(), wanted.get(), weights.get(), loss.get(), 0.05f);
    note(loss.read().data(), loss.bytes());
    progress(round);
  }
  note(weights.read().data(), weights.bytes());
}

__global__ void mix(unsigned *values, unsigned salt) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  values[i] = values[i] * 1664525u + 1013904223u + salt + i;
}

// A captured graph, launched in every round.
static void graphs(unsigned rounds) {
  DeviceArray<unsigned> values(count), copy(count);
  HIP_OK(hipMemset(values.get(), 1, values.bytes()));
  hipStream_t stream;
  hipGraph_t graph;
  hipGraphExec_t ready;
  HIP_OK(hipStreamCreate(&stream));
  HIP_OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  for (unsigned salt = 0; salt < 6; ++salt)
    mix<<<count / block, block, 0, stream>>>(values.get(), salt);
  HIP_OK(hipMemcpyAsync(copy.get(), values.get(), copy.bytes(), hipMemcpyDeviceToDevice, stream));
  mix<<<count / block, block, 0, stream>>>(copy.get(), 99);
  HIP_OK(hipStreamEndCapture(stream, &graph));
  HIP_OK(hipGraphInstantiate(&ready, graph, nullptr, nullptr, 0));
  for (unsigned round = 0; round < rounds; ++round) {
    HIP_OK(hipGraphLaunch(ready, stream));
    HIP_OK(hipStreamSynchronize(stream));
    note(copy.read().data(), 64);
    progress(round);
  }
  note(copy.read().data(), copy.bytes());
  HIP_OK(hipGraphExecDestroy(ready));
  HIP_OK(hipGraphDestroy(graph));
  HIP_OK(hipStreamDestroy(stream));
}

// Managed memory that program and kernels write in turn.
static void managed(unsigned rounds) {
  unsigned *values = nullptr;
  HIP_OK(hipMallocManaged(&values, count * sizeof *values));
  for (unsigned i = 0; i < count; ++i)
    values[i] = i;
  for (unsigned round = 0; round < rounds; ++round) {
    values[round % count] += round;
    mix<<<count / block, block>>>(values, round);
    HIP_OK(hipDeviceSynchronize());
    note(values + round * 7 % (count - 8), 32);
    progress(round);
  }
  note(values, count * sizeof *values);
  HIP_OK(hipFree(values));
}

// Streams that wait for each other's events, with copies from and to pinned memory.
static void streams(unsigned rounds) {
  constexpr unsigned number = 3;
  hipStream_t all[number];
  hipEvent_t done[number];
  unsigned *device[number], *pinned[number];
  for (unsigned i = 0; i < number; ++i) {
    HIP_OK(hipStreamCreateWithFlags(&all[i], hipStreamNonBlocking));
    HIP_OK(hipEventCreateWithFlags(&done[i], hipEventDisableTiming));
    HIP_OK(hipMalloc(&device[i], count * sizeof(unsigned)));
    HIP_OK(hipHostMalloc(&pinned[i], count * sizeof(unsigned)));
    for (unsigned k = 0; k < count; ++k)
      pinned[i][k] = i * count + k;
  }
  for (unsigned round = 0; round < rounds; ++round) {
    for (unsigned i = 0; i < number; ++i) {
      if (round > 0 || i > 0)
        HIP_OK(hipStreamWaitEvent(all[i], done[(i + number - 1) % number], 0));
      HIP_OK(hipMemcpyAsync(device[i], pinned[i], count * sizeof(unsigned), hipMemcpyHostToDevice, all[i]));
      mix<<<count / block, block, 0, all[i]>>>(device[i], round + i);
      HIP_OK(hipMemcpyAsync(pinned[i], device[i], count * sizeof(unsigned), hipMemcpyDeviceToHost, all[i]));
      HIP_OK(hipEventRecord(done[i], all[i]));
    }
    for (unsigned i = 0; i < number; ++i) {
      HIP_OK(hipStreamSynchronize(all[i]));
      note(pinned[i], 64);
    }
    progress(round);
  }
  for (unsigned i = 0; i < number; ++i) {
    note(pinned[i], count * sizeof(unsigned));
    HIP_OK(hipFree(device[i]));
    HIP_OK(hipHostFree(pinned[i]));
    HIP_OK(hipEventDestroy(done[i]));
    HIP_OK(hipStreamDestroy(all[i]));
  }
}

int main(int arguments, char **argument) {
  if (arguments < 3)
    fail("usage: endures solver|training|graphs|managed|streams ROUNDS");
  unsigned rounds = static_cast<unsigned>(std::atoi(argument[2]));
  struct {
    const char *name;
    void (*run)(unsigned);
  } kinds[] = {
      {"solver", solver}, {"training", training}, {"graphs", graphs}, {"managed", managed}, {"streams", streams}};
  for (auto &kind : kinds)
    if (std::strcmp(kind.name, argument[1]) == 0) {
      kind.run(rounds);
      std::printf("digest %016llx\n", static_cast<unsigned long long>(digest));
      return pass();
    }
  fail("unknown kind %s", argument[1]);
}
