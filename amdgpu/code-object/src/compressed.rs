//! Compressed bundles (`CCOB`): a header in one of three versions, then a zlib or zstd stream that expands to a plain bundle.
//!
//! The stored hash is a truncated MD5. It is ignored, as in the compilers' own readers.

use std::io::Read;

use crate::{Error, limits};

/// First bytes of a compressed bundle.
pub(crate) const MAGIC: &[u8; 4] = b"CCOB";

/// Compression method of the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Zlib,
    Zstd,
}

/// The decoded header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub method: Method,
    /// Offset of the payload.
    pub payload: usize,
    /// Bytes from the magic to the end of the payload; not recorded in version 1.
    pub file_size: Option<usize>,
    /// Size of the decompressed payload.
    pub expanded: u64,
}

impl Header {
    /// Reads the header through a reader of (offset, bytes).
    pub(crate) fn read(mut read: impl FnMut(usize, &mut [u8]) -> Result<(), Error>) -> Result<Header, Error> {
        let mut common = [0u8; 8];
        read(0, &mut common)?;
        if &common[..4] != MAGIC {
            return Err(Error::UnknownContainer);
        }
        let version = u16::from_le_bytes([common[4], common[5]]);
        let method = match u16::from_le_bytes([common[6], common[7]]) {
            0 => Method::Zlib,
            1 => Method::Zstd,
            other => return Err(Error::CompressionMethod(other)),
        };
        let mut u32_at = |at: usize| {
            let mut word = [0u8; 4];
            read(at, &mut word).map(|()| u64::from(u32::from_le_bytes(word)))
        };
        let (payload, file_size, expanded) = match version {
            1 => (20, None, u32_at(8)?),
            2 => (24, Some(u32_at(8)?), u32_at(12)?),
            3 => {
                let low_high = |low: u64, high: u64| low | high << 32;
                let file_size = low_high(u32_at(8)?, u32_at(12)?);
                (32, Some(file_size), low_high(u32_at(16)?, u32_at(20)?))
            }
            other => return Err(Error::CompressedVersion(other)),
        };
        if let Some(size) = file_size {
            if size > limits::IMAGE_BYTES {
                return Err(Error::TooLarge {
                    what: "compressed bundle",
                    value: size,
                    limit: limits::IMAGE_BYTES,
                });
            }
            if size < payload as u64 {
                return Err(Error::Malformed { what: "compressed bundle size" });
            }
        }
        if expanded > limits::EXPANDED_BYTES {
            return Err(Error::TooLarge {
                what: "expanded bundle",
                value: expanded,
                limit: limits::EXPANDED_BYTES,
            });
        }
        Ok(Header { method, payload, file_size: file_size.map(|size| size as usize), expanded })
    }

    /// Decompresses the whole payload. Memory grows with the actual output, not with the claimed size.
    pub(crate) fn expand(&self, payload: &[u8]) -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        let limit = self.expanded.saturating_add(1);
        self.reader(payload)?.take(limit).read_to_end(&mut out).map_err(Error::Decompress)?;
        if out.len() as u64 != self.expanded {
            return Err(Error::ExpandedSize { declared: self.expanded, actual: out.len() as u64 });
        }
        Ok(out)
    }

    /// Returns the decompressing stream, for callers that need only its beginning.
    pub(crate) fn reader<'a>(&self, payload: &'a [u8]) -> Result<Box<dyn Read + 'a>, Error> {
        Ok(match self.method {
            Method::Zlib => Box::new(flate2::read::ZlibDecoder::new(payload)),
            Method::Zstd => {
                let decoder = zstd::Decoder::with_buffer(payload).map_err(Error::Decompress)?;
                Box::new(decoder.single_frame())
            }
        })
    }
}
