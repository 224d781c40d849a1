// A provider library with the accelerator interface that lists two real GPUs. Their order differs from the order of the HIP runtime;
// only the PCI addresses identify them.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    char key[64], value[256];
} Property;

typedef struct {
    char uuid[64], vendor[32], model[128], driver[80], firmware[64], node[64];
    int32_t index, numa;
    uint64_t memory, units;
    double tflops;
    uint32_t generation, width;
    Property properties[64];
    size_t count;
    char capabilities[16];
} Info;

static const char *const ADDRESSES[] = {"0000:c1:00.0", "0000:c0:00.0"};

int AccelInit(void) { return 0; }

int AccelGetAllDevices(Info *to, size_t most, size_t *count) {
    if (most < 2) return 1;
    for (int i = 0; i < 2; i++) {
        snprintf(to[i].uuid, sizeof to[i].uuid, "gpu-at-%.7s", ADDRESSES[i]);
        strcpy(to[i].vendor, "AMD");
        strcpy(to[i].model, "GPU");
        to[i].index = i;
        to[i].memory = 1ull << 30;
        to[i].units = 64;
        to[i].tflops = 100;
        strcpy(to[i].properties[0].key, "pciAddress");
        strcpy(to[i].properties[0].value, ADDRESSES[i]);
        to[i].count = 1;
    }
    *count = 2;
    return 0;
}

int AccelGetDeviceMetrics(const char **uuids, size_t count, void *to) {
    (void)uuids, (void)count, (void)to;
    return 1;
}
