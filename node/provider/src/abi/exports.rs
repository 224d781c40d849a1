//! Exported functions that both generations of the interface have, under different names.

/// Defines the exported functions that do the same in both generations. The name of each is given; where a function takes a structure
/// of its generation, that type follows in parentheses. `processes_of` must be in scope: it reads the structure that names processes.
macro_rules! exports {
    (
        init: $init:ident,
        device_count: $device_count:ident,
        all_devices: $all_devices:ident($basic:ty),
        snapshot: $snapshot:ident($processes:ty),
        resume: $resume:ident($resumed:ty),
        process_information: $process_information:ident,
        device_metrics: $device_metrics:ident,
        vendor_mounts: $vendor_mounts:ident,
        log_callback: $log_callback:ident,
    ) => {
        /// Initialises the library and discovers the devices. Further calls do nothing.
        #[unsafe(no_mangle)]
        pub extern "C" fn $init() -> c_int {
            respond(super::open)
        }

        /// Writes the number of devices.
        ///
        /// # Safety
        ///
        /// The pointer is null or valid for writing one number.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $device_count(count: *mut usize) -> c_int {
            // SAFETY: the caller upholds the safety contract.
            respond(|| unsafe { super::device_count(count) })
        }

        /// Writes a description of each device, and their number.
        ///
        /// # Safety
        ///
        /// `devices` is null or valid for writing `most` elements, `count` is null or valid for writing one number.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $all_devices(
            devices: *mut ExtendedDeviceInfo<$basic>,
            most: usize,
            count: *mut usize,
        ) -> c_int {
            // SAFETY: the caller upholds the safety contract.
            respond(|| unsafe { super::all_devices(devices, most, count) })
        }

        /// Stops processes and saves their device state.
        ///
        /// # Safety
        ///
        /// The pointer is null or points to a structure that names processes.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $snapshot(processes: *const $processes) -> c_int {
            // SAFETY: the caller upholds the safety contract.
            respond(|| unsafe { processes_of(processes) }.and_then(|selection| node()?.snapshot(&selection)))
        }

        /// Restores the device state of processes and continues them.
        ///
        /// # Safety
        ///
        /// The pointer is null or points to a structure that names processes.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $resume(processes: *const $resumed) -> c_int {
            // SAFETY: the caller upholds the safety contract.
            respond(|| unsafe { processes_of(processes) }.and_then(|selection| node()?.resume(&selection)))
        }

        /// Writes what each process uses of each device.
        ///
        /// # Safety
        ///
        /// `infos` is null or valid for writing `most` elements; `count` is null or valid for writing one number.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $process_information(
            infos: *mut $crate::abi::shared::ProcessInformation,
            most: usize,
            count: *mut usize,
        ) -> c_int {
            // SAFETY: the caller upholds the safety contract.
            respond(|| unsafe { super::process_information(infos, most, count) })
        }

        /// Writes the metrics of the named devices.
        ///
        /// # Safety
        ///
        /// `names` is null or points to `count` pointers, each null or a C string; `metrics` is null or valid for writing `count` elements.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $device_metrics(
            names: *const *const c_char,
            count: usize,
            metrics: *mut $crate::abi::shared::DeviceMetrics,
        ) -> c_int {
            // SAFETY: the caller upholds the safety contract.
            respond(|| unsafe { super::device_metrics(names, count, metrics) })
        }

        /// Writes the paths that a container needs mounted.
        ///
        /// # Safety
        ///
        /// `mounts` is null or valid for writing `most` elements; `count` is null or valid for writing one number.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $vendor_mounts(
            mounts: *mut $crate::abi::shared::MountPath,
            most: usize,
            count: *mut usize,
        ) -> c_int {
            // SAFETY: the caller upholds the safety contract.
            respond(|| unsafe { super::vendor_mounts(mounts, most, count) })
        }

        /// Registers a log callback; null removes it.
        #[unsafe(no_mangle)]
        pub extern "C" fn $log_callback(callback: Option<$crate::log::Callback>) -> c_int {
            $crate::log::register(callback);
            $crate::error::SUCCESS
        }
    };
}

pub(super) use exports;
