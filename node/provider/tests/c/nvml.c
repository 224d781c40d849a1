/* A fake libnvidia-ml.so.1 with two GPUs. The macros make it misbehave:
 *   OLD       lacks all optional functions
 *   MISSING   lacks a required function
 *   NO_DRIVER fails to initialise
 *   LOST      has lost its second GPU
 *   MIG       has divided its second GPU
 *   TWINS     gives both GPUs the same UUID
 *   HOSTILE   counts, sizes and values are absurd, and texts have no terminator */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef uint32_t status;
typedef void *handle;

enum { SUCCESS = 0, UNINITIALIZED = 1, INVAL = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, NO_DRIVER_LOADED = 9, GPU_LOST = 15 };
enum { GROWN = 20 };
#define GIB (1ull << 30)

static int gpus[2];
static int started;
static unsigned asked;

static int number(handle device) { return device == &gpus[0] ? 0 : device == &gpus[1] ? 1 : -1; }

#define KNOWN(device)             \
    do {                          \
        if (!started)             \
            return UNINITIALIZED; \
        if (number(device) < 0)   \
            return INVAL;         \
    } while (0)

static status put(char *to, uint32_t room, const char *text)
{
    if (strlen(text) >= room)
        return INSUFFICIENT_SIZE;
    memcpy(to, text, strlen(text) + 1);
    return SUCCESS;
}

status nvmlInit_v2(void)
{
#ifdef NO_DRIVER
    return NO_DRIVER_LOADED;
#else
    started++;
    return SUCCESS;
#endif
}

status nvmlShutdown(void)
{
    started--;
    return SUCCESS;
}

#ifndef MISSING
status nvmlDeviceGetCount_v2(uint32_t *count)
{
    if (!started)
        return UNINITIALIZED;
#ifdef HOSTILE
    *count = 0xffffffff;
#else
    *count = 2;
#endif
    return SUCCESS;
}
#endif

status nvmlDeviceGetHandleByIndex_v2(uint32_t index, handle *device)
{
    if (!started)
        return UNINITIALIZED;
#ifdef LOST
    if (index == 1)
        return GPU_LOST;
#endif
#ifdef HOSTILE
    /* The third has a null handle, and all later ones are the second again. */
    *device = index == 2 ? NULL : &gpus[index != 0];
    return SUCCESS;
#else
    if (index > 1)
        return INVAL;
    *device = &gpus[index];
    return SUCCESS;
#endif
}

status nvmlDeviceGetUUID(handle device, char *uuid, uint32_t room)
{
    KNOWN(device);
#ifdef HOSTILE
    if (number(device) == 1) {
        memset(uuid, 'G', room);
        return SUCCESS;
    }
#endif
#ifdef TWINS
    return put(uuid, room, "GPU-feed0000-0000-0000-0000-000000000000");
#else
    return put(uuid, room, number(device) ? "GPU-feed0000-0000-0000-0000-000000000001" : "GPU-feed0000-0000-0000-0000-000000000000");
#endif
}

status nvmlDeviceGetName(handle device, char *name, uint32_t room)
{
    KNOWN(device);
#ifdef HOSTILE
    memset(name, 0xff, room);
    return SUCCESS;
#else
    return put(name, room, "NVIDIA Mock");
#endif
}

typedef struct {
    uint64_t total, free, used;
} memory;

status nvmlDeviceGetMemoryInfo(handle device, memory *info)
{
    KNOWN(device);
    *info = (memory){80 * GIB, 70 * GIB, 10 * GIB};
    return SUCCESS;
}

#ifndef OLD
typedef struct {
    uint32_t version;
    uint64_t total, reserved, free, used;
} memory_v2;

status nvmlDeviceGetMemoryInfo_v2(handle device, memory_v2 *info)
{
    KNOWN(device);
    if (info->version != (sizeof *info | 2 << 24))
        return INVAL;
    info->total = 80 * GIB, info->reserved = GIB, info->free = 72 * GIB, info->used = 7 * GIB;
#ifdef HOSTILE
    info->used = 0xfffffffffffffff0;
#endif
    return SUCCESS;
}

status nvmlSystemGetDriverVersion(char *version, uint32_t room)
{
    return put(version, room, "599.01");
}

typedef struct {
    char old[16];
    uint32_t domain, bus, device, chip, subsystem;
    char text[32];
} pci;

status nvmlDeviceGetPciInfo_v3(handle device, pci *info)
{
    KNOWN(device);
    memset(info, 0x5a, sizeof *info);
    info->domain = 0, info->bus = 0x18 + 0x30 * (uint32_t)number(device), info->device = 0;
#ifdef HOSTILE
    info->bus = 0x12345678;
#endif
    return SUCCESS;
}

status nvmlDeviceGetMinorNumber(handle device, uint32_t *minor)
{
    KNOWN(device);
    *minor = 4 + (uint32_t)number(device);
    return SUCCESS;
}

status nvmlDeviceGetCudaComputeCapability(handle device, int *major, int *minor)
{
    KNOWN(device);
    *major = 9, *minor = 0;
#ifdef HOSTILE
    *major = -5;
#endif
    return SUCCESS;
}

status nvmlDeviceGetNumGpuCores(handle device, uint32_t *cores)
{
    KNOWN(device);
    *cores = 16896;
    return SUCCESS;
}

status nvmlDeviceGetMigMode(handle device, uint32_t *now, uint32_t *next)
{
    KNOWN(device);
#ifdef MIG
    *now = *next = (uint32_t)number(device);
    return SUCCESS;
#else
    (void)now, (void)next;
    return NOT_SUPPORTED;
#endif
}

status nvmlDeviceGetVbiosVersion(handle device, char *version, uint32_t room)
{
    KNOWN(device);
    return put(version, room, "96.00.MOCK");
}

status nvmlDeviceGetMaxPcieLinkGeneration(handle device, uint32_t *generation)
{
    KNOWN(device);
    *generation = 5;
    return SUCCESS;
}

status nvmlDeviceGetMaxPcieLinkWidth(handle device, uint32_t *width)
{
    KNOWN(device);
    *width = 16;
#ifdef HOSTILE
    *width = 1000;
#endif
    return SUCCESS;
}

status nvmlDeviceGetMaxClockInfo(handle device, uint32_t clock, uint32_t *megahertz)
{
    KNOWN(device);
    *megahertz = clock == 1 ? 1830 : 3201;
    return SUCCESS;
}

status nvmlDeviceGetClockInfo(handle device, uint32_t clock, uint32_t *megahertz)
{
    KNOWN(device);
    *megahertz = clock == 1 ? 1500 : 3200;
#ifdef HOSTILE
    *megahertz = 0xffffffff;
#endif
    return SUCCESS;
}

typedef struct {
    uint32_t gpu, memory;
} utilization;

status nvmlDeviceGetUtilizationRates(handle device, utilization *rates)
{
    KNOWN(device);
    *rates = (utilization){63, 12};
#ifdef HOSTILE
    *rates = (utilization){400, 0xffffffff};
#endif
    return SUCCESS;
}

status nvmlDeviceGetTemperature(handle device, uint32_t sensor, uint32_t *degrees)
{
    KNOWN(device);
    *degrees = sensor == 0 ? 66 : 0;
#ifdef HOSTILE
    *degrees = 70000;
#endif
    return SUCCESS;
}

status nvmlDeviceGetPowerUsage(handle device, uint32_t *milliwatts)
{
    KNOWN(device);
    *milliwatts = 555250;
#ifdef HOSTILE
    *milliwatts = 0xffffffff;
#endif
    return SUCCESS;
}

status nvmlDeviceGetEnforcedPowerLimit(handle device, uint32_t *milliwatts)
{
    KNOWN(device);
    *milliwatts = 700000;
    return SUCCESS;
}

status nvmlDeviceGetTotalEccErrors(handle device, uint32_t kind, uint32_t counter, uint64_t *errors)
{
    KNOWN(device);
    if (counter != 0)
        return INVAL;
    *errors = kind == 0 ? 3 : 0;
    return SUCCESS;
}

typedef struct {
    uint32_t pid;
    uint64_t memory;
    uint32_t gpu_instance, compute_instance;
} process;

/* The first GPU's list grows between counting and reading; the second GPU is idle. */
status nvmlDeviceGetComputeRunningProcesses_v3(handle device, uint32_t *count, process *list)
{
    KNOWN(device);
#ifdef HOSTILE
    /* More than there is room for, and success. */
    *count = 0xffffffff;
    if (list)
        list[0] = (process){77, 0xffffffffffffffff, 0, 0};
    return list ? SUCCESS : INSUFFICIENT_SIZE;
#else
    uint32_t room = *count, there = number(device) ? 0 : asked++ % 3 == 0 ? 1 : GROWN;
    *count = there;
    if (room < there)
        return INSUFFICIENT_SIZE;
    for (uint32_t i = 0; list && i < there; i++)
        list[i] = (process){100 + i, (uint64_t)(i + 1) << 20, 0xffffffff, 0xffffffff};
    return SUCCESS;
#endif
}

typedef struct {
    uint32_t pid;
    uint64_t time;
    uint32_t multiprocessors, memory, encoder, decoder;
} sample;

/* Two samples of the first process; the later one counts. */
status nvmlDeviceGetProcessUtilization(handle device, sample *samples, uint32_t *count, uint64_t since)
{
    KNOWN(device);
    (void)since;
    if (number(device))
        return NOT_FOUND;
    uint32_t room = *count;
    *count = 2;
    if (!samples || room < 2)
        return INSUFFICIENT_SIZE;
    samples[0] = (sample){100, 2000, 50, 1, 0, 0};
    samples[1] = (sample){100, 1000, 90, 1, 0, 0};
    return SUCCESS;
}

status nvmlDeviceGetP2PStatus(handle from, handle to, uint32_t property, uint32_t *state)
{
    KNOWN(from);
    KNOWN(to);
    *state = property == 2 ? 0 : 3;
    return SUCCESS;
}
#endif
