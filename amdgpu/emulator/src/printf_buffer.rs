//! Buffered `printf`: kernels append records to a buffer, which is printed after the dispatch has ended.

use std::collections::HashMap;

use crate::buffer::Buffer;
use crate::hostcall::Output;
use crate::memory::{Access, Range};
use crate::printf::{Words, render, render_message};

/// Buffer size. Kernels check it themselves and drop records that do not fit.
const SIZE: usize = 4 << 20;
/// Offset of the first record, after the write offset and the size.
const FIRST: usize = 8;

#[derive(Debug)]
pub(crate) struct PrintfBuffer {
    buffer: Buffer,
}

impl PrintfBuffer {
    pub fn new() -> PrintfBuffer {
        let mut buffer = Buffer::zeroed(SIZE);
        buffer.write(4, &(SIZE as u32).to_le_bytes());
        PrintfBuffer { buffer }
    }

    pub fn address(&self) -> u64 {
        self.buffer.address()
    }

    pub fn range(&self) -> Range {
        self.buffer.range(Access::ReadWrite)
    }

    /// Prints the records of a finished dispatch.
    pub fn drain(&self, formats: &[String], output: Option<&Output>) {
        let Some(output) = output else { return };
        // SAFETY: the dispatch has ended, so nothing writes to the buffer any longer.
        let bytes = unsafe { std::slice::from_raw_parts(self.buffer.as_mut_ptr(), self.buffer.len()) };
        let used = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
        let records = bytes.get(FIRST..FIRST.saturating_add(used)).unwrap_or(&bytes[FIRST..]);
        print_records(records, formats, &mut |text| output(text));
    }
}

/// Prints a sequence of records. Stops at the first malformed one.
pub fn print_records(mut records: &[u8], formats: &[String], print: &mut dyn FnMut(&[u8])) {
    // Entry format: "0:0:", the hash of the format string, a comma, the format string.
    let by_hash: HashMap<u64, &str> = formats
        .iter()
        .filter_map(|entry| {
            let (head, format) = entry.split_once(',')?;
            Some((u64::from_str_radix(head.rsplit(':').next()?, 16).ok()?, format))
        })
        .collect();
    while let Some((control, _)) = records.split_first_chunk::<4>() {
        let control = u32::from_le_bytes(*control);
        let size = (control >> 2) as usize;
        let Some(record) = records.get(4..size).filter(|_| size > 4) else { return };
        let words: Vec<u64> = record
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
            .collect();
        let constant_format = control & 2 != 0;
        if constant_format {
            let format = words.first().and_then(|hash| by_hash.get(hash));
            if let Some(format) = format {
                print(&render(format.as_bytes(), &mut Words { words: &words[1..] }));
            }
        } else {
            print(&render_message(&words));
        }
        records = &records[size..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(constant: bool, words: &[u64]) -> Vec<u8> {
        let size = 4 + 8 * words.len() as u32;
        let mut bytes = (size << 2 | u32::from(constant) << 1).to_le_bytes().to_vec();
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes
    }

    #[test]
    fn records_print_by_hash_or_by_their_own_format() {
        let formats = ["0:0:ab12,n is %d\n".to_owned()];
        let own = u64::from_le_bytes(*b"x=%d;\0\0\0");
        let records =
            [record(true, &[0xab12, 7]), record(false, &[own, 9]), record(true, &[0xdead, 1])].concat();
        let mut text = Vec::new();
        print_records(&records, &formats, &mut |line| text.extend_from_slice(line));
        assert_eq!(String::from_utf8(text).unwrap(), "n is 7\nx=9;");
    }

    #[test]
    fn damaged_records_end_the_output_quietly() {
        for damaged in [&[0u8; 3][..], &[0; 64], &[0xff; 64], &[17, 0, 0, 0, 1]] {
            print_records(damaged, &[], &mut |_| {});
        }
    }
}
