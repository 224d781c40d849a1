/* Checks the table of struct layouts against one of AMD's headers at compile time. */
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>

#include <amd_smi/amdsmi.h>

#define SIZE(type, size) _Static_assert(sizeof(type) == (size), #type)
#define AT(type, field, place) _Static_assert(offsetof(type, field) == (place), #type "." #field)

SIZE(amdsmi_asic_info_t, ASIC_SIZE);
AT(amdsmi_asic_info_t, market_name, 0);
AT(amdsmi_asic_info_t, device_id, DEVICE_ID);
AT(amdsmi_asic_info_t, asic_serial, SERIAL);
#ifdef COMPUTE_UNITS
AT(amdsmi_asic_info_t, num_of_compute_units, COMPUTE_UNITS);
AT(amdsmi_asic_info_t, target_graphics_version, PROCESSOR);
#endif
SIZE(amdsmi_power_info_t, POWER_SIZE);
AT(amdsmi_power_info_t, current_socket_power, POWER_CURRENT);
AT(amdsmi_power_info_t, average_socket_power, POWER_AVERAGE);
AT(amdsmi_power_info_t, power_limit, POWER_LIMIT);
SIZE(amdsmi_proc_info_t, PROCESS_SIZE);
AT(amdsmi_proc_info_t, pid, PROCESS_PID);
AT(amdsmi_proc_info_t, memory_usage.vram_mem, PROCESS_VRAM);
#ifdef PROCESS_OCCUPIED
AT(amdsmi_proc_info_t, cu_occupancy, PROCESS_OCCUPIED);
#endif
SIZE(amdsmi_driver_info_t, DRIVER_SIZE);
AT(amdsmi_driver_info_t, driver_version, 0);
SIZE(amdsmi_vbios_info_t, VBIOS_SIZE);
AT(amdsmi_vbios_info_t, version, VBIOS_VERSION);
#ifdef HAS_KFD
AT(amdsmi_kfd_info_t, kfd_id, 0);
AT(amdsmi_kfd_info_t, node_id, 8);
AT(amdsmi_kfd_info_t, current_partition_id, 12);
#endif
#ifdef HAS_ENUMERATION
AT(amdsmi_enumeration_info_t, drm_render, 0);
#endif
AT(amdsmi_engine_usage_t, gfx_activity, 0);
AT(amdsmi_engine_usage_t, umc_activity, 4);
AT(amdsmi_pcie_info_t, pcie_static.max_pcie_width, 0);
AT(amdsmi_pcie_info_t, pcie_static.max_pcie_speed, 4);
AT(amdsmi_clk_info_t, max_clk, 8);
AT(amdsmi_error_count_t, correctable_count, 0);
AT(amdsmi_error_count_t, uncorrectable_count, 8);
_Static_assert(AMDSMI_INIT_AMD_GPUS == 2 && AMDSMI_MEM_TYPE_VRAM == 0 && AMDSMI_TEMP_CURRENT == 0, "numbers");
_Static_assert(AMDSMI_STATUS_OUT_OF_RESOURCES == 15 && AMDSMI_STATUS_DRIVER_NOT_LOADED == 34, "numbers");
