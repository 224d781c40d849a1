// Random graphs give the same results as their nodes run one by one, and captured streams the same as without a capture. The
// argument is the number of trials of each.
#include "check.h"

EXAMPLE("graph_random");

constexpr int buffers = 6, n = 96;

// Not commutative, so that every order gives a different result.
__global__ void mix(uint32_t *to, const uint32_t *from, uint32_t salt) {
  int i = threadIdx.x;
  to[i] = (to[i] ^ salt) * 2654435761u + from[(i + salt) % n];
}

struct Step {
  enum { Mix, Copy, Fill, In, Out, Host } kind;
  int to, from;
  uint32_t salt;
};

struct Machine {
  std::vector<uint32_t *> device;
  std::vector<std::vector<uint32_t>> host;
  std::vector<uint32_t> log;

  Machine() : host(buffers, std::vector<uint32_t>(n)) {
    for (int i = 0; i < buffers; ++i) {
      uint32_t *memory = nullptr;
      HIP_OK(hipMalloc(&memory, n * sizeof(uint32_t)));
      device.push_back(memory);
    }
  }
  ~Machine() {
    for (uint32_t *memory : device)
      HIP_OK(hipFree(memory));
  }
  void begin(uint32_t seed) {
    Random random(seed);
    log.clear();
    for (int i = 0; i < buffers; ++i) {
      for (uint32_t &value : host[i])
        value = random.next();
      HIP_OK(hipMemcpy(device[i], host[i].data(), n * sizeof(uint32_t), hipMemcpyHostToDevice));
      for (uint32_t &value : host[i])
        value = random.next();
    }
  }
  std::vector<uint32_t> state() const {
    HIP_OK(hipDeviceSynchronize());
    std::vector<uint32_t> all(log);
    for (int i = 0; i < buffers; ++i) {
      std::vector<uint32_t> values(n);
      HIP_OK(hipMemcpy(values.data(), device[i], n * sizeof(uint32_t), hipMemcpyDeviceToHost));
      all.insert(all.end(), values.begin(), values.end());
      all.insert(all.end(), host[i].begin(), host[i].end());
    }
    return all;
  }
};

struct Call {
  Machine *machine;
  Step step;
};

static void call(void *data) {
  auto *it = static_cast<Call *>(data);
  std::vector<uint32_t> &memory = it->machine->host[it->step.to];
  for (uint32_t &value : memory)
    value = value * 3 + it->step.salt;
  it->machine->log.push_back(it->step.salt ^ memory[0]);
}

static Step random_step(Random &random) {
  Step step{};
  uint32_t kind = random.below(16);
  step.kind = kind < 7 ? Step::Mix : kind < 9 ? Step::Copy : kind < 11 ? Step::Fill : kind < 13 ? Step::In : kind < 15 ? Step::Out : Step::Host;
  step.to = static_cast<int>(random.below(buffers));
  step.from = static_cast<int>((step.to + 1 + random.below(buffers - 1)) % buffers);
  step.salt = random.next();
  return step;
}

// Whether two steps conflict, so that their order matters. Host functions write to the log, so they conflict with each other.
static bool conflict(const Step &a, const Step &b) {
  auto on_host = [](const Step &s) { return s.kind == Step::In || s.kind == Step::Out || s.kind == Step::Host; };
  if (a.kind == Step::Host && b.kind == Step::Host)
    return true;
  // Device buffers: In and everything but Out and Host writes `to`; Mix and Copy read `from`; Out reads `to`.
  auto writes = [](const Step &s, int buffer) { return s.kind != Step::Out && s.kind != Step::Host && s.to == buffer; };
  auto touches = [&](const Step &s, int buffer) {
    return s.kind != Step::Host && (s.to == buffer || ((s.kind == Step::Mix || s.kind == Step::Copy) && s.from == buffer));
  };
  for (int buffer = 0; buffer < buffers; ++buffer)
    if ((writes(a, buffer) && touches(b, buffer)) || (writes(b, buffer) && touches(a, buffer)))
      return true;
  // Host buffers: Out and Host write number `to`; In reads it.
  return on_host(a) && on_host(b) && a.to == b.to;
}

static void run(Machine &machine, const Step &step, Call *data, hipStream_t stream) {
  constexpr size_t bytes = n * sizeof(uint32_t);
  uint32_t *to = machine.device[step.to], *from = machine.device[step.from];
  switch (step.kind) {
  case Step::Mix:
    mix<<<1, n, 0, stream>>>(to, from, step.salt);
    HIP_OK(hipGetLastError());
    break;
  case Step::Copy:
    HIP_OK(hipMemcpyAsync(to, from, bytes / 2, hipMemcpyDeviceToDevice, stream));
    break;
  case Step::Fill:
    HIP_OK(hipMemsetAsync(to, static_cast<int>(step.salt & 0xff), bytes / 3, stream));
    break;
  case Step::In:
    HIP_OK(hipMemcpyAsync(to, machine.host[step.to].data(), bytes, hipMemcpyHostToDevice, stream));
    break;
  case Step::Out:
    HIP_OK(hipMemcpyAsync(machine.host[step.to].data(), to, bytes, hipMemcpyDeviceToHost, stream));
    break;
  case Step::Host:
    HIP_OK(hipLaunchHostFunc(stream, call, data));
    break;
  }
}

static hipGraphNode_t put(Machine &machine, const Step &step, Call *data, hipGraph_t graph, const std::vector<hipGraphNode_t> &after) {
  constexpr size_t bytes = n * sizeof(uint32_t);
  uint32_t *to = machine.device[step.to], *from = machine.device[step.from];
  hipGraphNode_t node = nullptr;
  const hipGraphNode_t *list = after.data();
  size_t count = after.size();
  switch (step.kind) {
  case Step::Mix: {
    uint32_t salt = step.salt;
    void *arguments[] = {&to, &from, &salt};
    hipKernelNodeParams parameters{};
    parameters.func = reinterpret_cast<void *>(mix);
    parameters.gridDim = dim3(1);
    parameters.blockDim = dim3(n);
    parameters.kernelParams = arguments;
    HIP_OK(hipGraphAddKernelNode(&node, graph, list, count, &parameters));
    break;
  }
  case Step::Copy:
    HIP_OK(hipGraphAddMemcpyNode1D(&node, graph, list, count, to, from, bytes / 2, hipMemcpyDeviceToDevice));
    break;
  case Step::Fill: {
    hipMemsetParams parameters{};
    parameters.dst = to;
    parameters.value = step.salt & 0xff;
    parameters.elementSize = 1;
    parameters.width = bytes / 3;
    parameters.height = 1;
    HIP_OK(hipGraphAddMemsetNode(&node, graph, list, count, &parameters));
    break;
  }
  case Step::In:
    HIP_OK(hipGraphAddMemcpyNode1D(&node, graph, list, count, to, machine.host[step.to].data(), bytes, hipMemcpyHostToDevice));
    break;
  case Step::Out:
    HIP_OK(hipGraphAddMemcpyNode1D(&node, graph, list, count, machine.host[step.to].data(), to, bytes, hipMemcpyDeviceToHost));
    break;
  case Step::Host: {
    hipHostNodeParams parameters{call, data};
    HIP_OK(hipGraphAddHostNode(&node, graph, list, count, &parameters));
    break;
  }
  }
  return node;
}

static void compare(const char *what, uint32_t seed, const std::vector<uint32_t> &got, const std::vector<uint32_t> &wanted) {
  if (got.size() != wanted.size())
    fail("%s %u: %zu values, not %zu", what, seed, got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i)
    if (got[i] != wanted[i])
      fail("%s %u: value %zu of %zu is %#x, not %#x", what, seed, i, got.size(), got[i], wanted[i]);
}

int main(int count, char **arguments) {
  uint32_t tries = count > 1 ? static_cast<uint32_t>(std::atoi(arguments[1])) : 20;
  Machine machine;
  hipStream_t main;
  std::vector<hipStream_t> streams(3);
  HIP_OK(hipStreamCreateWithFlags(&main, hipStreamNonBlocking));
  for (hipStream_t &stream : streams)
    HIP_OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  std::vector<hipEvent_t> events(64);
  for (hipEvent_t &event : events)
    HIP_OK(hipEventCreateWithFlags(&event, hipEventDisableTiming));

  for (uint32_t seed = 1; seed <= tries; ++seed) {
    Random random(seed);
    size_t length = 1 + random.below(24);
    std::vector<Step> steps;
    for (size_t i = 0; i < length; ++i)
      steps.push_back(random_step(random));
    std::vector<Call> calls;
    for (const Step &step : steps)
      calls.push_back({&machine, step});

    // Reference: one by one, with a synchronization after each; twice, as the graph is launched twice.
    machine.begin(seed);
    for (int turn = 0; turn < 2; ++turn)
      for (size_t i = 0; i < length; ++i) {
        run(machine, steps[i], &calls[i], main);
        HIP_OK(hipStreamSynchronize(main));
      }
    std::vector<uint32_t> wanted = machine.state();

    // As a graph with the necessary edges and a few more.
    hipGraph_t graph;
    HIP_OK(hipGraphCreate(&graph, 0));
    std::vector<hipGraphNode_t> nodes;
    for (size_t i = 0; i < length; ++i) {
      std::vector<hipGraphNode_t> after;
      for (size_t j = 0; j < i; ++j)
        if (conflict(steps[j], steps[i]) || random.below(8) == 0)
          after.push_back(nodes[j]);
      nodes.push_back(put(machine, steps[i], &calls[i], graph, after));
    }
    hipGraphExec_t executable;
    HIP_OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
    HIP_OK(hipGraphDestroy(graph));
    machine.begin(seed);
    for (int turn = 0; turn < 2; ++turn)
      HIP_OK(hipGraphLaunch(executable, main));
    compare("graph", seed, machine.state(), wanted);
    HIP_OK(hipGraphExecDestroy(executable));

    // As a capture of several streams: each step on a random stream, with events for the necessary order.
    HIP_OK(hipStreamBeginCapture(main, hipStreamCaptureModeThreadLocal));
    HIP_OK(hipEventRecord(events[62], main));
    for (hipStream_t stream : streams)
      HIP_OK(hipStreamWaitEvent(stream, events[62], 0));
    std::vector<hipStream_t> where;
    for (size_t i = 0; i < length; ++i) {
      where.push_back(streams[random.below(3)]);
      for (size_t j = 0; j < i; ++j)
        if (where[j] != where[i] && conflict(steps[j], steps[i]))
          HIP_OK(hipStreamWaitEvent(where[i], events[j], 0));
      run(machine, steps[i], &calls[i], where[i]);
      HIP_OK(hipEventRecord(events[i], where[i]));
    }
    for (hipStream_t stream : streams) {
      HIP_OK(hipEventRecord(events[63], stream));
      HIP_OK(hipStreamWaitEvent(main, events[63], 0));
    }
    HIP_OK(hipStreamEndCapture(main, &graph));
    HIP_OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
    HIP_OK(hipGraphDestroy(graph));
    machine.begin(seed);
    for (int turn = 0; turn < 2; ++turn)
      HIP_OK(hipGraphLaunch(executable, main));
    compare("capture", seed, machine.state(), wanted);
    HIP_OK(hipGraphExecDestroy(executable));
  }
  for (hipEvent_t event : events)
    HIP_OK(hipEventDestroy(event));
  for (hipStream_t stream : streams)
    HIP_OK(hipStreamDestroy(stream));
  HIP_OK(hipStreamDestroy(main));
  return pass();
}
