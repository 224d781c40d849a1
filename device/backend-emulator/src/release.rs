//! Batches of pending frees that wait for earlier work.
//!
//! Frees without a command between them depend on the same work, so they share one batch: a hundred thousand frees after one
//! kernel need only one waiter.

use std::sync::Arc;

use parking_lot::Mutex;

/// Addresses that are freed together; `None` once they have been freed.
pub(crate) type Batch = Arc<Mutex<Option<Vec<u64>>>>;

/// The newest batch, and the submission count when it was started.
#[derive(Debug, Default)]
pub(crate) struct Releases {
    youngest: Mutex<Option<(u64, Batch)>>,
}

impl Releases {
    /// Adds an address to be freed after all submitted work. Returns a batch if it is new; the caller must then free its addresses
    /// once that work has ended.
    pub(crate) fn add(&self, submissions: u64, address: u64) -> Option<Batch> {
        let mut youngest = self.youngest.lock();
        if let Some((at, batch)) = &*youngest
            && *at == submissions
            && let Some(addresses) = &mut *batch.lock()
        {
            addresses.push(address);
            return None;
        }
        let batch = Arc::new(Mutex::new(Some(vec![address])));
        *youngest = Some((submissions, Arc::clone(&batch)));
        Some(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frees_with_nothing_between_them_are_one_batch_until_it_goes() {
        let releases = Releases::default();
        let batch = releases.add(3, 0x1000).unwrap();
        assert!(releases.add(3, 0x2000).is_none());
        let later = releases.add(4, 0x3000).unwrap();
        assert_eq!(batch.lock().take(), Some(vec![0x1000, 0x2000]));
        assert_eq!(later.lock().take(), Some(vec![0x3000]));
        assert!(releases.add(4, 0x4000).is_some(), "a freed batch accepts no more addresses");
    }
}
