//! C spelling of Rust types, and the macros that declare the C types of HIP.
//!
//! Every type in a row of the table can be written as C, so that the vendor's compiler can compare it with the vendor's header. A
//! type without a C name is a compile error.

use core::ffi::{c_char, c_int, c_uint, c_void};

/// A type with a C spelling.
pub trait CType {
    /// Declares `declarator` as this type: `<*mut u8>::declare("p")` is `unsigned char *p`.
    fn declare(declarator: &str) -> String;
    /// Like [`CType::declare`], but for the `const`-qualified type.
    fn declare_const(declarator: &str) -> String;
}

/// Joins a type name and a declarator in the usual C style.
pub fn join(type_name: &str, declarator: &str) -> String {
    if declarator.is_empty() { type_name.to_owned() } else { format!("{type_name} {declarator}") }
}

macro_rules! named {
    ($($ty:ty => $c:literal),* $(,)?) => { $(
        impl CType for $ty {
            fn declare(declarator: &str) -> String {
                join($c, declarator)
            }
            fn declare_const(declarator: &str) -> String {
                join(concat!("const ", $c), declarator)
            }
        }
    )* };
}

named! {
    () => "void", c_void => "void", bool => "bool", c_int => "int", c_uint => "unsigned int",
    u16 => "unsigned short", u64 => "uint64_t", i64 => "int64_t", usize => "size_t", f32 => "float",
    c_char => "char",
}

// `c_char` is `i8` on x86-64 and `u8` on aarch64, where `unsigned char` is then also spelled `char`.
#[cfg(target_arch = "x86_64")]
named! { u8 => "unsigned char" }

impl<T: CType> CType for *mut T {
    fn declare(declarator: &str) -> String {
        T::declare(&format!("*{declarator}"))
    }
    fn declare_const(declarator: &str) -> String {
        T::declare(&if declarator.starts_with('*') || declarator.is_empty() {
            format!("*const{declarator}")
        } else {
            format!("*const {declarator}")
        })
    }
}

impl<T: CType> CType for *const T {
    fn declare(declarator: &str) -> String {
        T::declare_const(&format!("*{declarator}"))
    }
    fn declare_const(declarator: &str) -> String {
        T::declare_const(&format!("*const {declarator}"))
    }
}

macro_rules! function_pointers {
    ($(($($arg:ident)*))*) => { $(
        impl<R: CType, $($arg: CType),*> CType for Option<unsafe extern "C" fn($($arg),*) -> R> {
            fn declare(declarator: &str) -> String {
                let arguments = [$($arg::declare("")),*].join(", ");
                R::declare(&format!("(*{declarator})({arguments})"))
            }
            fn declare_const(declarator: &str) -> String {
                Self::declare(&format!("const {declarator}"))
            }
        }
    )* };
}

function_pointers! { (A) (A B) (A B C) }

/// Size, alignment and fields of a struct or union, as Rust lays it out.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The C name.
    pub name: &'static str,
    /// In bytes.
    pub size: usize,
    /// In bytes.
    pub align: usize,
    /// In the order of their declaration.
    pub fields: &'static [Field],
}

/// One field of a [`Layout`].
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The C name.
    pub name: &'static str,
    /// In bytes, from the start of the struct.
    pub offset: usize,
    /// In bytes.
    pub size: usize,
}

/// An enumeration and its constants.
#[derive(Clone, Copy, Debug)]
pub struct Enumeration {
    /// The C name.
    pub name: &'static str,
    /// Names and values, in the header's order.
    pub constants: &'static [(&'static str, u32)],
}

/// Declares opaque structs, used only through pointers.
macro_rules! c_opaque {
    ($($(#[$meta:meta])* $name:ident,)*) => { $(
        $(#[$meta])*
        #[repr(C)]
        #[derive(Debug)]
        pub struct $name {
            _opaque: [u8; 0],
        }
        $crate::ctype::c_name!($name);
    )* };
}

/// Declares C enumerations as transparent integers, so that unknown values are preserved.
macro_rules! c_enums {
    ($($(#[$meta:meta])* $name:ident { $($constant:ident = $value:literal,)* })*) => {
        $(
            $(#[$meta])*
            #[repr(transparent)]
            #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
            pub struct $name(pub u32);

            $(pub const $constant: $name = $name($value);)*

            impl $name {
                /// All constants of the vendor header, in its order; aliases have equal values.
                pub const CONSTANTS: &'static [(&'static str, u32)] = &[$((stringify!($constant), $value)),*];

                /// Returns the first constant with this value.
                pub fn name(self) -> Option<&'static str> {
                    Self::CONSTANTS.iter().find(|(_, value)| *value == self.0).map(|(name, _)| *name)
                }
            }

            impl core::fmt::Debug for $name {
                fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                    match self.name() {
                        Some(name) => f.write_str(name),
                        None => write!(f, "{}({})", stringify!($name), self.0),
                    }
                }
            }

            $crate::ctype::c_name!($name);
        )*

        pub(crate) const ENUMERATIONS: &[$crate::ctype::Enumeration] = &[
            $($crate::ctype::Enumeration { name: stringify!($name), constants: $name::CONSTANTS },)*
        ];
    };
}

/// Declares C structs with public fields and an all-zero default.
macro_rules! c_structs {
    ($($(#[$meta:meta])* $name:ident { $($field:ident: $ty:ty,)* })*) => {
        $(
            $(#[$meta])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug)]
            pub struct $name {
                $(pub $field: $ty,)*
            }

            impl Default for $name {
                /// All bits zero.
                fn default() -> Self {
                    // SAFETY: the fields are integers, floats, raw pointers, optional function pointers, and arrays or structs of
                    // these; all-zero bits are a valid value of each.
                    unsafe { core::mem::zeroed() }
                }
            }

            $crate::ctype::c_name!($name);
        )*

        pub(crate) const LAYOUTS: &[$crate::ctype::Layout] = &[$(
            $crate::ctype::Layout {
                name: stringify!($name),
                size: size_of::<$name>(),
                align: align_of::<$name>(),
                fields: &[$($crate::ctype::Field {
                    name: stringify!($field),
                    offset: core::mem::offset_of!($name, $field),
                    size: $crate::ctype::size_of_field(|it: &$name| &raw const it.$field),
                },)*],
            },
        )*];
    };
}

/// Declares the flag macros of the vendor header.
macro_rules! c_flags {
    ($($name:ident = $value:literal,)*) => {
        $(pub const $name: core::ffi::c_uint = $value;)*
        pub(crate) const FLAGS: &[(&str, u32)] = &[$((stringify!($name), $value),)*];
    };
}

/// Declares that the C name of a type is its Rust name.
macro_rules! c_name {
    ($name:ident) => {
        impl $crate::ctype::CType for $name {
            fn declare(declarator: &str) -> String {
                $crate::ctype::join(stringify!($name), declarator)
            }
            fn declare_const(declarator: &str) -> String {
                $crate::ctype::join(concat!("const ", stringify!($name)), declarator)
            }
        }
    };
}

/// Size of the field that `_project` points to.
pub(crate) const fn size_of_field<S, F>(_project: fn(&S) -> *const F) -> usize {
    size_of::<F>()
}

pub(crate) use {c_enums, c_flags, c_name, c_opaque, c_structs};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_read_like_c() {
        assert_eq!(<*mut *mut c_void>::declare("ptr"), "void **ptr");
        assert_eq!(<*const c_char>::declare("name"), "const char *name");
        assert_eq!(<*const *const c_char>::declare("names"), "const char *const *names");
        assert_eq!(<*const *mut c_void>::declare("p"), "void *const*p");
        assert_eq!(<*mut *const c_char>::declare(""), "const char **");
    }

    #[test]
    fn function_pointers_read_like_c() {
        type Callback = Option<unsafe extern "C" fn(*mut c_void, c_int) -> ()>;
        assert_eq!(Callback::declare("callback"), "void (*callback)(void *, int)");
    }
}
