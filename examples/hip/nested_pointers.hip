// Device pointers inside device memory: a linked list, rows of different lengths, and a structure passed by value.
#include "check.h"

EXAMPLE("nested_pointers");

struct Node {
  long long value;
  Node *next;
};

__global__ void walk(const Node *head, long long *sum, int *length) {
  long long total = 0;
  int steps = 0;
  for (const Node *node = head; node != nullptr; node = node->next) {
    total += node->value * (steps + 1);
    ++steps;
  }
  *sum = total;
  *length = steps;
}

// The device builds a list too; the host reads the addresses it stored.
__global__ void build(Node *nodes, int count) {
  int i = static_cast<int>(threadIdx.x);
  if (i < count)
    nodes[i] = {i * i, i + 1 < count ? &nodes[i + 1] : nullptr};
}

struct Rows {
  int **rows;
  const int *lengths;
  int count;
};

__global__ void sum_rows(Rows rows, int *sums) {
  int row = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (row >= rows.count)
    return;
  int sum = 0;
  for (int i = 0; i < rows.lengths[row]; ++i)
    sum += rows.rows[row][i];
  sums[row] = sum;
}

int main() {
  // A list whose nodes are separate allocations, linked by the host in a scrambled order.
  const int count = 100;
  std::vector<Node *> nodes(count);
  for (Node *&node : nodes)
    HIP_OK(hipMalloc(&node, sizeof(Node)));
  long long wanted = 0;
  for (int i = 0; i < count; ++i) {
    int at = i * 37 % count, after = (i + 1) * 37 % count;
    Node node = {at * 1000ll - 7, i + 1 < count ? nodes[after] : nullptr};
    HIP_OK(hipMemcpy(nodes[at], &node, sizeof node, hipMemcpyHostToDevice));
    wanted += node.value * (i + 1);
  }
  DeviceArray<long long> sum(1);
  DeviceArray<int> length(1);
  walk<<<1, 1>>>(nodes[0], sum.get(), length.get());
  HIP_OK(hipGetLastError());
  if (sum.read()[0] != wanted || length.read()[0] != count)
    fail("the list has %d nodes and a sum of %lld, not %d and %lld", length.read()[0], sum.read()[0], count, wanted);
  for (Node *node : nodes)
    HIP_OK(hipFree(node));

  DeviceArray<Node> built(count);
  build<<<1, 128>>>(built.get(), count);
  walk<<<1, 1>>>(built.get(), sum.get(), length.get());
  HIP_OK(hipGetLastError());
  std::vector<Node> read = built.read();
  wanted = 0;
  for (int i = 0; i < count; ++i) {
    const Node *next = i + 1 < count ? built.get() + i + 1 : nullptr;
    if (read[i].next != next)
      fail("node %d points to %p, not to %p", i, static_cast<void *>(read[i].next), static_cast<const void *>(next));
    wanted += static_cast<long long>(i) * i * (i + 1);
  }
  if (sum.read()[0] != wanted)
    fail("the list built on the device has a sum of %lld, not %lld", sum.read()[0], wanted);

  const int row_count = 70;
  std::vector<int *> rows(row_count);
  std::vector<int> lengths(row_count), wanted_sums(row_count, 0);
  for (int row = 0; row < row_count; ++row) {
    lengths[row] = 1 + row % 13;
    std::vector<int> values(lengths[row]);
    for (int i = 0; i < lengths[row]; ++i)
      wanted_sums[row] += values[i] = row * 100 + i;
    HIP_OK(hipMalloc(&rows[row], values.size() * sizeof(int)));
    HIP_OK(hipMemcpy(rows[row], values.data(), values.size() * sizeof(int), hipMemcpyHostToDevice));
  }
  DeviceArray<int *> device_rows(rows);
  DeviceArray<int> device_lengths(lengths), sums(row_count);
  sum_rows<<<2, 64>>>(Rows{device_rows.get(), device_lengths.get(), row_count}, sums.get());
  HIP_OK(hipGetLastError());
  std::vector<int> got = sums.read();
  for (int row = 0; row < row_count; ++row) {
    if (got[row] != wanted_sums[row])
      fail("row %d sums to %d, not %d", row, got[row], wanted_sums[row]);
    HIP_OK(hipFree(rows[row]));
  }
  return pass();
}
