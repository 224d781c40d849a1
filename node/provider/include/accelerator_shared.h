/* Definitions that both generations of the accelerator interface share. 64-bit Linux. */
#ifndef REMORA_ACCELERATOR_SHARED_H
#define REMORA_ACCELERATOR_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    ACCELERATOR_MAX_PROPERTIES = 64,
    ACCELERATOR_MAX_EXTRA_METRICS = 64,
    ACCELERATOR_MAX_DEVICES = 64,
    ACCELERATOR_MAX_VARIABLES = 16,
    ACCELERATOR_MAX_PROCESSES = 1024,
};

/* Result code of every function, except two of generation A that return a boolean. */
enum {
    ACCELERATOR_SUCCESS = 0,
    ACCELERATOR_INVALID_PARAM = 1,
    ACCELERATOR_NOT_FOUND = 2,
    ACCELERATOR_NOT_SUPPORTED = 3,
    ACCELERATOR_RESOURCE_EXHAUSTED = 4,
    ACCELERATOR_OPERATION_FAILED = 5,
    ACCELERATOR_INTERNAL = 6,
};

/* Level is INFO, WARN or ERROR. Both strings are valid only during the call. The callback may call the library. */
typedef void (*LogCallbackFunc)(const char *level, const char *message);

typedef struct {
    bool supportsPartitioning;
    bool supportsSoftIsolation;
    bool supportsHardIsolation;
    bool supportsSnapshot;
    bool supportsMetrics;
    bool supportsRemoting;
    uint32_t maxPartitions;
    uint32_t maxWorkersPerDevice;
} VirtualizationCapabilities;

typedef struct {
    char key[64];
    char value[256];
} DevicePropertyKV;

typedef struct {
    DevicePropertyKV properties[ACCELERATOR_MAX_PROPERTIES];
    size_t count;
} DeviceProperties;

typedef struct {
    char templateId[64];
    char name[128];
    uint64_t memoryBytes;
    uint64_t computeUnits;
    double tflops;
    uint32_t sliceCount;
    bool isDefault;
    char description[256];
} PartitionTemplate;

typedef struct {
    char key[64];
    double value;
} ExtraMetric;

typedef struct {
    char processId[32];
    char deviceUUID[64];
    double computeUtilizationPercent;
    uint64_t activeSMs; /* compute units that run wavefronts of the process */
    uint64_t totalSMs;
    uint64_t memoryUsedBytes;
    uint64_t memoryReservedBytes; /* always 0: the driver does not report it */
    double memoryUtilizationPercent;
} ProcessInformation;

typedef struct {
    char deviceUUID[64];
    double powerUsageWatts;
    double temperatureCelsius;
    uint64_t pcieRxBytes; /* always 0: reading it would take a second per device */
    uint64_t pcieTxBytes; /* always 0, for the same reason */
    uint32_t utilizationPercent;
    uint64_t memoryUsedBytes;
    ExtraMetric extraMetrics[ACCELERATOR_MAX_EXTRA_METRICS];
    size_t extraMetricsCount;
} DeviceMetrics;

typedef struct {
    char hostPath[512];
    char guestPath[512];
} MountPath;

#ifdef __cplusplus
}
#endif

#endif
