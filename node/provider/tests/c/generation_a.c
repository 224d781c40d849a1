#include "accelerator_generation_a.h"
#include "check.h"

#define SIZE(type, size) _Static_assert(sizeof(type) == (size), #type)
#define AT(type, field, place) _Static_assert(offsetof(type, field) == (place), #type "." #field)

SIZE(VirtualizationCapabilities, 16);
AT(VirtualizationCapabilities, maxPartitions, 8);
SIZE(DevicePropertyKV, 320);
SIZE(DeviceProperties, 20488);
AT(DeviceProperties, count, 20480);
SIZE(PartitionTemplate, 480);
SIZE(ExtraMetric, 72);
SIZE(ProcessInformation, 144);
AT(ProcessInformation, computeUtilizationPercent, 96);
SIZE(DeviceMetrics, 4728);
AT(DeviceMetrics, utilizationPercent, 96);
AT(DeviceMetrics, memoryUsedBytes, 104);
AT(DeviceMetrics, extraMetrics, 112);
AT(DeviceMetrics, extraMetricsCount, 4720);
SIZE(MountPath, 1024);
SIZE(DeviceBasicInfo, 392);
AT(DeviceBasicInfo, driverVersion, 224);
AT(DeviceBasicInfo, firmwareVersion, 288);
AT(DeviceBasicInfo, index, 352);
AT(DeviceBasicInfo, totalMemoryBytes, 360);
AT(DeviceBasicInfo, maxTflops, 376);
AT(DeviceBasicInfo, pcieWidth, 388);
SIZE(ExtendedDeviceInfo, 20896);
AT(ExtendedDeviceInfo, props, 392);
AT(ExtendedDeviceInfo, virtualizationCapabilities, 20880);
SIZE(DeviceTopology, 68);
SIZE(ExtendedDeviceTopology, 4392);
AT(ExtendedDeviceTopology, deviceCount, 4352);
AT(ExtendedDeviceTopology, topologyType, 4360);
SIZE(EnvVar, 320);
SIZE(PartitionAssignment, 5320);
AT(PartitionAssignment, envVars, 192);
AT(PartitionAssignment, envVarCount, 5312);
SIZE(ProcessArray, 4168);
AT(ProcessArray, processCount, 4096);
AT(ProcessArray, deviceUUID, 4104);

#define F(name) __typeof__(&name) call_##name = (__typeof__(&name))find(#name)

void before_init_a(void)
{
    F(GetDeviceCount);
    F(GetAllDevices);
    F(SetMemHardLimit);
    F(GetVendorMountLibs);
    size_t count = 99;
    static ExtendedDeviceInfo devices[DEVICES];
    static MountPath mounts[4];
    CHECK(call_GetDeviceCount(&count) == ACCELERATOR_OPERATION_FAILED);
    CHECK(call_GetAllDevices(devices, DEVICES, &count) == ACCELERATOR_OPERATION_FAILED);
    CHECK(call_SetMemHardLimit("worker", WHOLE, 1) == ACCELERATOR_OPERATION_FAILED);
    CHECK(call_GetVendorMountLibs(mounts, 4, &count) == ACCELERATOR_OPERATION_FAILED);
    /* Invalid arguments are refused before initialisation as well. */
    CHECK(call_GetDeviceCount(NULL) == ACCELERATOR_INVALID_PARAM);
}

static void devices(void)
{
    F(GetDeviceCount);
    F(GetAllDevices);
    F(GetDeviceTopology);
    size_t count = 99;
    CHECK(call_GetDeviceCount(&count) == ACCELERATOR_SUCCESS && count == DEVICES);
    CHECK(call_GetDeviceCount(NULL) == ACCELERATOR_INVALID_PARAM);

    ExtendedDeviceInfo *infos = malloc(sizeof(ExtendedDeviceInfo) * (DEVICES + 1));
    memset(infos, 0xa5, sizeof(ExtendedDeviceInfo) * (DEVICES + 1));
    CHECK(call_GetAllDevices(infos, DEVICES + 1, &count) == ACCELERATOR_SUCCESS && count == DEVICES);
    CHECK(*(unsigned char *)&infos[DEVICES] == 0xa5);
    const ExtendedDeviceInfo *whole = &infos[0], *part = &infos[2], *software = &infos[3];
    IS(whole->basic.uuid, WHOLE);
    IS(whole->basic.vendor, "AMD");
    IS(whole->basic.model, "AMD Instinct MI300X OAM");
    IS(whole->basic.driverVersion, "6.12.12");
    IS(whole->basic.firmwareVersion, "113-M3000100-102");
    CHECK(whole->basic.index == 0 && whole->basic.numaNode == 0);
    CHECK(whole->basic.totalMemoryBytes == 192ull << 30 && whole->basic.totalComputeUnits == 304);
    CHECK(whole->basic.maxTflops > 1307 && whole->basic.maxTflops < 1308);
    CHECK(whole->basic.pcieGen == 5 && whole->basic.pcieWidth == 16);
    const VirtualizationCapabilities *can = &whole->virtualizationCapabilities;
    CHECK(!can->supportsPartitioning && can->maxPartitions == 8 && can->maxWorkersPerDevice > 1);
    CHECK(can->supportsSoftIsolation && can->supportsHardIsolation);
    CHECK(!can->supportsSnapshot && can->supportsMetrics && can->supportsRemoting);
    CHECK(whole->props.count > 0 && whole->props.count <= ACCELERATOR_MAX_PROPERTIES);
    for (size_t i = 0; i < whole->props.count; i++) {
        CHECK(memchr(whole->props.properties[i].key, 0, 64) && whole->props.properties[i].key[0]);
        CHECK(memchr(whole->props.properties[i].value, 0, 256) && whole->props.properties[i].value[0]);
    }
    IS(part->basic.uuid, SECOND_PART);
    CHECK(part->basic.totalComputeUnits == 152 && part->virtualizationCapabilities.supportsPartitioning);
    IS(software->basic.model, "AMD Instinct MI210");
    CHECK(software->basic.numaNode == -1 && software->virtualizationCapabilities.supportsRemoting);
    CHECK(call_GetAllDevices(infos, 2, &count) == ACCELERATOR_SUCCESS && count == 2);
    CHECK(call_GetAllDevices(NULL, 2, &count) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_GetAllDevices(infos, 0, &count) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_GetAllDevices(infos, 2, NULL) == ACCELERATOR_INVALID_PARAM);
    free(infos);

    ExtendedDeviceTopology topology;
    int32_t cards[] = {0, 1, 2}, all[] = {3, 0}, wrong[] = {0, DEVICES}, negative[] = {-1};
    RUBBISH(topology);
    CHECK(call_GetDeviceTopology(cards, 3, &topology) == ACCELERATOR_SUCCESS && topology.deviceCount == 3);
    IS(topology.devices[1].deviceUUID, FIRST_PART);
    CHECK(topology.devices[0].numaNode == 0);
    IS(topology.topologyType, "XGMI");
    CHECK(call_GetDeviceTopology(all, 2, &topology) == ACCELERATOR_SUCCESS);
    IS(topology.devices[1].deviceUUID, WHOLE);
    IS(topology.topologyType, "NUMA");
    CHECK(call_GetDeviceTopology(wrong, 2, &topology) == ACCELERATOR_NOT_FOUND);
    CHECK(call_GetDeviceTopology(negative, 1, &topology) == ACCELERATOR_NOT_FOUND);
    CHECK(call_GetDeviceTopology(NULL, 1, &topology) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_GetDeviceTopology(cards, 0, &topology) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_GetDeviceTopology(cards, 65, &topology) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_GetDeviceTopology(cards, 3, NULL) == ACCELERATOR_INVALID_PARAM);
}

static bool assign(const char *template, const char *device, PartitionAssignment *assignment)
{
    F(AssignPartition);
    memset(assignment, 0xa5, sizeof *assignment);
    snprintf(assignment->templateId, 64, "%s", template);
    snprintf(assignment->deviceUUID, 64, "%s", device);
    return call_AssignPartition(assignment);
}

static void partitions(void)
{
    F(AssignPartition);
    F(RemovePartition);
    PartitionAssignment assignment;
    CHECK(assign(TEMPLATE, DIVIDED, &assignment));
    IS(assignment.partitionUUID, FIRST_PART);
    IS(assignment.deviceUUID, DIVIDED);
    CHECK(assignment.envVarCount == 1);
    IS(assignment.envVars[0].key, "ROCR_VISIBLE_DEVICES");
    IS(assignment.envVars[0].value, "1");
    CHECK(assign(TEMPLATE, DIVIDED, &assignment));
    IS(assignment.partitionUUID, SECOND_PART);
    CHECK(!assign(TEMPLATE, DIVIDED, &assignment));
    CHECK(!assign("cpx-nps1", WHOLE, &assignment));
    CHECK(!assign("mig-1g.7gb", DIVIDED, &assignment));
    CHECK(!assign(TEMPLATE, "nobody", &assignment));
    CHECK(!assign("", DIVIDED, &assignment));
    CHECK(!assign(TEMPLATE, "", &assignment));
    memset(&assignment, 'x', sizeof assignment);
    CHECK(!call_AssignPartition(&assignment));
    CHECK(!call_AssignPartition(NULL));
    CHECK(call_RemovePartition(TEMPLATE, DIVIDED) && call_RemovePartition(TEMPLATE, FIRST_PART));
    CHECK(!call_RemovePartition(TEMPLATE, DIVIDED));
    CHECK(!call_RemovePartition(NULL, DIVIDED) && !call_RemovePartition(TEMPLATE, NULL));
}

static void limits(void)
{
    F(SetMemHardLimit);
    F(SetComputeUnitHardLimit);
    F(Snapshot);
    F(Resume);
    CHECK(call_SetMemHardLimit("worker-a", WHOLE, 4ull << 30) == ACCELERATOR_SUCCESS);
    CHECK(call_SetMemHardLimit("worker-a", "nobody", 1) == ACCELERATOR_NOT_FOUND);
    CHECK(call_SetMemHardLimit("../../etc", WHOLE, 1) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_SetMemHardLimit("worker-a", WHOLE, 0) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_SetMemHardLimit(NULL, WHOLE, 1) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_SetMemHardLimit("", WHOLE, 1) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_SetMemHardLimit("worker-a", NULL, 1) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_SetComputeUnitHardLimit("worker-a", WHOLE, 25) == ACCELERATOR_SUCCESS);
    CHECK(call_SetComputeUnitHardLimit("worker-a", "nobody", 25) == ACCELERATOR_NOT_FOUND);
    CHECK(call_SetComputeUnitHardLimit("worker-a", WHOLE, 0) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_SetComputeUnitHardLimit("worker-a", WHOLE, 101) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_SetComputeUnitHardLimit(NULL, WHOLE, 25) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_SetComputeUnitHardLimit("worker-a", NULL, 25) == ACCELERATOR_INVALID_PARAM);

    ProcessArray processes;
    memset(&processes, 0, sizeof processes);
    CHECK(call_Snapshot(&processes) == ACCELERATOR_INVALID_PARAM && call_Resume(&processes) == ACCELERATOR_INVALID_PARAM);
    /* PID 0 is invalid. */
    processes.processCount = 1;
    CHECK(call_Snapshot(&processes) == ACCELERATOR_INVALID_PARAM && call_Resume(&processes) == ACCELERATOR_INVALID_PARAM);
    /* No agent is configured. */
    processes.processIds[0] = 1;
    CHECK(call_Snapshot(&processes) == ACCELERATOR_NOT_SUPPORTED && call_Resume(&processes) == ACCELERATOR_NOT_SUPPORTED);
    memset(processes.deviceUUID, 'x', sizeof processes.deviceUUID);
    CHECK(call_Snapshot(&processes) == ACCELERATOR_NOT_SUPPORTED && call_Resume(&processes) == ACCELERATOR_NOT_SUPPORTED);
    processes.processCount = ACCELERATOR_MAX_PROCESSES + 1;
    CHECK(call_Snapshot(&processes) == ACCELERATOR_INVALID_PARAM && call_Resume(&processes) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_Snapshot(NULL) == ACCELERATOR_INVALID_PARAM && call_Resume(NULL) == ACCELERATOR_INVALID_PARAM);
}

static void measurements(void)
{
    F(GetProcessInformation);
    F(GetDeviceMetrics);
    F(GetVendorMountLibs);
    size_t count = 99;
    ProcessInformation processes[4];
    RUBBISH(processes);
    CHECK(call_GetProcessInformation(processes, 4, &count) == ACCELERATOR_SUCCESS && count == 1);
    IS(processes[0].processId, BUSY_PID);
    IS(processes[0].deviceUUID, WHOLE);
    CHECK(processes[0].computeUtilizationPercent == 25 && processes[0].activeSMs == 76 && processes[0].totalSMs == 304);
    CHECK(processes[0].memoryUsedBytes == 5ull << 30 && processes[0].memoryReservedBytes == 0);
    CHECK(processes[0].memoryUtilizationPercent > 2 && processes[0].memoryUtilizationPercent < 3);
    CHECK(call_GetProcessInformation(NULL, 4, &count) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_GetProcessInformation(processes, 0, &count) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_GetProcessInformation(processes, 4, NULL) == ACCELERATOR_INVALID_PARAM);

    const char *names[] = {WHOLE, "nobody", "", NULL, "AMD-A1B2C3D400000001-P1"};
    DeviceMetrics *metrics = malloc(sizeof(DeviceMetrics) * 5);
    memset(metrics, 0xa5, sizeof(DeviceMetrics) * 5);
    CHECK(call_GetDeviceMetrics(names, 5, metrics) == ACCELERATOR_SUCCESS);
    IS(metrics[0].deviceUUID, WHOLE);
    CHECK(metrics[0].powerUsageWatts == 421 && metrics[0].temperatureCelsius == 51);
    CHECK(metrics[0].utilizationPercent == 37 && metrics[0].memoryUsedBytes == 3ull << 30);
    CHECK(metrics[0].extraMetricsCount >= 5 && metrics[0].extraMetricsCount <= ACCELERATOR_MAX_EXTRA_METRICS);
    IS(metrics[1].deviceUUID, "nobody");
    CHECK(metrics[1].powerUsageWatts == 0 && metrics[1].extraMetricsCount == 0);
    CHECK(metrics[2].deviceUUID[0] == 0 && metrics[3].deviceUUID[0] == 0 && metrics[3].extraMetricsCount == 0);
    CHECK(metrics[4].utilizationPercent == 37);
    CHECK(call_GetDeviceMetrics(NULL, 1, metrics) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_GetDeviceMetrics(names, 0, metrics) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_GetDeviceMetrics(names, 1, NULL) == ACCELERATOR_INVALID_PARAM);
    free(metrics);

    MountPath mounts[4];
    RUBBISH(mounts);
    CHECK(call_GetVendorMountLibs(mounts, 4, &count) == ACCELERATOR_SUCCESS && count == 1);
    IS(mounts[0].hostPath, "/opt/rocm-7.10.0/lib");
    IS(mounts[0].guestPath, "/usr/local/rocm/lib");
    CHECK(call_GetVendorMountLibs(NULL, 4, &count) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_GetVendorMountLibs(mounts, 0, &count) == ACCELERATOR_INVALID_PARAM);
    CHECK(call_GetVendorMountLibs(mounts, 4, NULL) == ACCELERATOR_INVALID_PARAM);
}

void check_a(void)
{
    F(VirtualGPUInit);
    CHECK(call_VirtualGPUInit() == ACCELERATOR_SUCCESS);
    devices();
    partitions();
    limits();
    measurements();
}

void call_a(unsigned number)
{
    F(VirtualGPUInit);
    F(GetDeviceCount);
    F(GetAllDevices);
    F(GetDeviceTopology);
    F(RemovePartition);
    F(SetMemHardLimit);
    F(SetComputeUnitHardLimit);
    F(Snapshot);
    F(Resume);
    F(GetProcessInformation);
    F(GetDeviceMetrics);
    F(GetVendorMountLibs);
    size_t count = 0;
    switch (number % 12) {
    case 0: CHECK(call_VirtualGPUInit() == ACCELERATOR_SUCCESS); break;
    case 1: CHECK(call_GetDeviceCount(&count) == ACCELERATOR_SUCCESS && count == DEVICES); break;
    case 2: {
        ExtendedDeviceInfo *infos = malloc(sizeof(ExtendedDeviceInfo) * DEVICES);
        CHECK(call_GetAllDevices(infos, DEVICES, &count) == ACCELERATOR_SUCCESS && count == DEVICES);
        IS(infos[0].basic.uuid, WHOLE);
        free(infos);
        break;
    }
    case 3: {
        ExtendedDeviceTopology topology;
        int32_t indices[] = {0, 1};
        CHECK(call_GetDeviceTopology(indices, 2, &topology) == ACCELERATOR_SUCCESS && topology.deviceCount == 2);
        break;
    }
    case 4: {
        /* Other threads may hold all partitions; a thread that got one removes it again. */
        PartitionAssignment assignment;
        if (assign(TEMPLATE, DIVIDED, &assignment))
            CHECK(call_RemovePartition(TEMPLATE, assignment.partitionUUID));
        break;
    }
    case 5: CHECK(call_SetMemHardLimit("worker-t", WHOLE, 1 + number) == ACCELERATOR_SUCCESS); break;
    case 6: CHECK(call_SetComputeUnitHardLimit("worker-t", WHOLE, 1 + number % 100) == ACCELERATOR_SUCCESS); break;
    case 7:
    case 8: {
        ProcessArray processes = {{(pid_t)number + 1}, 1, WHOLE};
        CHECK((number % 12 == 7 ? call_Snapshot : call_Resume)(&processes) == ACCELERATOR_NOT_SUPPORTED);
        break;
    }
    case 9: {
        ProcessInformation processes[2];
        CHECK(call_GetProcessInformation(processes, 2, &count) == ACCELERATOR_SUCCESS && count == 1);
        break;
    }
    case 10: {
        const char *name = number % 3 ? WHOLE : "nobody";
        DeviceMetrics metrics;
        CHECK(call_GetDeviceMetrics(&name, 1, &metrics) == ACCELERATOR_SUCCESS);
        IS(metrics.deviceUUID, name);
        break;
    }
    default: {
        MountPath mount;
        CHECK(call_GetVendorMountLibs(&mount, 1, &count) == ACCELERATOR_SUCCESS && count == 1);
    }
    }
}
