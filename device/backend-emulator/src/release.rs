//! Memory that was freed and waits for the work before it.
//!
//! Frees with nothing queued between them wait for the same work, so they wait together: a hundred thousand of them behind one
//! kernel are one thing that waits.

use std::sync::Arc;

use parking_lot::Mutex;

/// Addresses that may go together; `None` once they have gone.
pub(crate) type Batch = Arc<Mutex<Option<Vec<u64>>>>;

/// The youngest batch, and how much had been submitted when it was begun.
#[derive(Debug, Default)]
pub(crate) struct Releases {
    youngest: Mutex<Option<(u64, Batch)>>,
}

impl Releases {
    /// Adds an address that is to go after all that was submitted. A batch that is handed out is new, and somebody must wait for it.
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
        assert!(releases.add(4, 0x4000).is_some(), "what has gone takes nothing along any more");
    }
}
