/* The accelerator interface as of January 2026. Do not include together with generation E: structures with the same name differ. */
#ifndef REMORA_ACCELERATOR_GENERATION_A_H
#define REMORA_ACCELERATOR_GENERATION_A_H

#include "accelerator_shared.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    char uuid[64];
    char vendor[32];
    char model[128];
    char driverVersion[64];
    char firmwareVersion[64];
    int32_t index;
    int32_t numaNode; /* -1: none */
    uint64_t totalMemoryBytes;
    uint64_t totalComputeUnits;
    double maxTflops; /* dense half precision */
    uint32_t pcieGen;
    uint32_t pcieWidth;
} DeviceBasicInfo;

typedef struct {
    DeviceBasicInfo basic;
    DeviceProperties props;
    VirtualizationCapabilities virtualizationCapabilities;
} ExtendedDeviceInfo;

typedef struct {
    char deviceUUID[64];
    int32_t numaNode;
} DeviceTopology;

typedef struct {
    DeviceTopology devices[ACCELERATOR_MAX_DEVICES];
    size_t deviceCount;
    char topologyType[32]; /* XGMI if all devices are linked by XGMI, else NUMA */
} ExtendedDeviceTopology;

typedef struct {
    char key[64];
    char value[256];
} EnvVar;

typedef struct {
    char templateId[64]; /* in */
    char deviceUUID[64]; /* in: a device, or a partitioned card */
    char partitionUUID[64];
    EnvVar envVars[ACCELERATOR_MAX_VARIABLES];
    size_t envVarCount;
} PartitionAssignment;

typedef struct {
    pid_t processIds[ACCELERATOR_MAX_PROCESSES];
    size_t processCount;
    char deviceUUID[64];
} ProcessArray;

int VirtualGPUInit(void);
int GetDeviceCount(size_t *count);
int GetAllDevices(ExtendedDeviceInfo *devices, size_t most, size_t *count);
int GetDeviceTopology(int32_t *indices, size_t count, ExtendedDeviceTopology *topology);
bool AssignPartition(PartitionAssignment *assignment);
bool RemovePartition(const char *templateId, const char *deviceUUID);
int SetMemHardLimit(const char *workerId, const char *deviceUUID, uint64_t bytes);
int SetComputeUnitHardLimit(const char *workerId, const char *deviceUUID, uint32_t percent);
int Snapshot(ProcessArray *processes);
int Resume(ProcessArray *processes);
int GetProcessInformation(ProcessInformation *infos, size_t most, size_t *count);
int GetDeviceMetrics(const char **deviceUUIDs, size_t count, DeviceMetrics *metrics);
int GetVendorMountLibs(MountPath *mounts, size_t most, size_t *count);
int RegisterLogCallback(LogCallbackFunc callback);

#ifdef __cplusplus
}
#endif

#endif
