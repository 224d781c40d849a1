//! Tables of functions of a vendor's library, looked up by name when it is loaded.

/// Declares `Library`, a struct with one field per function, and `Library::look_up`. The error is the name of the first required
/// function that the library lacks.
macro_rules! library_functions {
    (
        required { $($required:ident($($required_argument:ty),*);)* }
        optional { $($optional:ident($($optional_argument:ty),*);)* }
    ) => {
        /// The loaded library.
        #[derive(Debug)]
        #[allow(non_snake_case, reason = "named as in the vendor's header")]
        pub struct Library {
            $(pub $required: unsafe extern "C" fn($($required_argument),*) -> Status,)*
            $(pub $optional: Option<unsafe extern "C" fn($($optional_argument),*) -> Status>,)*
        }

        impl Library {
            /// # Safety
            /// The library must be the vendor's: its functions must have the types given here.
            unsafe fn look_up(library: &libloading::Library) -> Result<Library, &'static str> {
                // SAFETY: the caller's promise.
                unsafe {
                    Ok(Library {
                        $($required: *library
                            .get(concat!(stringify!($required), "\0").as_bytes())
                            .map_err(|_| stringify!($required))?,)*
                        $($optional: library
                            .get(concat!(stringify!($optional), "\0").as_bytes())
                            .ok()
                            .map(|symbol| *symbol),)*
                    })
                }
            }
        }
    };
}

pub(crate) use library_functions;
