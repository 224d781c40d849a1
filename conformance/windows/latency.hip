// What a call that waits for its reply costs beside a raw Winsock exchange of as many bytes, taken in turns in one process.
//
//   latency.exe calls N                      makes N calls; for their sizes on the link
//   latency.exe turns PORT SENT RECEIVED     prints the medians in nanoseconds; PORT of 127.0.0.1 echoes (`cargo xtask bench --peer`)
//   latency.exe mirror MIB                   launches that wait, with and without so much pinned memory that the kernel knows
#include <winsock2.h>

#include <ws2tcpip.h>

#include "check.h"

#include <chrono>
#include <cstring>
#include <string>

EXAMPLE("latency");

static constexpr int rounds = 40;
static constexpr int count = 250;

static int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Free memory changes with what other sessions do, so only the worker knows it.
static void ask() {
  size_t free = 0, total = 0;
  HIP_OK(hipMemGetInfo(&free, &total));
}

static SOCKET connect_to(uint16_t port) {
  WSADATA data;
  if (WSAStartup(MAKEWORD(2, 2), &data) != 0)
    fail("Winsock does not start");
  SOCKET link = socket(AF_INET, SOCK_STREAM, IPPROTO_TCP);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(link, reinterpret_cast<sockaddr *>(&address), sizeof address) != 0)
    fail("no peer at port %u", unsigned(port));
  int on = 1;
  setsockopt(link, IPPROTO_TCP, TCP_NODELAY, reinterpret_cast<const char *>(&on), sizeof on);
  return link;
}

static void send_all(SOCKET link, const char *bytes, int size) {
  while (size > 0) {
    int sent = send(link, bytes, size, 0);
    if (sent <= 0)
      fail("the peer is gone");
    bytes += sent, size -= sent;
  }
}

static void receive_all(SOCKET link, char *bytes, int size) {
  while (size > 0) {
    int got = recv(link, bytes, size, 0);
    if (got <= 0)
      fail("the peer is gone");
    bytes += got, size -= got;
  }
}

static double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

__global__ void touch(unsigned *word) {
  if (word != nullptr)
    *word += 1;
}

// The median time of launches that wait, after the first.
static double launches(unsigned *word) {
  std::vector<double> times;
  for (int i = 0; i < 21; ++i) {
    int64_t start = now();
    touch<<<1, 1>>>(word);
    HIP_OK(hipDeviceSynchronize());
    times.push_back(double(now() - start));
  }
  return median({times.begin() + 1, times.end()});
}

static int mirror(size_t bytes) {
  double without = launches(nullptr);
  unsigned *word = nullptr;
  HIP_OK(hipHostMalloc(reinterpret_cast<void **>(&word), bytes, 0));
  std::memset(word, 0, bytes);
  double with = launches(word);
  if (*word != 21)
    fail("the kernel wrote %u, not 21", *word);
  HIP_OK(hipHostFree(word));
  std::printf("medians %.0f %.0f\n", without, with);
  return pass();
}

int main(int argc, char **argv) {
  if (argc == 3 && std::string(argv[1]) == "mirror")
    return mirror(size_t(std::atoi(argv[2])) << 20);
  if (argc == 3 && std::string(argv[1]) == "calls") {
    for (int i = std::atoi(argv[2]); i > 0; --i)
      ask();
    return pass();
  }
  if (argc != 5)
    fail("usage: latency calls N | latency turns PORT SENT RECEIVED | latency mirror MIB");
  SOCKET link = connect_to(uint16_t(std::atoi(argv[2])));
  uint64_t request = std::strtoull(argv[3], nullptr, 10), reply = std::strtoull(argv[4], nullptr, 10);
  std::vector<char> bytes(std::max(request, reply));
  // The order to the peer: echo, sizes, number.
  uint64_t order[4] = {1, request, reply, uint64_t(rounds) * count};
  send_all(link, reinterpret_cast<const char *>(order), sizeof order);
  char ready;
  receive_all(link, &ready, 1);
  std::vector<double> calls, raw;
  ask();
  for (int round = 0; round < rounds; ++round) {
    int64_t start = now();
    for (int i = 0; i < count; ++i)
      ask();
    int64_t between = now();
    for (int i = 0; i < count; ++i) {
      send_all(link, bytes.data(), int(request));
      receive_all(link, bytes.data(), int(reply));
    }
    calls.push_back(double(between - start) / count);
    raw.push_back(double(now() - between) / count);
  }
  closesocket(link);
  std::printf("medians %.0f %.0f\n", median(calls), median(raw));
  return pass();
}
