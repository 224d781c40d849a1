//! Little-endian codec of frame fields: how each field type is encoded and decoded. Never allocates more memory than the received
//! bytes justify.

#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use crate::WireError;

/// Destination of encoded bytes: a vector, or a ring buffer.
pub trait Sink {
    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Reads fields from the front of a payload.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// The unread bytes: after the fields, the body.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Takes the next `bytes` bytes of `what`.
    #[inline]
    pub fn take(&mut self, bytes: usize, what: &'static str) -> Result<&'a [u8], WireError> {
        match self.rest.split_at_checked(bytes) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(WireError::Truncated { what, needed: bytes as u64, found: self.rest.len() as u64 }),
        }
    }

    /// Fails unless everything has been read.
    pub fn finish(&self, what: &'static str) -> Result<(), WireError> {
        match self.rest.len() {
            0 => Ok(()),
            extra => Err(WireError::Trailing { what, extra: extra as u64 }),
        }
    }
}

/// A type that can be a field of a message.
pub trait Field: Sized {
    /// Minimum size of any value; limits the element count that a list may claim.
    const MIN_BYTES: usize;
    /// Size of every value, if constant.
    const FIXED_BYTES: Option<usize>;

    /// Size of the encoded value in bytes.
    fn size(&self) -> usize;
    /// Encodes the value.
    fn put(&self, sink: &mut impl Sink);
    /// Decodes a value.
    fn take(reader: &mut Reader<'_>) -> Result<Self, WireError>;
}

/// Length-prefixed bytes in a field; bulk data uses a body instead.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Bytes(pub Vec<u8>);

macro_rules! number_fields {
    ($($type:ty),*) => {$(
        impl Field for $type {
            const MIN_BYTES: usize = size_of::<$type>();
            const FIXED_BYTES: Option<usize> = Some(size_of::<$type>());

            #[inline]
            fn size(&self) -> usize {
                size_of::<$type>()
            }

            #[inline]
            fn put(&self, sink: &mut impl Sink) {
                sink.put(&self.to_le_bytes());
            }

            #[inline]
            fn take(reader: &mut Reader<'_>) -> Result<Self, WireError> {
                let mut bytes = [0; size_of::<$type>()];
                bytes.copy_from_slice(reader.take(size_of::<$type>(), stringify!($type))?);
                Ok(<$type>::from_le_bytes(bytes))
            }
        }
    )*};
}

number_fields!(u8, u16, u32, u64, i32, f32);

impl Field for bool {
    const MIN_BYTES: usize = 1;
    const FIXED_BYTES: Option<usize> = Some(1);

    fn size(&self) -> usize {
        1
    }

    fn put(&self, sink: &mut impl Sink) {
        sink.put(&[u8::from(*self)]);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        match u8::take(reader)? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(WireError::Value { what: "bool", value: value.into() }),
        }
    }
}

impl Field for Bytes {
    const MIN_BYTES: usize = 4;
    const FIXED_BYTES: Option<usize> = None;

    fn size(&self) -> usize {
        4 + self.0.len()
    }

    fn put(&self, sink: &mut impl Sink) {
        length(self.0.len()).put(sink);
        sink.put(&self.0);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let bytes = u32::take(reader)? as usize;
        Ok(Bytes(reader.take(bytes, "bytes")?.to_vec()))
    }
}

impl Field for String {
    const MIN_BYTES: usize = 4;
    const FIXED_BYTES: Option<usize> = None;

    fn size(&self) -> usize {
        4 + self.len()
    }

    fn put(&self, sink: &mut impl Sink) {
        length(self.len()).put(sink);
        sink.put(self.as_bytes());
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let bytes = u32::take(reader)? as usize;
        let text = std::str::from_utf8(reader.take(bytes, "string")?);
        Ok(text.map_err(|_| WireError::Text { what: "string" })?.to_owned())
    }
}

impl<T: Field> Field for Vec<T> {
    const MIN_BYTES: usize = 4;
    const FIXED_BYTES: Option<usize> = None;

    fn size(&self) -> usize {
        4 + self.iter().map(Field::size).sum::<usize>()
    }

    fn put(&self, sink: &mut impl Sink) {
        length(self.len()).put(sink);
        for item in self {
            item.put(sink);
        }
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let count = u32::take(reader)? as usize;
        // Every item takes bytes, so a count that the payload cannot hold is rejected before memory is allocated.
        let needed = count as u64 * const { if T::MIN_BYTES == 0 { 1 } else { T::MIN_BYTES as u64 } };
        let found = reader.rest.len() as u64;
        if needed > found {
            return Err(WireError::Truncated { what: "list", needed, found });
        }
        let mut items = Vec::with_capacity(count.min(1024));
        for _ in 0..count {
            items.push(T::take(reader)?);
        }
        Ok(items)
    }
}

impl<T: Field + Copy + Default, const N: usize> Field for [T; N] {
    const MIN_BYTES: usize = N * T::MIN_BYTES;
    const FIXED_BYTES: Option<usize> = match T::FIXED_BYTES {
        Some(bytes) => Some(N * bytes),
        None => None,
    };

    #[inline]
    fn size(&self) -> usize {
        self.iter().map(Field::size).sum()
    }

    #[inline]
    fn put(&self, sink: &mut impl Sink) {
        for item in self {
            item.put(sink);
        }
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let mut items = [T::default(); N];
        for item in &mut items {
            *item = T::take(reader)?;
        }
        Ok(items)
    }
}

impl<A: Field, B: Field> Field for (A, B) {
    const MIN_BYTES: usize = A::MIN_BYTES + B::MIN_BYTES;
    const FIXED_BYTES: Option<usize> = match (A::FIXED_BYTES, B::FIXED_BYTES) {
        (Some(a), Some(b)) => Some(a + b),
        _ => None,
    };

    fn size(&self) -> usize {
        self.0.size() + self.1.size()
    }

    fn put(&self, sink: &mut impl Sink) {
        self.0.put(sink);
        self.1.put(sink);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok((A::take(reader)?, B::take(reader)?))
    }
}

/// Defines a struct whose fields are all [`Field`]s, and implements [`Field`] for it.
macro_rules! record {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$fmeta:meta])* $field:ident : $type:ty),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Debug, Default)]
        #[allow(missing_docs, reason = "names say enough for many fields, and for replies, which share the name of their operation")]
        pub struct $name { $($(#[$fmeta])* pub $field: $type),* }

        impl $crate::codec::Field for $name {
            const MIN_BYTES: usize = 0 $(+ <$type as $crate::codec::Field>::MIN_BYTES)*;
            const FIXED_BYTES: Option<usize> = {
                #[allow(unused_mut, reason = "a record may have no fields")]
                let mut total = Some(0);
                $(total = match (total, <$type as $crate::codec::Field>::FIXED_BYTES) {
                    (Some(a), Some(b)) => Some(a + b),
                    _ => None,
                };)*
                total
            };

            #[inline]
            fn size(&self) -> usize {
                0 $(+ $crate::codec::Field::size(&self.$field))*
            }

            #[inline]
            #[allow(unused_variables, reason = "a record may have no fields")]
            fn put(&self, sink: &mut impl $crate::codec::Sink) {
                $($crate::codec::Field::put(&self.$field, sink);)*
            }

            #[inline]
            #[allow(unused_variables, reason = "a record may have no fields")]
            fn take(reader: &mut $crate::codec::Reader<'_>) -> Result<Self, $crate::WireError> {
                Ok($name { $($field: $crate::codec::Field::take(reader)?),* })
            }
        }
    };
}
pub(crate) use record;

/// Encodes a length. Lengths fit into 32 bits because the fields of a frame are limited to far less. A longer one would exceed
/// the frame limit and be rejected anyway.
pub(crate) fn length(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
