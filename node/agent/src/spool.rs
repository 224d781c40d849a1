//! On-disk queue of metrics that the receiver has not accepted yet: one file per batch, oldest first, bounded in size.

use std::collections::VecDeque;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::state::private;

/// The batches of one folder.
#[derive(Debug)]
pub(crate) struct Spool {
    folder: PathBuf,
    limit: u64,
    /// Number and size of each batch, oldest first.
    batches: VecDeque<(u64, u64)>,
    next: u64,
    dropped: u64,
}

impl Spool {
    /// Opens a spool with the batches that an earlier agent left.
    pub(crate) fn open(folder: &Path, limit: u64) -> std::io::Result<Spool> {
        std::fs::create_dir_all(folder)?;
        let mut batches: Vec<(u64, u64)> = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(".lines")?.parse().ok());
            match number {
                Some(number) => batches.push((number, entry.metadata()?.len())),
                // An incomplete batch, from an agent that was killed while it wrote.
                None => drop(std::fs::remove_file(entry.path())),
            }
        }
        batches.sort_unstable();
        let next = batches.last().map_or(0, |(number, _)| number + 1);
        Ok(Spool { folder: folder.to_owned(), limit, batches: batches.into(), next, dropped: 0 })
    }

    /// Adds a batch. The oldest batches are dropped to make room.
    pub(crate) fn add(&mut self, lines: &str) -> std::io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        let number = self.next;
        self.next += 1;
        let beside = self.folder.join(format!("{number}.new"));
        private(&beside, true)?.write_all(lines.as_bytes())?;
        std::fs::rename(&beside, self.path(number))?;
        self.batches.push_back((number, lines.len() as u64));
        while self.bytes() > self.limit && self.batches.len() > 1 {
            if let Some((oldest, bytes)) = self.batches.pop_front() {
                let _ = std::fs::remove_file(self.path(oldest));
                self.dropped += bytes;
            }
        }
        Ok(())
    }

    /// Returns the number and text of the oldest batch.
    pub(crate) fn oldest(&mut self) -> Option<(u64, String)> {
        while let Some((number, _)) = self.batches.front().copied() {
            match std::fs::read_to_string(self.path(number)) {
                Ok(lines) => return Some((number, lines)),
                // The file was removed or is not UTF-8: skip it.
                Err(_) => self.done(number),
            }
        }
        None
    }

    /// Removes a batch that the receiver has accepted or permanently rejected.
    pub(crate) fn done(&mut self, number: u64) {
        self.batches.retain(|(other, _)| *other != number);
        let _ = std::fs::remove_file(self.path(number));
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.batches.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Returns the bytes dropped to make room since the last call.
    pub(crate) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number}.lines"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_survive_come_in_order_and_the_oldest_make_room() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(folder.path(), 10).unwrap();
        for batch in ["aaaa", "bbbb", "cccc"] {
            spool.add(batch).unwrap();
        }
        assert_eq!((spool.bytes(), spool.take_dropped(), spool.take_dropped()), (8, 4, 0));
        std::fs::write(folder.path().join("9.new"), "half").unwrap();
        drop(spool);
        let mut spool = Spool::open(folder.path(), 10).unwrap();
        let (number, lines) = spool.oldest().unwrap();
        assert_eq!(lines, "bbbb");
        spool.done(number);
        assert_eq!(spool.oldest().unwrap().1, "cccc");
        spool.add("larger than the limit").unwrap();
        assert_eq!(spool.oldest().unwrap().1, "larger than the limit");
        assert_eq!(spool.take_dropped(), 4);
        assert!(!folder.path().join("9.new").exists());
    }
}
