/* Stand-ins for the seven functions of the system management library (librocm_smi64.so.1) that rocBLAS's programs call,
 * implemented with the HIP library they are loaded with.
 *
 * AMD's own library reads files of the kernel driver, which a machine without an AMD GPU does not have; the programs then fail
 * to start, although they only need the device's PCI address. Clock readings return an error: none are measured. */

#include <stdint.h>
#include <stdio.h>

int hipGetDeviceCount(int *count);
int hipDeviceGetPCIBusId(char *text, int bytes, int device);

enum { SUCCESS = 0, INVALID_ARGS = 1, NOT_SUPPORTED = 2, INIT_ERROR = 8 };

int rsmi_init(uint64_t flags)
{
    int count = 0;
    (void)flags;
    return hipGetDeviceCount(&count) == 0 ? SUCCESS : INIT_ERROR;
}

int rsmi_num_monitor_devices(uint32_t *devices)
{
    int count = 0;
    if (devices == NULL)
        return INVALID_ARGS;
    if (hipGetDeviceCount(&count) != 0 || count < 0)
        return INIT_ERROR;
    *devices = (uint32_t)count;
    return SUCCESS;
}

int rsmi_dev_pci_id_get(uint32_t device, uint64_t *id)
{
    char text[32];
    unsigned domain, bus, slot, function;
    if (id == NULL || hipDeviceGetPCIBusId(text, sizeof text, (int)device) != 0)
        return INVALID_ARGS;
    if (sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4)
        return NOT_SUPPORTED;
    *id = (uint64_t)domain << 32 | (bus & 0xff) << 8 | (slot & 0x1f) << 3 | (function & 7);
    return SUCCESS;
}

int rsmi_dev_gpu_clk_freq_get(uint32_t device, int clock, void *frequencies)
{
    (void)device, (void)clock, (void)frequencies;
    return NOT_SUPPORTED;
}

int rsmi_dev_gpu_metrics_info_get(uint32_t device, void *metrics)
{
    (void)device, (void)metrics;
    return NOT_SUPPORTED;
}

int rsmi_dev_metrics_xcd_counter_get(uint32_t device, uint16_t *count)
{
    (void)device, (void)count;
    return NOT_SUPPORTED;
}

int rsmi_status_string(int status, const char **text)
{
    if (text == NULL)
        return INVALID_ARGS;
    switch (status) {
    case SUCCESS: *text = "success"; break;
    case INVALID_ARGS: *text = "invalid arguments"; break;
    case NOT_SUPPORTED: *text = "not supported"; break;
    default: *text = "the HIP library has no device"; break;
    }
    return SUCCESS;
}
