/* A fake libamd_smi with two cards, whose structures have the layout that the macros describe. All bytes that are not part of
 * a set field are 0x5a, so that a read at a wrong offset returns garbage. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef uint32_t status;
typedef void *handle;

enum { SUCCESS = 0, INVAL = 1, NOT_SUPPORTED = 2, OUT_OF_RESOURCES = 15, NOT_INIT = 32 };
enum { GROWN = 20 };

static int sockets[2], processors[2], others[2];
static int started, asked;

static void clean(void *to, size_t size) { memset(to, 0x5a, size); }
static void put32(void *to, size_t at, uint32_t value) { memcpy((char *)to + at, &value, 4); }
static void put64(void *to, size_t at, uint64_t value) { memcpy((char *)to + at, &value, 8); }
static void put_text(void *to, size_t at, const char *text) { memcpy((char *)to + at, text, strlen(text) + 1); }

static int number(handle device)
{
    for (int i = 0; i < 2; i++)
        if (device == &processors[i])
            return i;
    return -1;
}

#define KNOWN(device)           \
    do {                        \
        if (!started)           \
            return NOT_INIT;    \
        if (number(device) < 0) \
            return INVAL;       \
    } while (0)

status amdsmi_init(uint64_t flags)
{
    started += flags == 2;
    return flags == 2 ? SUCCESS : INVAL;
}

status amdsmi_shut_down(void)
{
    started--;
    return SUCCESS;
}

status amdsmi_get_lib_version(void *version)
{
    if (!started)
        return NOT_INIT;
    put32(version, 0, VERSION_FIRST);
    put32(version, 4, VERSION_SECOND);
    return SUCCESS;
}

status amdsmi_get_socket_handles(uint32_t *count, handle *handles)
{
    for (uint32_t i = 0; handles && i < *count && i < 2; i++)
        handles[i] = &sockets[i];
    *count = 2;
    return SUCCESS;
}

status amdsmi_get_processor_handles(handle socket, uint32_t *count, handle *handles)
{
    int which = socket == &sockets[1];
    if (handles && *count >= 2) {
        handles[0] = &others[which];
        handles[1] = &processors[which];
    }
    *count = 2;
    return SUCCESS;
}

status amdsmi_get_processor_type(handle device, uint32_t *type)
{
    *type = number(device) < 0 ? 2 : 1;
    return SUCCESS;
}

status amdsmi_get_gpu_bdf_id(handle device, uint64_t *id)
{
    KNOWN(device);
    *id = 0xc100 + 0x500 * (uint64_t)number(device);
    return SUCCESS;
}

status amdsmi_get_gpu_asic_info(handle device, void *info)
{
    KNOWN(device);
    clean(info, ASIC_SIZE);
    put_text(info, 0, "Mock Instinct");
    put64(info, DEVICE_ID, 0x74a1);
    char serial[32];
    snprintf(serial, sizeof serial, "0xFEED00000000000%d", number(device));
    put_text(info, SERIAL, serial);
#ifdef COMPUTE_UNITS
    put32(info, COMPUTE_UNITS, 304);
    put64(info, PROCESSOR, 0x942);
#endif
    return SUCCESS;
}

#ifdef HAS_KFD
status amdsmi_get_gpu_kfd_info(handle device, void *info)
{
    KNOWN(device);
    clean(info, 64);
    put64(info, 0, 5000 + (uint64_t)number(device));
    put32(info, 8, 1 + (uint32_t)number(device));
    put32(info, 12, 0xffffffff);
    return SUCCESS;
}
#endif

#ifdef HAS_ENUMERATION
status amdsmi_get_gpu_enumeration_info(handle device, void *info)
{
    KNOWN(device);
    clean(info, 280);
    put32(info, 0, 128 + (uint32_t)number(device));
    return SUCCESS;
}
#endif

status amdsmi_get_gpu_memory_total(handle device, uint32_t type, uint64_t *total)
{
    KNOWN(device);
    *total = 192ull << 30;
    return type == 0 ? SUCCESS : INVAL;
}

status amdsmi_get_gpu_memory_usage(handle device, uint32_t type, uint64_t *used)
{
    KNOWN(device);
    *used = 7ull << 30;
    return type == 0 ? SUCCESS : INVAL;
}

status amdsmi_get_gpu_driver_info(handle device, void *info)
{
    KNOWN(device);
    clean(info, DRIVER_SIZE);
    put_text(info, 0, "6.99");
    return SUCCESS;
}

status amdsmi_get_gpu_vbios_info(handle device, void *info)
{
    KNOWN(device);
    clean(info, VBIOS_SIZE);
    put_text(info, VBIOS_VERSION, "113-MOCK");
    return SUCCESS;
}

status amdsmi_get_pcie_info(handle device, void *info)
{
    KNOWN(device);
    clean(info, 512);
    uint16_t width = 16;
    memcpy(info, &width, 2);
    put32(info, 4, 32000);
    return SUCCESS;
}

status amdsmi_get_clock_info(handle device, uint32_t type, void *info)
{
    KNOWN(device);
    if (type != 0)
        return NOT_SUPPORTED;
    clean(info, 32);
    put32(info, 0, 1500);
    put32(info, 8, 2100);
    return SUCCESS;
}

status amdsmi_get_gpu_activity(handle device, void *info)
{
    KNOWN(device);
    clean(info, 64);
    put32(info, 0, 63);
    put32(info, 4, 0xffff);
    return SUCCESS;
}

/* The first card reports its current power; the second reports an average, as older cards do. */
status amdsmi_get_power_info(handle device, void *info)
{
    KNOWN(device);
    clean(info, POWER_SIZE);
    put32(info, POWER_CURRENT, number(device) == 0 ? 555 : 0xffff);
    put32(info, POWER_AVERAGE, number(device) == 0 ? 0xffff : 444);
    put32(info, POWER_LIMIT, 750000000);
    return SUCCESS;
}

/* No edge sensor, as on an MI300X. */
status amdsmi_get_temp_metric(handle device, uint32_t sensor, uint32_t metric, int64_t *temperature)
{
    KNOWN(device);
    if (sensor == 0 || metric != 0)
        return NOT_SUPPORTED;
    *temperature = sensor == 1 ? 66 : 55;
    return SUCCESS;
}

/* The first card's process list grows between counting and reading; the second card returns an error. */
status amdsmi_get_gpu_process_list(handle device, uint32_t *most, void *list)
{
    KNOWN(device);
    if (number(device) == 1)
        return NOT_SUPPORTED;
    uint32_t room = *most, there = asked++ % 3 == 0 ? 1 : GROWN;
    *most = there;
    if (room == 0)
        return SUCCESS;
    if (room < there)
        return OUT_OF_RESOURCES;
    clean(list, there * (size_t)PROCESS_SIZE);
    for (uint32_t i = 0; i < there; i++) {
        char *process = (char *)list + i * (size_t)PROCESS_SIZE;
        put_text(process, 0, "python3");
        put32(process, PROCESS_PID, 100 + i);
        put64(process, PROCESS_VRAM, (uint64_t)(i + 1) << 20);
#ifdef PROCESS_OCCUPIED
        put32(process, PROCESS_OCCUPIED, i);
#endif
    }
    return SUCCESS;
}

status amdsmi_topo_get_numa_node_number(handle device, uint32_t *node)
{
    KNOWN(device);
    *node = 1;
    return SUCCESS;
}

status amdsmi_topo_get_link_type(handle from, handle to, uint64_t *hops, uint32_t *type)
{
    KNOWN(from);
    KNOWN(to);
    *hops = 1;
    *type = 2;
    return SUCCESS;
}
