// Calls whose depth or target is unknown at compile time: recursion, function pointers, virtual functions.
#include "check.h"

EXAMPLE("dynamic_stack");

__device__ __noinline__ unsigned ackermann(unsigned m, unsigned n) {
  if (m == 0)
    return n + 1;
  return ackermann(m - 1, n == 0 ? 1 : ackermann(m, n - 1));
}

// Every level has a local array, which is read after the deeper levels have returned.
__device__ __noinline__ unsigned nested(unsigned depth, unsigned seed) {
  volatile unsigned local[4];
  for (unsigned k = 0; k < 4; ++k)
    local[k] = seed * 7 + k;
  unsigned below = depth == 0 ? 0 : nested(depth - 1, seed + depth);
  return below + local[depth % 4];
}

static unsigned nested_on_host(unsigned depth, unsigned seed) {
  return (depth == 0 ? 0 : nested_on_host(depth - 1, seed + depth)) + seed * 7 + depth % 4;
}

__global__ void recurse(unsigned *out) {
  unsigned item = threadIdx.x;
  out[item] = ackermann(2, item % 4) + 1000 * nested(item % 12, item);
}

using Operation = int (*)(int, int);
__device__ int add(int a, int b) { return a + b; }
__device__ int subtract(int a, int b) { return a - b; }
__device__ int multiply(int a, int b) { return a * b; }
__device__ Operation operations[] = {add, subtract, multiply};

__global__ void through_pointers(int *out) {
  int item = static_cast<int>(threadIdx.x);
  // Lanes of one wave call different functions.
  out[item] = operations[item % 3](item, 5);
}

__global__ void chosen(Operation *table) { *table = multiply; }

// A pointer that another kernel stored.
__global__ void through_memory(const Operation *table, int *out) {
  int item = static_cast<int>(threadIdx.x);
  out[item] = (*table)(item, 3);
}

struct Expression {
  __device__ virtual int value(int x) const = 0;
};
struct Constant final : Expression {
  __device__ explicit Constant(int it) : it(it) {}
  __device__ int value(int) const override { return it; }
  int it;
};
struct Variable final : Expression {
  __device__ int value(int x) const override { return x; }
};
struct Sum final : Expression {
  __device__ Sum(const Expression *a, const Expression *b) : a(a), b(b) {}
  __device__ int value(int x) const override { return a->value(x) + b->value(x); }
  const Expression *a, *b;
};
struct Product final : Expression {
  __device__ Product(const Expression *a, const Expression *b) : a(a), b(b) {}
  __device__ int value(int x) const override { return a->value(x) * b->value(x); }
  const Expression *a, *b;
};

// (x + 2) * (x * x) for even lanes, x * x + 2 for odd ones; virtual functions call virtual functions.
__global__ void evaluate(int *out) {
  int item = static_cast<int>(threadIdx.x);
  Variable x;
  Constant two(2);
  Sum sum(&x, &two);
  Product square(&x, &x);
  Product even(&sum, &square);
  Sum odd(&square, &two);
  const Expression *expression = item % 2 == 0 ? static_cast<const Expression *>(&even) : &odd;
  out[item] = expression->value(item);
}

int main() {
  const unsigned count = 256;
  DeviceArray<unsigned> numbers(count);
  HIP_OK(hipDeviceSetLimit(hipLimitStackSize, 8192));
  size_t stack = 0;
  HIP_OK(hipDeviceGetLimit(&stack, hipLimitStackSize));
  if (stack != 8192)
    fail("the stack limit is %zu, not 8192", stack);
  recurse<<<1, count>>>(numbers.get());
  std::vector<unsigned> got = numbers.read();
  for (unsigned item = 0; item < count; ++item)
    if (unsigned wanted = 2 * (item % 4) + 3 + 1000 * nested_on_host(item % 12, item); got[item] != wanted)
      fail("recursion of item %u gives %u, not %u", item, got[item], wanted);

  DeviceArray<int> out(count);
  DeviceArray<Operation> table(1);
  auto expect = [&](const char *what, auto wanted) {
    std::vector<int> values = out.read();
    for (int item = 0; item < static_cast<int>(count); ++item)
      if (values[item] != wanted(item))
        fail("%s of item %d give %d, not %d", what, item, values[item], wanted(item));
  };
  through_pointers<<<1, count>>>(out.get());
  expect("function pointers", [](int item) {
    return item % 3 == 0 ? item + 5 : item % 3 == 1 ? item - 5 : item * 5;
  });
  chosen<<<1, 1>>>(table.get());
  through_memory<<<1, count>>>(table.get(), out.get());
  expect("stored pointers", [](int item) { return item * 3; });
  evaluate<<<1, count>>>(out.get());
  expect("virtual functions", [](int item) {
    return item % 2 == 0 ? (item + 2) * (item * item) : item * item + 2;
  });
  HIP_FAILS(hipErrorInvalidValue, hipDeviceSetLimit(hipLimitStackSize, 1 << 20));
  return pass();
}
