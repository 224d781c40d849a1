// The time of a kernel, by events, and a checksum of its results.
//
//   run NAME SIZE COUNT   two checksums (bits of doubles) of the results of one launch, then COUNT times of a launch in ns
//   again COUNT           COUNT more times of the same launch
//   check NAME SIZE       compares the results of one launch with the same computation here
#include "grids.h"
#include "matrices.h"
#include "vectors.h"

#include "expected.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>

__global__ void fill_floats(size_t count, unsigned seed, float *out) {
  for (size_t i = global_x(); i < count; i += whole_grid())
    out[i] = value_at(static_cast<unsigned>(i), seed);
}

__global__ void fill_doubles(size_t count, unsigned seed, double *out) {
  for (size_t i = global_x(); i < count; i += whole_grid())
    out[i] = value_at(static_cast<unsigned>(i), seed);
}

__global__ void fill_halves(size_t count, unsigned seed, half_float *out) {
  for (size_t i = global_x(); i < count; i += whole_grid())
    out[i] = static_cast<half_float>(value_at(static_cast<unsigned>(i), seed));
}

__global__ void fill_integers(size_t count, unsigned seed, int *out) {
  for (size_t i = global_x(); i < count; i += whole_grid())
    out[i] = integer_at(static_cast<unsigned>(i), seed);
}

using Memory = std::shared_ptr<void>;

static Memory allocate_bytes(size_t bytes) {
  return Memory(allocate<char>(bytes), [](void *memory) { GPU_OK(GPU(Free)(memory)); });
}

template <typename T> static T *at(const Memory &memory) { return static_cast<T *>(memory.get()); }

static unsigned filling_blocks(size_t count) {
  return static_cast<unsigned>(std::min<size_t>((count + 255) / 256, 2048));
}

template <typename T> static Memory filled(size_t count, unsigned seed, void (*fill)(size_t, unsigned, T *)) {
  Memory memory = allocate_bytes(count * sizeof(T));
  fill<<<filling_blocks(count), 256>>>(count, seed, at<T>(memory));
  GPU_OK(GPU(GetLastError)());
  return memory;
}

static Memory zeros(size_t bytes) {
  Memory memory = allocate_bytes(bytes);
  GPU_OK(GPU(Memset)(memory.get(), 0, bytes));
  return memory;
}

// A kernel with its arguments: how to launch it, and what it leaves.
struct Case {
  std::function<void()> before; // part of every launch, outside the time taken
  std::function<void()> launch;
  Memory results;
  size_t count = 0;
  Type type = Type::floats;
  bool ordered = true; // every result has its place
};

static unsigned blocks_for(int64_t count, int64_t each) { return static_cast<unsigned>((count + each - 1) / each); }

// As many workgroups as a large GPU runs at once: lanes go through the vector in strides.
static unsigned striding(int64_t count) { return std::min(blocks_for(count, 256), 132u * 16u); }

static Case vector_case(const std::string &name, int64_t size) {
  size_t count = static_cast<size_t>(size);
  int n = static_cast<int>(size);
  unsigned each = blocks_for(size, 256);
  Case made;
  made.count = count;
  if (name == "wavescan") {
    Memory x = filled(count, 1, fill_integers);
    made.results = zeros(count * 4);
    made.type = Type::integers;
    made.launch = [=, out = made.results] { wavescan<<<each, 256>>>(n, at<int>(x), at<int>(out)); };
    return made;
  }
  Memory x = filled(count, 1, fill_floats);
  if (name == "saxpy") {
    made.results = filled(count, 2, fill_floats);
    made.launch = [=, y = made.results] { saxpy<<<striding(size), 256>>>(n, 1.5f, at<float>(x), at<float>(y)); };
  } else if (name == "reduce") {
    made.results = zeros(4);
    made.count = 1;
    made.launch = [=, sum = made.results] { reduce<<<striding(size), 256>>>(n, at<float>(x), at<float>(sum)); };
  } else if (name == "compact") {
    Memory kept = zeros(4);
    made.ordered = false;
    made.results = zeros(count * 4);
    made.before = [=] { GPU_OK(GPU(MemsetAsync)(kept.get(), 0, 4, 0)); };
    made.launch = [=, out = made.results] {
      compact<<<striding(size), 256>>>(n, at<float>(x), at<float>(out), at<unsigned>(kept));
    };
  } else {
    made.count = static_cast<size_t>(each) * 4;
    made.results = zeros(made.count * 4);
    made.launch = [=, out = made.results] { wavesync<<<each, 256>>>(n, at<float>(x), at<float>(out)); };
  }
  return made;
}

static Case grid_case(const std::string &name, int64_t size) {
  size_t side = static_cast<size_t>(size);
  int n = static_cast<int>(size);
  Case made;
  if (name == "nbody") {
    Memory bodies = filled(side * 4, 1, fill_floats);
    made.count = side * 4;
    made.results = zeros(made.count * 4);
    unsigned blocks = static_cast<unsigned>(size / bodies_at_once);
    made.launch = [=, out = made.results] {
      nbody<<<blocks, bodies_at_once>>>(n, at<float4>(bodies), at<float4>(out));
    };
  } else if (name == "stencil") {
    made.count = side * side * side;
    Memory before = filled(made.count, 1, fill_floats);
    made.results = zeros(made.count * 4);
    dim3 block(32, 4, 2), grid(blocks_for(size, 32), blocks_for(size, 4), blocks_for(size, 2));
    made.launch = [=, out = made.results] { stencil<<<grid, block>>>(n, at<float>(before), at<float>(out)); };
  } else {
    made.count = side * side;
    made.type = Type::integers;
    made.results = zeros(made.count * 4);
    dim3 block(32, 8), grid(blocks_for(size, 32), blocks_for(size, 8));
    made.launch = [=, out = made.results] { mandelbrot<<<grid, block>>>(n, mandelbrot_limit, at<int>(out)); };
  }
  return made;
}

static Case matrix_case(const std::string &name, int64_t size) {
  size_t count = static_cast<size_t>(size * size);
  int n = static_cast<int>(size);
  Case made;
  made.count = count;
  dim3 tiles(blocks_for(size, tile), blocks_for(size, tile)), panels(blocks_for(size, panel), blocks_for(size, panel));
  if (name == "dmatmul") {
    Memory a = filled(count, 1, fill_doubles), b = filled(count, 2, fill_doubles);
    made.type = Type::doubles;
    made.results = zeros(count * 8);
    made.launch = [=, c = made.results] {
      dmatmul<<<tiles, dim3(tile, tile)>>>(n, at<double>(a), at<double>(b), at<double>(c));
    };
    return made;
  }
  made.results = zeros(count * 4);
  if (name == "hgemm" || name == "hgemm_wide") {
    Memory a = filled(count, 1, fill_halves), b = filled(count, 2, fill_halves);
    dim3 grid = name == "hgemm" ? panels : dim3(blocks_for(size, 256), blocks_for(size, panel));
    auto kernel = name == "hgemm" ? hgemm : hgemm_wide;
    made.launch = [=, c = made.results] {
      kernel<<<grid, 256>>>(n, at<half_float>(a), at<half_float>(b), at<float>(c));
    };
    return made;
  }
  Memory a = filled(count, 1, fill_floats), b = filled(count, 2, fill_floats);
  if (name == "sgemm")
    made.launch = [=, c = made.results] { sgemm<<<panels, 256>>>(n, at<float>(a), at<float>(b), at<float>(c)); };
  else
    made.launch = [=, c = made.results] {
      matmul<<<tiles, dim3(tile, tile)>>>(n, at<float>(a), at<float>(b), at<float>(c));
    };
  return made;
}

// Sizes are whole workgroups where a kernel has no masks.
static Case find_case(const std::string &name, int64_t size) {
  struct Known {
    const char *name;
    Case (*make)(const std::string &, int64_t);
    int64_t multiple;
  };
  static const Known all[] = {
      {"saxpy", vector_case, 1},     {"reduce", vector_case, 1},      {"compact", vector_case, 1},
      {"wavescan", vector_case, 1},  {"wavesync", vector_case, 1},    {"stencil", grid_case, 1},
      {"mandelbrot", grid_case, 32}, {"nbody", grid_case, 256},       {"matmul", matrix_case, 16},
      {"dmatmul", matrix_case, 16},  {"sgemm", matrix_case, 128},     {"hgemm", matrix_case, 128},
      {"hgemm_wide", matrix_case, 256},
  };
  for (const Known &known : all) {
    if (name != known.name)
      continue;
    if (size <= 0 || size % known.multiple)
      fail("the size of %s must be a multiple of %lld", known.name, static_cast<long long>(known.multiple));
    return known.make(name, size);
  }
  fail("there is no kernel %s", name.c_str());
}

static std::unique_ptr<char[]> results_of(const Case &made) {
  size_t bytes = made.count * (made.type == Type::doubles ? 8 : 4);
  std::unique_ptr<char[]> results(new char[bytes]);
  GPU_OK(GPU(Memcpy)(results.get(), made.results.get(), bytes, GPU(MemcpyDeviceToHost)));
  return results;
}

static void launch_once(const Case &made) {
  if (made.before)
    made.before();
  made.launch();
  GPU_OK(GPU(GetLastError)());
}

static int64_t bits(double value) {
  if (!std::isfinite(value))
    fail("the results are not finite");
  int64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// A sample is a few launches in a row, unless each needs preparation: the gap between an event and a launch is then small
// beside it. Answers the time of one.
static int64_t timed(const Case &made, int launches) {
  static GPU(Event_t) start = nullptr, end = nullptr;
  if (!start) {
    GPU_OK(GPU(EventCreate)(&start));
    GPU_OK(GPU(EventCreate)(&end));
  }
  if (made.before)
    made.before();
  GPU_OK(GPU(EventRecord)(start, 0));
  for (int i = 0; i < launches; ++i)
    made.launch();
  GPU_OK(GPU(EventRecord)(end, 0));
  GPU_OK(GPU(EventSynchronize)(end));
  GPU_OK(GPU(GetLastError)());
  float milliseconds = 0.0f;
  GPU_OK(GPU(EventElapsedTime)(&milliseconds, start, end));
  return std::llround(static_cast<double>(milliseconds) * 1e6 / launches);
}

// The case of the last `run`, for `again`.
static Case kept;

static Answer again(int64_t count) {
  constexpr int64_t sample = 2'000'000; // ns
  constexpr int most = 8;
  if (!kept.launch)
    fail("`again` needs a `run` before it");
  timed(kept, 1);
  int64_t each = std::max<int64_t>(timed(kept, 1), 1);
  int launches = kept.before ? 1 : static_cast<int>(std::clamp<int64_t>(sample / each, 1, most));
  Answer times;
  for (int64_t i = 0; i < count; ++i)
    times.push_back(timed(kept, launches));
  return times;
}

static Answer run(const std::string &name, int64_t size, int64_t count) {
  kept = Case(); // Frees the memory of the last one.
  kept = find_case(name, size);
  launch_once(kept);
  Checksum checksum = checksum_of(results_of(kept).get(), kept.count, kept.type);
  Answer answer = {bits(checksum.plain), bits(kept.ordered ? checksum.placed : checksum.plain)};
  for (int64_t time : again(count))
    answer.push_back(time);
  return answer;
}

static Answer check(const std::string &name, int64_t size) {
  Case made = find_case(name, size);
  launch_once(made);
  std::unique_ptr<char[]> bytes = results_of(made);
  std::vector<double> got(made.count), wanted = expected(name, static_cast<size_t>(size));
  for (size_t i = 0; i < made.count; ++i)
    got[i] = number_at(bytes.get(), i, made.type);
  if (!made.ordered)
    std::sort(got.begin(), got.end());
  if (got.size() != wanted.size())
    fail("%s left %zu results instead of %zu", name.c_str(), got.size(), wanted.size());
  double tolerance = tolerance_of(name);
  size_t wrong = 0, first = 0;
  for (size_t i = got.size(); i-- > 0;)
    if (!(std::fabs(got[i] - wanted[i]) <= tolerance * std::fmax(1.0, std::fabs(wanted[i])))) {
      ++wrong;
      first = i;
    }
  // A point near the border of the set may leave one step earlier or later, as roundings differ.
  if (wrong > (name == "mandelbrot" ? got.size() / 30 : 0))
    fail("%s: %zu of %zu results are wrong; result %zu is %g, not %g", name.c_str(), wrong, got.size(), first,
         got[first], wanted[first]);
  return {static_cast<int64_t>(got.size())};
}

int main() {
  return serve([](const std::string &command, Words &words) -> Answer {
    if (command == "again")
      return again(words.number());
    std::string name = words.text();
    int64_t size = words.number();
    if (command == "check")
      return check(name, size);
    if (command == "run")
      return run(name, size, words.number());
    fail("there is no command %s", command.c_str());
  });
}
