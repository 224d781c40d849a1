// Managed memory: pointers in it are valid on host and device, and both see the same data behind them.
#include "check.h"

#include <cstring>

EXAMPLE("managed");

#define HIP_EXPECT(call, wanted)                                                                                       \
  do {                                                                                                                 \
    hipError_t result = (call);                                                                                        \
    if (result != (wanted))                                                                                            \
      fail("%s is %s, not %s", #call, hipGetErrorName(result), hipGetErrorName(wanted));                               \
  } while (0)

struct Node {
  int value;
  Node *next;
};

// Doubles every value, then reverses the list; one work-item, because pointers must be followed sequentially.
__global__ void turn_round(Node **head) {
  Node *previous = nullptr;
  for (Node *node = *head; node;) {
    node->value *= 2;
    Node *next = node->next;
    node->next = previous;
    previous = node;
    node = next;
  }
  *head = previous;
}

static void a_list_built_here_is_changed_there_and_walked_here() {
  constexpr int count = 500;
  Node **head = nullptr;
  HIP_OK(hipMallocManaged(reinterpret_cast<void **>(&head), sizeof *head, hipMemAttachGlobal));
  std::vector<Node *> nodes(count);
  *head = nullptr;
  for (int i = 0; i < count; ++i) {
    // Some nodes are in pinned memory, the others in managed memory, with pointers between them.
    void **place = reinterpret_cast<void **>(&nodes[i]);
    if (i % 7 == 0)
      HIP_OK(hipHostMalloc(place, sizeof(Node), hipHostMallocDefault));
    else
      HIP_OK(hipMallocManaged(place, sizeof(Node), hipMemAttachGlobal));
    nodes[i]->value = i;
    nodes[i]->next = *head;
    *head = nodes[i];
  }
  std::vector<int> wanted(count);
  for (int i = 0; i < count; ++i)
    wanted[i] = i;
  for (int turn = 0; turn < 4; ++turn) {
    turn_round<<<1, 1>>>(head);
    HIP_OK(hipDeviceSynchronize());
    for (int &value : wanted)
      value *= 2;
    int seen = 0;
    for (Node *node = *head; node; node = node->next, ++seen) {
      // Nodes were prepended, so the first reversal puts the first node in front.
      int place = turn % 2 == 0 ? seen : count - 1 - seen;
      if (node != nodes[place] || node->value != wanted[place])
        fail("turn %d: node %d has %d, not %d", turn, seen, node->value, wanted[place]);
    }
    if (seen != count)
      fail("turn %d: the list has %d nodes", turn, seen);
    nodes[17]->value += 1;
    wanted[17] += 1;
  }
  for (int i = 0; i < count; ++i)
    HIP_OK(i % 7 == 0 ? hipHostFree(nodes[i]) : hipFree(nodes[i]));
  HIP_OK(hipFree(head));
}

__global__ void sum_rows(const int *const *rows, int count, int width, int *sums) {
  int row = threadIdx.x;
  if (row >= count)
    return;
  int sum = 0;
  for (int i = 0; i < width; ++i)
    sum += rows[row][i];
  sums[row] = sum;
}

static void a_table_of_pointers_to_every_kind_of_memory() {
  constexpr int count = 12, width = 3000;
  int **rows = nullptr;
  int *sums = nullptr;
  HIP_OK(hipHostMalloc(reinterpret_cast<void **>(&rows), count * sizeof *rows, hipHostMallocDefault));
  HIP_OK(hipHostMalloc(reinterpret_cast<void **>(&sums), count * sizeof *sums, hipHostMallocDefault));
  for (int row = 0; row < count; ++row) {
    std::vector<int> values(width);
    for (int i = 0; i < width; ++i)
      values[i] = row * i;
    size_t bytes = width * sizeof(int);
    void **place = reinterpret_cast<void **>(&rows[row]);
    if (row % 3 == 0) {
      HIP_OK(hipHostMalloc(place, bytes, hipHostMallocDefault));
      std::memcpy(rows[row], values.data(), bytes);
    } else if (row % 3 == 1) {
      HIP_OK(hipMallocManaged(place, bytes, hipMemAttachGlobal));
      std::memcpy(rows[row], values.data(), bytes);
    } else {
      HIP_OK(hipMalloc(place, bytes));
      HIP_OK(hipMemcpy(rows[row], values.data(), bytes, hipMemcpyHostToDevice));
    }
  }
  sum_rows<<<1, 64>>>(rows, count, width, sums);
  HIP_OK(hipDeviceSynchronize());
  for (int row = 0; row < count; ++row) {
    int wanted = row * (width * (width - 1) / 2);
    if (sums[row] != wanted)
      fail("row %d sums to %d, not %d", row, sums[row], wanted);
    HIP_OK(row % 3 == 0 ? hipHostFree(rows[row]) : hipFree(rows[row]));
  }
  HIP_OK(hipHostFree(rows));
  HIP_OK(hipHostFree(sums));
}

__managed__ int counter = 5;
__managed__ double table[1000];
__managed__ Node first;

__global__ void use_variables(int *also_counter) {
  counter += 10;
  *also_counter += 100;
  for (int i = threadIdx.x; i < 1000; i += blockDim.x)
    table[i] = table[i] * 2 + i;
  if (threadIdx.x == 0)
    first.next->value = first.value;
}

static void managed_variables_are_one_variable() {
  if (counter != 5 || table[999] != 0)
    fail("managed variables do not begin as written");
  counter = 7;
  for (int i = 0; i < 1000; ++i)
    table[i] = 1.5;
  Node *other = nullptr;
  HIP_OK(hipMallocManaged(reinterpret_cast<void **>(&other), sizeof *other, hipMemAttachGlobal));
  first.value = 77;
  first.next = other;
  use_variables<<<1, 1>>>(&counter);
  HIP_OK(hipDeviceSynchronize());
  if (counter != 117)
    fail("the managed counter is %d, not 117", counter);
  for (int i = 0; i < 1000; ++i)
    if (table[i] != 3 + i)
      fail("table[%d] is %g", i, table[i]);
  if (other->value != 77)
    fail("the data behind a pointer in a managed variable is wrong");
  counter = 1;
  use_variables<<<1, 1>>>(&counter);
  HIP_OK(hipStreamSynchronize(nullptr));
  if (counter != 111)
    fail("the managed counter is %d, not 111", counter);
  void *address = nullptr;
  HIP_OK(hipGetSymbolAddress(&address, HIP_SYMBOL(counter)));
  size_t size = 0;
  HIP_OK(hipGetSymbolSize(&size, HIP_SYMBOL(table)));
  if (address != &counter || size != sizeof table)
    fail("a managed variable has another address or size as a symbol");
  int value = 41;
  HIP_OK(hipMemcpyToSymbol(HIP_SYMBOL(counter), &value, sizeof value, 0, hipMemcpyHostToDevice));
  if (counter != 41)
    fail("data copied to a managed variable is missing");
  hipPointerAttribute_t attributes = {};
  HIP_OK(hipPointerGetAttributes(&attributes, &counter));
  if (!attributes.isManaged || attributes.hostPointer != &counter || attributes.devicePointer != &counter)
    fail("a managed variable is not reported as managed memory");
  HIP_EXPECT(hipFree(&counter), hipErrorInvalidValue);
  HIP_OK(hipFree(other));
}

static void what_is_said_about_managed_memory_can_be_asked_for() {
  constexpr size_t bytes = 1 << 20, half = bytes / 2;
  char *data = nullptr;
  HIP_EXPECT(hipMallocManaged(nullptr, bytes, hipMemAttachGlobal), hipErrorInvalidValue);
  HIP_EXPECT(hipMallocManaged(reinterpret_cast<void **>(&data), 0, hipMemAttachGlobal), hipErrorInvalidValue);
  HIP_EXPECT(hipMallocManaged(reinterpret_cast<void **>(&data), bytes, 77), hipErrorInvalidValue);
  HIP_OK(hipMallocManaged(reinterpret_cast<void **>(&data), bytes, hipMemAttachHost));
  int value = -5;
  auto ask = [&](hipMemRangeAttribute attribute, size_t from, size_t count) {
    HIP_OK(hipMemRangeGetAttribute(&value, sizeof value, attribute, data + from, count));
    return value;
  };
  if (ask(hipMemRangeAttributeReadMostly, 0, bytes) != 0 ||
      ask(hipMemRangeAttributePreferredLocation, 0, bytes) != hipInvalidDeviceId ||
      ask(hipMemRangeAttributeLastPrefetchLocation, 0, bytes) != hipInvalidDeviceId)
    fail("memory without advice reports advice");
  HIP_OK(hipMemAdvise(data, half, hipMemAdviseSetReadMostly, 0));
  HIP_OK(hipMemAdvise(data, bytes, hipMemAdviseSetPreferredLocation, hipCpuDeviceId));
  HIP_OK(hipMemAdvise(data, bytes, hipMemAdviseSetAccessedBy, 0));
  HIP_OK(hipMemPrefetchAsync(data, half, 0, nullptr));
  if (ask(hipMemRangeAttributeReadMostly, 0, half) != 1 || ask(hipMemRangeAttributeReadMostly, 0, bytes) != 0 ||
      ask(hipMemRangeAttributePreferredLocation, 100, 5) != hipCpuDeviceId ||
      ask(hipMemRangeAttributeLastPrefetchLocation, 0, half) != 0 ||
      ask(hipMemRangeAttributeLastPrefetchLocation, 0, bytes) != hipInvalidDeviceId)
    fail("the advice for managed memory is not reported");
  int devices[3] = {9, 9, 9};
  void *answers[] = {devices, &value};
  size_t sizes[] = {sizeof devices, sizeof value};
  hipMemRangeAttribute attributes[] = {hipMemRangeAttributeAccessedBy, hipMemRangeAttributeReadMostly};
  HIP_OK(hipMemRangeGetAttributes(answers, sizes, attributes, 2, data, half));
  if (devices[0] != 0 || devices[1] != hipInvalidDeviceId || devices[2] != hipInvalidDeviceId || value != 1)
    fail("several attributes at once are %d %d %d, %d", devices[0], devices[1], devices[2], value);
  HIP_OK(hipMemAdvise(data, bytes, hipMemAdviseUnsetAccessedBy, 0));
  HIP_OK(hipMemRangeGetAttribute(devices, sizeof devices, hipMemRangeAttributeAccessedBy, data, bytes));
  if (devices[0] != hipInvalidDeviceId)
    fail("unsetting the advice had no effect");
  HIP_EXPECT(hipMemAdvise(nullptr, bytes, hipMemAdviseSetReadMostly, 0), hipErrorInvalidValue);
  HIP_EXPECT(hipMemAdvise(data, 0, hipMemAdviseSetReadMostly, 0), hipErrorInvalidValue);
  HIP_EXPECT(hipMemAdvise(data, bytes + 1, hipMemAdviseSetReadMostly, 0), hipErrorInvalidValue);
  HIP_EXPECT(hipMemAdvise(data, bytes, hipMemAdviseSetAccessedBy, 99), hipErrorInvalidDevice);
  HIP_EXPECT(hipMemAdvise(data, bytes, static_cast<hipMemoryAdvise>(55), 0), hipErrorInvalidValue);
  HIP_EXPECT(hipMemPrefetchAsync(data, bytes, 99, nullptr), hipErrorInvalidDevice);
  HIP_EXPECT(hipMemPrefetchAsync(data, bytes + 1, 0, nullptr), hipErrorInvalidValue);
  HIP_EXPECT(hipMemRangeGetAttribute(&value, 3, hipMemRangeAttributeReadMostly, data, bytes), hipErrorInvalidValue);
  HIP_EXPECT(hipMemRangeGetAttribute(nullptr, 4, hipMemRangeAttributeReadMostly, data, bytes), hipErrorInvalidValue);
  HIP_OK(hipStreamAttachMemAsync(nullptr, data, 0, hipMemAttachGlobal));
  HIP_OK(hipStreamAttachMemAsync(nullptr, data, bytes, hipMemAttachHost));
  HIP_EXPECT(hipStreamAttachMemAsync(nullptr, data, half, hipMemAttachHost), hipErrorInvalidValue);
  HIP_EXPECT(hipStreamAttachMemAsync(nullptr, data, 0, hipMemAttachSingle), hipErrorInvalidValue);
  HIP_EXPECT(hipStreamAttachMemAsync(nullptr, nullptr, 0, hipMemAttachGlobal), hipErrorInvalidValue);
  hipPointerAttribute_t known = {};
  HIP_OK(hipPointerGetAttributes(&known, data + 10));
  if (known.type != hipMemoryTypeManaged || !known.isManaged || known.devicePointer != data + 10 ||
      known.hostPointer != data + 10)
    fail("managed memory is not reported as managed");
  HIP_OK(hipFree(data));
  HIP_EXPECT(hipMemRangeGetAttribute(&value, 4, hipMemRangeAttributeReadMostly, data, bytes), hipErrorInvalidValue);
}

static void the_device_says_what_it_can_do() {
  struct {
    hipDeviceAttribute_t attribute;
    int wanted;
  } known[] = {{hipDeviceAttributeManagedMemory, 1},
               {hipDeviceAttributeConcurrentManagedAccess, 0},
               {hipDeviceAttributePageableMemoryAccess, 0},
               {hipDeviceAttributePageableMemoryAccessUsesHostPageTables, 0},
               {hipDeviceAttributeDirectManagedMemAccessFromHost, 0},
               {hipDeviceAttributeCanMapHostMemory, 1}};
  hipDeviceProp_t properties = {};
  HIP_OK(hipGetDeviceProperties(&properties, 0));
  if (!properties.managedMemory || properties.concurrentManagedAccess || properties.pageableMemoryAccess)
    fail("the device properties do not match");
  for (auto &[attribute, wanted] : known) {
    int value = -1;
    HIP_OK(hipDeviceGetAttribute(&value, attribute, 0));
    if (value != wanted)
      fail("attribute %d is %d", static_cast<int>(attribute), value);
  }
}

int main() {
  managed_variables_are_one_variable();
  a_list_built_here_is_changed_there_and_walked_here();
  a_table_of_pointers_to_every_kind_of_memory();
  what_is_said_about_managed_memory_can_be_asked_for();
  the_device_says_what_it_can_do();
  return pass();
}
