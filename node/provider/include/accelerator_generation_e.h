/* The accelerator interface as of March 2026 and since. Do not include together with generation A: structures with the same name differ. */
#ifndef REMORA_ACCELERATOR_GENERATION_E_H
#define REMORA_ACCELERATOR_GENERATION_E_H

#include "accelerator_shared.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    char uuid[64];
    char vendor[32];
    char model[128];
    char driverVersion[80];
    char firmwareVersion[64];
    char deviceNode[64]; /* /dev/dri/renderD128; programs also need /dev/kfd */
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

typedef enum {
    TOPO_LEVEL_INTERNAL = 0,
    TOPO_LEVEL_SINGLE_SWITCH = 1,
    TOPO_LEVEL_MULTI_SWITCH = 2,
    TOPO_LEVEL_HOST_BRIDGE = 3,
    TOPO_LEVEL_NUMA_NODE = 4,
    TOPO_LEVEL_SYSTEM = 5,
    TOPO_LEVEL_SELF = 6,
    TOPO_LEVEL_UNKNOWN = 7,
} TopoLevelType;

typedef struct {
    char peerUUID[64];
    int32_t peerIndex;
    TopoLevelType topoLevel;
} DeviceTopoNode;

typedef struct {
    char deviceUUID[64];
    int32_t deviceIndex;
    int32_t numaNode;
    DeviceTopoNode peers[ACCELERATOR_MAX_DEVICES];
    size_t peerCount;
} DeviceTopologyInfo;

typedef struct {
    DeviceTopologyInfo devices[ACCELERATOR_MAX_DEVICES];
    size_t deviceCount;
} ExtendedDeviceTopology;

/* The three topology structures as they are written with TF_ACCEL_TOPO_ABI=go. */
typedef struct {
    char peerUUID[64];
    int32_t peerIndex;
    TopoLevelType topoLevel;
    int64_t bandwidthBytesPerSec;
} GoDeviceTopoNode;

typedef struct {
    char deviceUUID[64];
    int32_t deviceIndex;
    int32_t numaNode;
    GoDeviceTopoNode peers[ACCELERATOR_MAX_DEVICES];
    size_t peerCount;
} GoDeviceTopologyInfo;

typedef struct {
    GoDeviceTopologyInfo devices[ACCELERATOR_MAX_DEVICES];
    size_t deviceCount;
} GoExtendedDeviceTopology;

typedef struct {
    pid_t *processIds;
    size_t processCount;
    const char *deviceUUID;
} SnapshotContext;

typedef enum {
    PARTITION_TYPE_ENVIRONMENT_VARIABLE = 0,
    PARTITION_TYPE_DEVICE_NODE = 1,
} PartitionResultType;

typedef struct {
    PartitionResultType type; /* always PARTITION_TYPE_DEVICE_NODE */
    char deviceUUID[64];
    char envVars[ACCELERATOR_MAX_VARIABLES][256];
    char deviceNodes[ACCELERATOR_MAX_VARIABLES][1026]; /* host=guest */
} PartitionResult;

int AccelInit(void);
int AccelShutdown(void);
int AccelGetDeviceCount(size_t *count);
int AccelGetAllDevices(ExtendedDeviceInfo *devices, size_t most, size_t *count);
int AccelGetAllDevicesTopology(ExtendedDeviceTopology *topology);
int AccelAssignPartition(const char *templateId, const char *deviceUUID, PartitionResult *result);
int AccelRemovePartition(const char *templateId, const char *deviceUUID);
int AccelSetMemHardLimit(const char *deviceUUID, uint64_t bytes);
int AccelSetComputeUnitHardLimit(const char *deviceUUID, uint32_t percent);
int AccelSnapshot(SnapshotContext *context);
int AccelResume(SnapshotContext *context);
int AccelGetProcessInformation(ProcessInformation *infos, size_t most, size_t *count);
int AccelGetDeviceMetrics(const char **deviceUUIDs, size_t count, DeviceMetrics *metrics);
int AccelGetVendorMountLibs(MountPath *mounts, size_t most, size_t *count);
int AccelRegisterLogCallback(LogCallbackFunc callback);

#ifdef __cplusplus
}
#endif

#endif
