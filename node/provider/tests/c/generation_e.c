#include "accelerator_generation_e.h"
#include "check.h"

#define SIZE(type, size) _Static_assert(sizeof(type) == (size), #type)
#define AT(type, field, place) _Static_assert(offsetof(type, field) == (place), #type "." #field)

SIZE(DeviceBasicInfo, 472);
AT(DeviceBasicInfo, driverVersion, 224);
AT(DeviceBasicInfo, firmwareVersion, 304);
AT(DeviceBasicInfo, deviceNode, 368);
AT(DeviceBasicInfo, index, 432);
AT(DeviceBasicInfo, numaNode, 436);
AT(DeviceBasicInfo, totalMemoryBytes, 440);
AT(DeviceBasicInfo, totalComputeUnits, 448);
AT(DeviceBasicInfo, maxTflops, 456);
AT(DeviceBasicInfo, pcieGen, 464);
AT(DeviceBasicInfo, pcieWidth, 468);
SIZE(ExtendedDeviceInfo, 20976);
AT(ExtendedDeviceInfo, props, 472);
AT(ExtendedDeviceInfo, virtualizationCapabilities, 20960);
SIZE(DeviceTopoNode, 72);
SIZE(DeviceTopologyInfo, 4688);
AT(DeviceTopologyInfo, peers, 72);
AT(DeviceTopologyInfo, peerCount, 4680);
SIZE(ExtendedDeviceTopology, 300040);
AT(ExtendedDeviceTopology, deviceCount, 300032);
SIZE(GoDeviceTopoNode, 80);
SIZE(GoExtendedDeviceTopology, 332808);
SIZE(SnapshotContext, 24);
SIZE(PartitionResult, 20580);
AT(PartitionResult, deviceUUID, 4);
AT(PartitionResult, envVars, 68);
AT(PartitionResult, deviceNodes, 4164);

#define F(name) __typeof__(&name) call_##name = (__typeof__(&name))find(#name)

void before_init_e(void)
{
    F(AccelGetDeviceCount);
    F(AccelGetAllDevicesTopology);
    F(AccelRemovePartition);
    F(AccelSetMemHardLimit);
    F(AccelGetProcessInformation);
    F(AccelGetDeviceMetrics);
    size_t count = 99;
    ProcessInformation process;
    DeviceMetrics metrics;
    const char *name = WHOLE;
    ExtendedDeviceTopology *topology = malloc(sizeof(GoExtendedDeviceTopology));
    CHECK(call_AccelGetDeviceCount(&count) == ACCELERATOR_OPERATION_FAILED);
    CHECK(call_AccelGetAllDevicesTopology(topology) == ACCELERATOR_OPERATION_FAILED);
    CHECK(call_AccelRemovePartition(TEMPLATE, DIVIDED) == ACCELERATOR_OPERATION_FAILED);
    CHECK(call_AccelSetMemHardLimit(WHOLE, 1) == ACCELERATOR_OPERATION_FAILED);
    CHECK(call_AccelGetProcessInformation(&process, 1, &count) == ACCELERATOR_OPERATION_FAILED);
    CHECK(call_AccelGetDeviceMetrics(&name, 1, &metrics) == ACCELERATOR_OPERATION_FAILED);
    free(topology);
}

static void devices(void)
{
    F(AccelGetDeviceCount);
    F(AccelGetAllDevices);
    size_t count = 99;
    CHECK(call_AccelGetDeviceCount(&count) == ACCELERATOR_SUCCESS && count == DEVICES);
    CHECK(call_AccelGetDeviceCount(NULL) == ACCELERATOR_INVALID_PARAM);

    ExtendedDeviceInfo *infos = malloc(sizeof(ExtendedDeviceInfo) * (DEVICES + 1));
    memset(infos, 0xa5, sizeof(ExtendedDeviceInfo) * (DEVICES + 1));
    CHECK(call_AccelGetAllDevices(infos, DEVICES + 1, &count) == ACCELERATOR_SUCCESS && count == DEVICES);
    CHECK(*(unsigned char *)&infos[DEVICES] == 0xa5);
    const ExtendedDeviceInfo *whole = &infos[0], *part = &infos[1], *software = &infos[3];
    IS(whole->basic.uuid, WHOLE);
    IS(whole->basic.vendor, "AMD");
    IS(whole->basic.model, "AMD Instinct MI300X OAM");
    IS(whole->basic.driverVersion, "6.12.12");
    IS(whole->basic.firmwareVersion, "113-M3000100-102");
    IS(whole->basic.deviceNode, "/dev/dri/renderD128");
    CHECK(whole->basic.index == 0 && whole->basic.numaNode == 0);
    CHECK(whole->basic.totalMemoryBytes == 192ull << 30 && whole->basic.totalComputeUnits == 304);
    CHECK(whole->basic.maxTflops > 1307 && whole->basic.maxTflops < 1308);
    CHECK(whole->basic.pcieGen == 5 && whole->basic.pcieWidth == 16);
    const VirtualizationCapabilities *can = &whole->virtualizationCapabilities;
    CHECK(!can->supportsPartitioning && can->supportsSoftIsolation && can->supportsHardIsolation);
    CHECK(!can->supportsSnapshot && can->supportsMetrics && can->supportsRemoting);
    CHECK(whole->props.count > 0 && whole->props.count <= ACCELERATOR_MAX_PROPERTIES);
    IS(part->basic.uuid, FIRST_PART);
    IS(part->basic.deviceNode, "/dev/dri/renderD129");
    CHECK(part->basic.index == 1 && part->basic.totalMemoryBytes == 96ull << 30);
    CHECK(part->virtualizationCapabilities.supportsPartitioning);
    CHECK(software->basic.deviceNode[0] == 0 && software->basic.totalComputeUnits == 104);
    CHECK(call_AccelGetAllDevices(infos, 1, &count) == ACCELERATOR_SUCCESS && count == 1);
    CHECK(call_AccelGetAllDevices(NULL, 1, &count) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_AccelGetAllDevices(infos, 0, &count) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_AccelGetAllDevices(infos, 1, NULL) == ACCELERATOR_INVALID_PARAM);
    free(infos);
}

/* The two forms differ only in the size of a peer, so one macro checks both. */
#define CHECK_TOPOLOGY(type)                                                                                \
    do {                                                                                                    \
        type *topology = malloc(sizeof(type));                                                              \
        memset(topology, 0xa5, sizeof(type));                                                               \
        CHECK(call_AccelGetAllDevicesTopology((ExtendedDeviceTopology *)topology) == ACCELERATOR_SUCCESS);  \
        CHECK(topology->deviceCount == DEVICES);                                                            \
        for (size_t i = 0; i < DEVICES; i++) {                                                              \
            CHECK(topology->devices[i].deviceIndex == (int32_t)i);                                          \
            CHECK(topology->devices[i].peerCount == DEVICES - 1);                                           \
            for (size_t j = 0; j < DEVICES - 1; j++) {                                                      \
                CHECK(topology->devices[i].peers[j].peerIndex == (int32_t)(j + (j >= i)));                  \
                CHECK(strlen(topology->devices[i].peers[j].peerUUID) > 0);                                  \
            }                                                                                               \
        }                                                                                                   \
        IS(topology->devices[0].deviceUUID, WHOLE);                                                         \
        IS(topology->devices[0].peers[1].peerUUID, SECOND_PART);                                            \
        CHECK(topology->devices[0].peers[0].topoLevel == TOPO_LEVEL_INTERNAL);                              \
        CHECK(topology->devices[1].peers[1].topoLevel == TOPO_LEVEL_INTERNAL);                              \
        CHECK(topology->devices[0].peers[2].topoLevel == TOPO_LEVEL_UNKNOWN);                               \
        CHECK(topology->devices[0].numaNode == 0 && topology->devices[3].numaNode == -1);                   \
        free(topology);                                                                                     \
    } while (0)

static void topology(void)
{
    F(AccelGetAllDevicesTopology);
    const char *form = getenv("TF_ACCEL_TOPO_ABI");
    if (form && strcmp(form, "go") == 0) {
        CHECK_TOPOLOGY(GoExtendedDeviceTopology);
        GoExtendedDeviceTopology *go = malloc(sizeof *go);
        CHECK(call_AccelGetAllDevicesTopology((ExtendedDeviceTopology *)go) == ACCELERATOR_SUCCESS);
        CHECK(go->devices[0].peers[0].bandwidthBytesPerSec == 64000000000ll);
        CHECK(go->devices[0].peers[2].bandwidthBytesPerSec == 0);
        free(go);
    } else {
        CHECK_TOPOLOGY(ExtendedDeviceTopology);
    }
    CHECK(call_AccelGetAllDevicesTopology(NULL) == ACCELERATOR_INVALID_PARAM);
}

static void partitions(void)
{
    F(AccelAssignPartition);
    F(AccelRemovePartition);
    PartitionResult result;
    RUBBISH(result);
    CHECK(call_AccelAssignPartition(TEMPLATE, DIVIDED, &result) == ACCELERATOR_SUCCESS);
    CHECK(result.type == PARTITION_TYPE_DEVICE_NODE);
    IS(result.deviceUUID, FIRST_PART);
    IS(result.deviceNodes[0], "/dev/kfd=/dev/kfd");
    IS(result.deviceNodes[1], "/dev/dri/renderD129=/dev/dri/renderD129");
    CHECK(result.deviceNodes[2][0] == 0 && result.envVars[0][0] == 0);
    CHECK(call_AccelAssignPartition(TEMPLATE, SECOND_PART, &result) == ACCELERATOR_SUCCESS);
    CHECK(call_AccelAssignPartition(TEMPLATE, DIVIDED, &result) == ACCELERATOR_RESOURCE_EXHAUSTED);
    CHECK(call_AccelAssignPartition("cpx-nps1", WHOLE, &result) == ACCELERATOR_OPERATION_FAILED);
    CHECK(call_AccelAssignPartition("tpx-nps1", WHOLE, &result) == ACCELERATOR_NOT_SUPPORTED);
    CHECK(call_AccelAssignPartition("mig-1g.7gb", WHOLE, &result) == ACCELERATOR_NOT_FOUND);
    CHECK(call_AccelAssignPartition(TEMPLATE, "nobody", &result) == ACCELERATOR_NOT_FOUND);
    CHECK(call_AccelAssignPartition(NULL, DIVIDED, &result) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_AccelAssignPartition("", DIVIDED, &result) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_AccelAssignPartition(TEMPLATE, NULL, &result) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_AccelAssignPartition(TEMPLATE, DIVIDED, NULL) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_AccelRemovePartition(TEMPLATE, DIVIDED) == ACCELERATOR_SUCCESS);
    CHECK(call_AccelRemovePartition(TEMPLATE, FIRST_PART) == ACCELERATOR_SUCCESS);
    CHECK(call_AccelRemovePartition(TEMPLATE, DIVIDED) == ACCELERATOR_NOT_FOUND);
    CHECK(call_AccelRemovePartition(NULL, DIVIDED) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_AccelRemovePartition(TEMPLATE, NULL) == ACCELERATOR_INVALID_PARAM);
}

static void limits(void)
{
    F(AccelSetMemHardLimit);
    F(AccelSetComputeUnitHardLimit);
    F(AccelSnapshot);
    F(AccelResume);
    CHECK(call_AccelSetMemHardLimit(WHOLE, 8ull << 30) == ACCELERATOR_SUCCESS);
    CHECK(call_AccelSetMemHardLimit("nobody", 1) == ACCELERATOR_NOT_FOUND);
    CHECK(call_AccelSetMemHardLimit(WHOLE, 0) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_AccelSetMemHardLimit(NULL, 1) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_AccelSetComputeUnitHardLimit(WHOLE, 50) == ACCELERATOR_SUCCESS);
    CHECK(call_AccelSetComputeUnitHardLimit("nobody", 50) == ACCELERATOR_NOT_FOUND);
    CHECK(call_AccelSetComputeUnitHardLimit(WHOLE, 0) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_AccelSetComputeUnitHardLimit(WHOLE, 150) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_AccelSetComputeUnitHardLimit(NULL, 50) == ACCELERATOR_INVALID_PARAM);

    pid_t pid = 1;
    SnapshotContext processes = {&pid, 1, NULL}, device = {NULL, 0, WHOLE}, nothing = {NULL, 0, NULL};
    SnapshotContext many = {&pid, ACCELERATOR_MAX_PROCESSES + 1, NULL}, nowhere = {NULL, 1, WHOLE}, unnamed = {NULL, 0, ""};
    pid_t zero = 0, negative = -1;
    SnapshotContext nobody = {&zero, 1, NULL}, group = {&negative, 1, WHOLE}, both = {&pid, 1, WHOLE};
    CHECK(call_AccelSnapshot(&processes) == ACCELERATOR_NOT_SUPPORTED);
    CHECK(call_AccelSnapshot(&device) == ACCELERATOR_NOT_SUPPORTED);
    CHECK(call_AccelSnapshot(&both) == ACCELERATOR_NOT_SUPPORTED);
    CHECK(call_AccelSnapshot(&nothing) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_AccelSnapshot(&nowhere) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_AccelSnapshot(&unnamed) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_AccelSnapshot(&nobody) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_AccelSnapshot(&group) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_AccelSnapshot(&many) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_AccelSnapshot(NULL) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_AccelResume(&processes) == ACCELERATOR_NOT_SUPPORTED);
    CHECK(call_AccelResume(&device) == ACCELERATOR_NOT_SUPPORTED);
    CHECK(call_AccelResume(&both) == ACCELERATOR_NOT_SUPPORTED);
    CHECK(call_AccelResume(&nothing) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_AccelResume(&nowhere) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_AccelResume(&unnamed) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_AccelResume(&nobody) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_AccelResume(&group) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_AccelResume(NULL) == ACCELERATOR_INVALID_PARAM);
}

static void measurements(void)
{
    F(AccelGetProcessInformation);
    F(AccelGetDeviceMetrics);
    F(AccelGetVendorMountLibs);
    size_t count = 99;
    ProcessInformation processes[4];
    RUBBISH(processes);
    CHECK(call_AccelGetProcessInformation(processes, 4, &count) == ACCELERATOR_SUCCESS && count == 1);
    IS(processes[0].processId, BUSY_PID);
    CHECK(processes[0].memoryUsedBytes == 5ull << 30);
    CHECK(call_AccelGetProcessInformation(NULL, 4, &count) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_AccelGetProcessInformation(processes, 0, &count) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_AccelGetProcessInformation(processes, 4, NULL) == ACCELERATOR_INVALID_PARAM);

    const char *names[] = {WHOLE, "nobody"};
    DeviceMetrics metrics[2];
    RUBBISH(metrics);
    CHECK(call_AccelGetDeviceMetrics(names, 2, metrics) == ACCELERATOR_SUCCESS);
    CHECK(metrics[0].powerUsageWatts == 421 && metrics[0].memoryUsedBytes == 3ull << 30);
    int clocks = 0;
    for (size_t i = 0; i < metrics[0].extraMetricsCount; i++)
        clocks += strcmp(metrics[0].extraMetrics[i].key, "graphics_clock_mhz") == 0 && metrics[0].extraMetrics[i].value == 1800;
    CHECK(clocks == 1);
    CHECK(metrics[1].powerUsageWatts == 0 && metrics[1].extraMetricsCount == 0);
    CHECK(call_AccelGetDeviceMetrics(NULL, 1, metrics) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_AccelGetDeviceMetrics(names, 0, metrics) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_AccelGetDeviceMetrics(names, 1, NULL) == ACCELERATOR_INVALID_PARAM);

    MountPath mounts[4];
    CHECK(call_AccelGetVendorMountLibs(mounts, 4, &count) == ACCELERATOR_SUCCESS && count == 1);
    IS(mounts[0].hostPath, "/opt/rocm-7.10.0/lib");
    CHECK(call_AccelGetVendorMountLibs(NULL, 4, &count) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_AccelGetVendorMountLibs(mounts, 0, &count) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_AccelGetVendorMountLibs(mounts, 4, NULL) == ACCELERATOR_INVALID_PARAM);
}

void check_e(void)
{
    F(AccelInit);
    CHECK(call_AccelInit() == ACCELERATOR_SUCCESS);
    devices();
    topology();
    partitions();
    limits();
    measurements();
}

void call_e(unsigned number)
{
    F(AccelInit);
    F(AccelGetDeviceCount);
    F(AccelGetAllDevices);
    F(AccelAssignPartition);
    F(AccelRemovePartition);
    F(AccelSetMemHardLimit);
    F(AccelSetComputeUnitHardLimit);
    F(AccelSnapshot);
    F(AccelResume);
    F(AccelGetProcessInformation);
    F(AccelGetDeviceMetrics);
    F(AccelGetVendorMountLibs);
    size_t count = 0;
    switch (number % 13) {
    case 0: CHECK(call_AccelInit() == ACCELERATOR_SUCCESS); break;
    case 1: CHECK(call_AccelGetDeviceCount(&count) == ACCELERATOR_SUCCESS && count == DEVICES); break;
    case 2: {
        ExtendedDeviceInfo *infos = malloc(sizeof(ExtendedDeviceInfo) * DEVICES);
        CHECK(call_AccelGetAllDevices(infos, DEVICES, &count) == ACCELERATOR_SUCCESS && count == DEVICES);
        free(infos);
        break;
    }
    case 3: topology(); break;
    case 4: {
        PartitionResult result;
        int answer = call_AccelAssignPartition(TEMPLATE, DIVIDED, &result);
        CHECK(answer == ACCELERATOR_SUCCESS || answer == ACCELERATOR_RESOURCE_EXHAUSTED);
        if (answer == ACCELERATOR_SUCCESS)
            CHECK(call_AccelRemovePartition(TEMPLATE, result.deviceUUID) == ACCELERATOR_SUCCESS);
        break;
    }
    case 5: CHECK(call_AccelSetMemHardLimit(WHOLE, 1 + number) == ACCELERATOR_SUCCESS); break;
    case 6: CHECK(call_AccelSetComputeUnitHardLimit(WHOLE, 1 + number % 100) == ACCELERATOR_SUCCESS); break;
    case 7:
    case 8: {
        pid_t pid = (pid_t)number + 1;
        SnapshotContext context = {&pid, 1, WHOLE};
        CHECK((number % 13 == 7 ? call_AccelSnapshot : call_AccelResume)(&context) == ACCELERATOR_NOT_SUPPORTED);
        break;
    }
    case 9: {
        ProcessInformation processes[2];
        CHECK(call_AccelGetProcessInformation(processes, 2, &count) == ACCELERATOR_SUCCESS && count == 1);
        break;
    }
    case 10: {
        const char *name = number % 3 ? FIRST_PART : "nobody";
        DeviceMetrics metrics;
        CHECK(call_AccelGetDeviceMetrics(&name, 1, &metrics) == ACCELERATOR_SUCCESS);
        break;
    }
    case 11: CHECK(call_AccelRemovePartition("cpx-nps1", WHOLE) == ACCELERATOR_NOT_FOUND); break;
    default: {
        MountPath mount;
        CHECK(call_AccelGetVendorMountLibs(&mount, 1, &count) == ACCELERATOR_SUCCESS && count == 1);
    }
    }
}
