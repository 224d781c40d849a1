// Opens the libraries given as arguments and prints their file paths. `call:NAME` also queries that library's device count.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
  for (int at = 1; at < argc; at++) {
    int is_called = strncmp(argv[at], "call:", 5) == 0;
    const char *name = argv[at] + (is_called ? 5 : 0);
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    int (*count)(int *) = library ? (int (*)(int *))dlsym(library, "hipGetDeviceCount") : 0;
    Dl_info info;
    if (!count || !dladdr((void *)count, &info)) {
      printf("%s: %s\n", name, dlerror());
      return 1;
    }
    printf("%d=%s\n", at, info.dli_fname);
    if (is_called) {
      int devices = -1;
      int status = count(&devices);
      printf("devices=%d status=%d\n", devices, status);
    }
  }
  return 0;
}
