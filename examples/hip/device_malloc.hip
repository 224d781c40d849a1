// malloc, free, new and delete in kernels: memory that kernels allocate, pass to other kernels, and free.
#include "check.h"

EXAMPLE("device_malloc");

struct Node {
  Node *next;
  unsigned value;
};

// Every work-item builds a private list whose length is given by its ID.
__global__ void grow(Node **lists, unsigned *refused) {
  unsigned item = blockIdx.x * blockDim.x + threadIdx.x;
  Node *head = nullptr;
  for (unsigned k = 0; k <= item % 5; ++k) {
    Node *node = static_cast<Node *>(malloc(sizeof(Node)));
    if (node == nullptr) {
      atomicAdd(refused, 1u);
      break;
    }
    node->next = head;
    node->value = item * 10 + k;
    head = node;
  }
  lists[item] = head;
}

// A later kernel walks the lists in another order and frees them.
__global__ void harvest(Node **lists, unsigned *sums, unsigned count) {
  unsigned item = count - 1 - (blockIdx.x * blockDim.x + threadIdx.x);
  unsigned sum = 0;
  for (Node *node = lists[item]; node != nullptr;) {
    Node *next = node->next;
    sum += node->value;
    free(node);
    node = next;
  }
  sums[item] = sum;
}

struct Shape {
  __device__ explicit Shape(unsigned *gone) : gone(gone) {}
  __device__ virtual ~Shape() { atomicAdd(gone, 1u); }
  __device__ virtual unsigned area() const = 0;
  unsigned *gone;
};

struct Square final : Shape {
  __device__ Square(unsigned *gone, unsigned side) : Shape(gone), side(side) {}
  __device__ unsigned area() const override { return side * side; }
  unsigned side;
};

struct Mosaic final : Shape {
  __device__ Mosaic(unsigned *gone, unsigned count) : Shape(gone), count(count), tiles(new unsigned[count]) {
    for (unsigned k = 0; k < count; ++k)
      tiles[k] = k;
  }
  __device__ ~Mosaic() override { delete[] tiles; }
  __device__ unsigned area() const override {
    unsigned sum = 0;
    for (unsigned k = 0; k < count; ++k)
      sum += tiles[k];
    return sum;
  }
  unsigned count, *tiles;
};

__global__ void objects(unsigned *areas, unsigned *gone) {
  unsigned item = blockIdx.x * blockDim.x + threadIdx.x;
  Shape *shape = item % 2 == 0 ? static_cast<Shape *>(new Square(gone, item)) : new Mosaic(gone, item);
  areas[item] = shape->area();
  delete shape;
}

// Blocks too large for the heap's slabs.
__global__ void take(void **blocks, size_t bytes) {
  unsigned item = blockIdx.x * blockDim.x + threadIdx.x;
  blocks[item] = malloc(bytes);
  if (blocks[item] != nullptr) {
    static_cast<char *>(blocks[item])[0] = 1;
    static_cast<char *>(blocks[item])[bytes - 1] = 2;
  }
}

__global__ void give(void **blocks) { free(blocks[blockIdx.x * blockDim.x + threadIdx.x]); }

static unsigned given(const DeviceArray<void *> &blocks) {
  std::vector<void *> all = blocks.read();
  std::sort(all.begin(), all.end());
  all.erase(all.begin(), std::upper_bound(all.begin(), all.end(), static_cast<void *>(nullptr)));
  if (std::adjacent_find(all.begin(), all.end()) != all.end())
    fail("malloc gave one block twice");
  return static_cast<unsigned>(all.size());
}

int main() {
  const unsigned groups = 12, threads = 96, count = groups * threads;
  DeviceArray<Node *> lists(count);
  DeviceArray<unsigned> sums(count), tally(std::vector<unsigned>(2, 0));
  for (int round = 0; round < 2; ++round) {
    grow<<<groups, threads>>>(lists.get(), tally.get());
    harvest<<<groups, threads>>>(lists.get(), sums.get(), count);
    std::vector<unsigned> got = sums.read();
    for (unsigned item = 0; item < count; ++item) {
      unsigned length = item % 5 + 1;
      unsigned wanted = item * 10 * length + length * (length - 1) / 2;
      if (got[item] != wanted)
        fail("list %u sums to %u, not %u", item, got[item], wanted);
    }
  }
  objects<<<2, 64>>>(sums.get(), tally.get() + 1);
  std::vector<unsigned> areas = sums.read();
  for (unsigned item = 0; item < 128; ++item)
    if (unsigned wanted = item % 2 == 0 ? item * item : item * (item - 1) / 2; areas[item] != wanted)
      fail("area %u is %u, not %u", item, areas[item], wanted);
  std::vector<unsigned> counted = tally.read();
  if (counted[0] != 0)
    fail("malloc refused %u times", counted[0]);
  if (counted[1] != 128)
    fail("%u of 128 objects were destroyed", counted[1]);

  DeviceArray<void *> blocks(128);
  take<<<2, 64>>>(blocks.get(), 256 << 10);
  if (unsigned got = given(blocks); got != 128)
    fail("%u of 128 blocks were given", got);
  give<<<2, 64>>>(blocks.get());
  HIP_OK(hipDeviceSynchronize());
  return pass();
}
