/* A libamd_smi that, like the real one, discovers devices only at initialisation: the card is whole the first time, and has
 * eight partitions every time after. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint32_t status;
typedef void *handle;

static int socket_of_card, processors[8];
static int starts, started;

status amdsmi_init(uint64_t flags)
{
    starts++;
    started++;
    return flags == 2 ? 0 : 1;
}

status amdsmi_shut_down(void)
{
    started--;
    return 0;
}

status amdsmi_get_lib_version(void *version)
{
    uint32_t words[2] = {27, 1};
    memcpy(version, words, sizeof words);
    return started == 1 ? 0 : 32;
}

status amdsmi_get_socket_handles(uint32_t *count, handle *handles)
{
    if (started != 1)
        return 32;
    if (handles && *count)
        handles[0] = &socket_of_card;
    *count = 1;
    return 0;
}

status amdsmi_get_processor_handles(handle socket, uint32_t *count, handle *handles)
{
    uint32_t there = starts > 1 ? 8 : 1;
    for (uint32_t i = 0; handles && i < there && i < *count; i++)
        handles[i] = &processors[i];
    *count = there;
    return socket == &socket_of_card ? 0 : 1;
}

status amdsmi_get_processor_type(handle device, uint32_t *type)
{
    *type = 1;
    return device ? 0 : 1;
}

status amdsmi_get_gpu_bdf_id(handle device, uint64_t *id)
{
    *id = 0x0500 | (uint64_t)((int *)device - processors) << 28;
    return 0;
}
