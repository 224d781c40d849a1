// How the bench programs are told what to do: one command a line on standard input, one line of answer on standard output,
// `ok` and whole numbers or `error` and a reason. Whoever measures can so take turns between them and something else.
#pragma once

#ifdef __HIP__
#include <hip/hip_runtime.h>
#endif

#include <chrono>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

using Answer = std::vector<int64_t>;

[[noreturn]] __attribute__((format(printf, 1, 2))) inline void fail(const char *format, ...) {
  std::printf("error ");
  va_list arguments;
  va_start(arguments, format);
  std::vprintf(format, arguments);
  va_end(arguments);
  std::printf("\n");
  std::fflush(stdout);
  std::_Exit(1);
}

#ifdef __HIP__
#define HIP_OK(call)                                                                                                   \
  do {                                                                                                                 \
    hipError_t hip_ok_result = (call);                                                                                 \
    if (hip_ok_result != hipSuccess)                                                                                   \
      fail("line %d: %s: %s", __LINE__, #call, hipGetErrorString(hip_ok_result));                                      \
  } while (0)
#endif

// Nanoseconds since an arbitrary moment.
inline int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The words of one command.
class Words {
public:
  explicit Words(const std::string &line) : stream_(line) {}
  std::string text() {
    std::string word;
    if (!(stream_ >> word))
      fail("a command lacks a word");
    return word;
  }
  int64_t number() {
    int64_t value = 0;
    if (!(stream_ >> value) || value < 0)
      fail("a command lacks a number");
    return value;
  }

private:
  std::istringstream stream_;
};

// Answers commands until standard input ends.
template <typename Execute> int serve(Execute execute) {
  std::string line;
  while (std::getline(std::cin, line)) {
    Words words(line);
    std::string name = words.text();
    Answer answer = execute(name, words);
    std::printf("ok");
    for (int64_t value : answer)
      std::printf(" %lld", static_cast<long long>(value));
    std::printf("\n");
    std::fflush(stdout);
  }
  return 0;
}
