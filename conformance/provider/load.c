/* Loads the provider library with a real libamd_smi and prints the result. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void hear(const char *level, const char *message) { printf("%s %s\n", level, message); }

static void *find(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return found;
}

int main(int count, char **arguments)
{
    void *library = count == 3 ? dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL) : NULL;
    void *smi = library ? dlopen(arguments[2], RTLD_NOW) : NULL;
    if (!library || !smi) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    /* Newer libraries report their version before initialisation. */
    uint32_t (*version)(void *) = find(smi, "amdsmi_get_lib_version");
    uint64_t words[64] = {0};
    if (version(words) == 0)
        printf("version %u.%u\n", ((uint32_t *)words)[0], ((uint32_t *)words)[1]);

    int (*listen)(void (*)(const char *, const char *)) = find(library, "AccelRegisterLogCallback");
    int (*start)(void) = find(library, "AccelInit");
    int (*devices)(size_t *) = find(library, "AccelGetDeviceCount");
    int (*processes)(void *, size_t, size_t *) = find(library, "AccelGetProcessInformation");
    int (*stop)(void) = find(library, "AccelShutdown");
    size_t found = 99, users = 99;
    static char room[64 * 144];
    listen(hear);
    for (int round = 0; round < 3; round++)
        if (start() || devices(&found) || processes(room, 64, &users) || stop())
            return 2;
    printf("devices %zu\n", found);
    return 0;
}
