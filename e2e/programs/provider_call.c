/* Calls the provider library as a node agent of another make would: one order, whose result is printed.
 *   provider_call LIBRARY devices                    how many devices there are, and how many can be saved
 *   provider_call LIBRARY snapshot|resume DEVICE PID...      an empty DEVICE is none */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef GENERATION_A
#include "accelerator_generation_a.h"
#define NAME(a, e) a
#else
#include "accelerator_generation_e.h"
#define NAME(a, e) e
#endif

static void *library;

static void *find(const char *name)
{
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "%s is not exported\n", name);
        exit(2);
    }
    return found;
}

static void hear(const char *level, const char *message)
{
    fprintf(stderr, "%s %s\n", level, message);
}

static int order(const char *name, const char *device, char **numbers, int count)
{
#ifdef GENERATION_A
    ProcessArray processes;
    memset(&processes, 0, sizeof processes);
    for (int at = 0; at < count; at++)
        processes.processIds[at] = atoi(numbers[at]);
    processes.processCount = (size_t)count;
    snprintf(processes.deviceUUID, sizeof processes.deviceUUID, "%s", device);
    int (*call)(ProcessArray *) = find(name);
    return call(&processes);
#else
    pid_t processes[ACCELERATOR_MAX_PROCESSES];
    for (int at = 0; at < count; at++)
        processes[at] = atoi(numbers[at]);
    SnapshotContext context = {count ? processes : NULL, (size_t)count, *device ? device : NULL};
    int (*call)(SnapshotContext *) = find(name);
    return call(&context);
#endif
}

int main(int count, char **arguments)
{
    if (count < 3 || count > 100)
        return 2;
    library = dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    int (*listen)(LogCallbackFunc) = find(NAME("RegisterLogCallback", "AccelRegisterLogCallback"));
    int (*start)(void) = find(NAME("VirtualGPUInit", "AccelInit"));
    if (listen(hear) != ACCELERATOR_SUCCESS || start() != ACCELERATOR_SUCCESS)
        return 2;
    if (strcmp(arguments[2], "devices") == 0) {
        static ExtendedDeviceInfo devices[64];
        size_t found = 0, savable = 0;
        int (*list)(ExtendedDeviceInfo *, size_t, size_t *) = find(NAME("GetAllDevices", "AccelGetAllDevices"));
        printf("result=%d\n", list(devices, 64, &found));
        for (size_t at = 0; at < found; at++)
            savable += devices[at].virtualizationCapabilities.supportsSnapshot;
        printf("devices=%zu\nsavable=%zu\n", found, savable);
        return 0;
    }
    if (count < 4)
        return 2;
    const char *name = strcmp(arguments[2], "snapshot") == 0 ? NAME("Snapshot", "AccelSnapshot") : NAME("Resume", "AccelResume");
    printf("result=%d\n", order(name, arguments[3], arguments + 4, count - 4));
    return 0;
}
