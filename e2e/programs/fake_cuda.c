// A driver library with two GPUs, as far as a worker needs it to start. Its order differs from that of the management library: the
// second GPU there is the first one here. CUDA_VISIBLE_DEVICES selects GPUs by UUID, in its own order, as NVIDIA's driver does.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned int status;
enum { SUCCESS = 0, INVALID = 1, NO_DEVICE = 100, INVALID_DEVICE = 101, NOT_SUPPORTED = 801 };

#ifndef FIRST
#define FIRST "NVIDIA Mock 48"
#endif

typedef struct {
    const char *name, *uuid;
    int bus;
} Gpu;

static const Gpu GPUS[] = {
    {FIRST, "GPU-feed0000-0000-0000-0000-000000000001", 0x48},
    {"NVIDIA Mock 18", "GPU-feed0000-0000-0000-0000-000000000000", 0x18},
};

static const Gpu *visible[2];
static int count;

status cuInit(unsigned int flags) {
    (void)flags;
    const char *filter = getenv("CUDA_VISIBLE_DEVICES");
    count = 0;
    if (!filter) {
        visible[0] = &GPUS[0], visible[1] = &GPUS[1], count = 2;
        return SUCCESS;
    }
    char names[256];
    snprintf(names, sizeof names, "%s", filter);
    // A name that is unknown ends the list.
    for (char *name = strtok(names, ","); name && count < 2; name = strtok(NULL, ",")) {
        const Gpu *found = !strcmp(name, GPUS[0].uuid) ? &GPUS[0] : !strcmp(name, GPUS[1].uuid) ? &GPUS[1] : NULL;
        if (!found) break;
        visible[count++] = found;
    }
    return count ? SUCCESS : NO_DEVICE;
}

status cuDriverGetVersion(int *version) { return *version = 13000, SUCCESS; }
status cuDeviceGetCount(int *to) { return *to = count, SUCCESS; }
status cuDeviceGet(int *device, int ordinal) { return *device = ordinal, ordinal < count ? SUCCESS : INVALID_DEVICE; }
status cuDeviceGetName(char *name, int room, int device) {
    snprintf(name, (size_t)room, "%s", visible[device]->name);
    return SUCCESS;
}
status cuDeviceTotalMem_v2(size_t *bytes, int device) { return (void)device, *bytes = 79ull << 30, SUCCESS; }
status cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    memset(uuid, 0, 16);
    uuid[0] = 0xfe, uuid[1] = 0xed, uuid[15] = (unsigned char)(visible[device]->uuid[39] - '0');
    return SUCCESS;
}
status cuDeviceGetAttribute(int *value, int attribute, int device) {
    switch (attribute) {
    case 13: *value = 1980000; break;
    case 16: *value = 132; break;
    case 33: *value = visible[device]->bus; break;
    case 36: *value = 3201000; break;
    case 75: *value = 9; break;
    case 102: *value = 1; break;
    default: *value = 0;
    }
    return SUCCESS;
}
status cuDevicePrimaryCtxRetain(void **context, int device) { return *context = (void *)(uintptr_t)(device + 1), SUCCESS; }
status cuCtxSetCurrent(void *context) { return (void)context, SUCCESS; }
status cuCtxGetStreamPriorityRange(int *least, int *greatest) { return *least = 0, *greatest = -5, SUCCESS; }
status cuStreamCreateWithPriority(void **stream, unsigned int flags, int priority) {
    return (void)flags, (void)priority, *stream = malloc(1), SUCCESS;
}
status cuMemGetAllocationGranularity(size_t *bytes, const void *properties, unsigned int option) {
    return (void)properties, (void)option, *bytes = 2 << 20, SUCCESS;
}
status cuMemAddressReserve(uint64_t *address, size_t bytes, size_t alignment, uint64_t wanted, uint64_t flags) {
    return (void)bytes, (void)alignment, (void)flags, *address = wanted, SUCCESS;
}
status cuMemHostAlloc(void **memory, size_t bytes, unsigned int flags) {
    return (void)flags, *memory = calloc(1, bytes), *memory ? SUCCESS : INVALID;
}
status cuStreamQuery(void *stream) { return (void)stream, SUCCESS; }

// Everything else is there and refused.
#define REFUSED(name) \
    status name(void) { return NOT_SUPPORTED; }
REFUSED(cuGetErrorName)
REFUSED(cuGetErrorString)
REFUSED(cuDeviceCanAccessPeer)
REFUSED(cuCtxSynchronize)
REFUSED(cuMemGetInfo_v2)
REFUSED(cuMemAddressFree)
REFUSED(cuMemCreate)
REFUSED(cuMemRelease)
REFUSED(cuMemMap)
REFUSED(cuMemUnmap)
REFUSED(cuMemSetAccess)
REFUSED(cuMemExportToShareableHandle)
REFUSED(cuMemImportFromShareableHandle)
REFUSED(cuMemcpyAsync)
REFUSED(cuMemcpyHtoDAsync_v2)
REFUSED(cuMemcpyDtoHAsync_v2)
REFUSED(cuMemcpy3DAsync_v2)
REFUSED(cuMemsetD8Async)
REFUSED(cuMemsetD16Async)
REFUSED(cuMemsetD32Async)
REFUSED(cuMemsetD2D8Async)
REFUSED(cuMemsetD2D16Async)
REFUSED(cuMemsetD2D32Async)
REFUSED(cuStreamDestroy_v2)
REFUSED(cuStreamSynchronize)
REFUSED(cuStreamWaitEvent)
REFUSED(cuStreamWriteValue32_v2)
REFUSED(cuLaunchHostFunc)
REFUSED(cuEventCreate)
REFUSED(cuEventDestroy_v2)
REFUSED(cuEventRecord)
REFUSED(cuEventSynchronize)
REFUSED(cuEventElapsedTime)
REFUSED(cuModuleLoadData)
REFUSED(cuModuleUnload)
REFUSED(cuModuleGetFunction)
REFUSED(cuFuncGetAttribute)
REFUSED(cuFuncSetAttribute)
REFUSED(cuLaunchKernel)
REFUSED(cuLaunchCooperativeKernel)
REFUSED(cuOccupancyMaxActiveBlocksPerMultiprocessor)
REFUSED(cuLinkCreate_v2)
REFUSED(cuLinkAddData_v2)
REFUSED(cuLinkComplete)
REFUSED(cuLinkDestroy)
