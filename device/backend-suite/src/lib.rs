//! Conformance tests that every back end must pass.
//!
//! `backend_suite::device_suite!(make)` turns each function here into a test; `make` opens a new device whose GPU 0 can run the
//! suite's gfx942 kernels. All waits have a timeout, so that a back end that never completes fails instead of hanging.

#![warn(missing_docs)]

mod counting;
mod event;
mod fault;
mod memory;
mod module;
mod region;
mod rig;
mod snapshot;
mod span;
mod stream;
mod value_wait;
mod virtual_memory;

pub use counting::*;
pub use event::*;
pub use fault::*;
pub use memory::*;
pub use module::*;
pub use region::*;
pub use rig::Rig;
pub use snapshot::*;
pub use span::*;
pub use stream::*;
pub use value_wait::*;
pub use virtual_memory::*;

/// The code object of `kernels/suite.hip`.
pub const KERNELS: &[u8] = include_bytes!("../kernels/suite.gfx942.co");

/// Generates a test for every function of the suite.
///
/// `device_suite!(each run)` calls `run` with the name of the test and its function instead, for back ends whose tests must run
/// in separate processes.
#[macro_export]
macro_rules! device_suite {
    (each $run:path) => {
        $crate::device_suite! { @list @each $run; }
    };
    ($make:expr) => {
        $crate::device_suite! { @list @tests $make; }
    };
    (@list @$kind:ident $argument:tt $($rest:tt)*) => {
        $crate::device_suite! { @$kind $argument $($rest)*
            copies_fills_and_kernels_of_a_stream_keep_their_order
            a_read_waits_for_the_kernel_before_it
            the_null_stream_waits_for_blocking_streams_and_they_for_it
            a_non_blocking_stream_does_not_wait_for_the_null_stream
            an_event_orders_two_streams
            elapsed_time_covers_the_work_between_two_events
            elapsed_time_of_unfinished_or_unrecorded_events_is_refused
            a_freed_range_stays_until_its_work_has_ended
            an_address_can_be_used_again_after_it_was_freed
            a_wild_write_is_a_sticky_fault_told_once
            reset_forgets_a_fault
            a_stream_waits_for_its_host_function
            regions_of_every_form_touch_only_their_bytes
            fills_of_every_form_repeat_their_element
            regions_beyond_memory_or_without_sense_are_refused
            a_direct_write_lands_in_stream_order
            synchronize_calls_back_inline_when_idle
            memory_beyond_the_quota_is_refused
            invalid_addresses_and_handles_are_refused
            globals_are_shared_between_kernels_and_copies
            launches_before_the_end_of_their_module_are_made
            launch_events_enclose_the_kernel
            many_small_commands_all_run
            an_unordered_write_waits_for_no_stream_and_the_next_kernel_sees_it
            runs_written_unordered_change_only_their_bytes
            memory_is_never_put_where_something_lies
            a_stream_waits_for_a_value_that_another_writes
            waits_for_values_compare_as_asked
            commands_are_timed_while_someone_wants_to_know
            what_kernels_execute_is_counted_while_it_is_asked_for_or_refused
            mapped_memory_is_zero_and_works_like_any_other
            neighbouring_mappings_are_one_range_for_copies
            a_write_to_a_mapping_for_reading_is_a_fault
            a_mapping_without_access_is_a_fault_for_kernels
            physical_memory_lives_as_long_as_its_mapping
            invalid_mappings_are_refused
            shared_memory_is_the_same_under_another_number
            what_there_is_is_told_while_nothing_runs_or_refused
        }
    };
    (@each $run:path; $($name:ident)*) => { $(
        #[test]
        fn $name() {
            $run(stringify!($name), $crate::$name);
        }
    )* };
    (@tests $make:expr; $($name:ident)*) => { $(
        #[test]
        fn $name() {
            $crate::$name($crate::Rig::new($make));
        }
    )* };
}
