//! Enumerations whose values have one name, in JSON, in the database and on the command line.

/// Declares an enumeration with the name of each value.
macro_rules! named {
    ($(#[doc = $about:literal])* pub enum $type:ident { $($(#[$doc:meta])* $value:ident = $name:literal,)* }) => {
        $(#[doc = $about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $type {
            $($(#[$doc])* #[serde(rename = $name)] $value,)*
        }

        impl $type {
            /// All values.
            pub const ALL: &[$type] = &[$($type::$value,)*];

            /// Returns the name of the value.
            pub const fn name(self) -> &'static str {
                match self {
                    $($type::$value => $name,)*
                }
            }

            /// Finds a value by its name.
            pub fn from_name(name: &str) -> Option<$type> {
                $type::ALL.iter().copied().find(|value| value.name() == name)
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.pad(self.name())
            }
        }

        // Written out, because the derive does not see names that come from a macro.
        impl utoipa::PartialSchema for $type {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .description(Some([$($about),*].concat().trim()))
                    .enum_values(Some($type::ALL.iter().map(|value| value.name())))
                    .into()
            }
        }

        impl utoipa::ToSchema for $type {}
    };
}

pub(crate) use named;
