//! Notifies event streams of new events of a submission. The events themselves are in the database.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::sync::watch;

/// One channel per watched submission.
#[derive(Debug, Default)]
pub struct Hub {
    channels: Mutex<HashMap<String, watch::Sender<i64>>>,
}

impl Hub {
    /// Notifies the watchers of a submission of the number of its latest event.
    pub fn tell(&self, id: &str, number: i64) {
        let mut channels = self.channels.lock();
        let Some(channel) = channels.get(id) else { return };
        // Remove the channel when no receiver is left.
        if channel.send(number).is_err() {
            channels.remove(id);
        }
    }

    /// Subscribes to a submission.
    pub fn watch(&self, id: &str) -> watch::Receiver<i64> {
        let mut channels = self.channels.lock();
        channels.retain(|_, channel| !channel.is_closed());
        channels.entry(id.to_owned()).or_insert_with(|| watch::Sender::new(0)).subscribe()
    }

    /// Returns the number of watched submissions.
    pub fn watched(&self) -> usize {
        self.channels.lock().values().filter(|channel| !channel.is_closed()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watchers_are_told_and_forgotten_when_they_leave() {
        let hub = Hub::default();
        let mut one = hub.watch("a");
        hub.tell("a", 3);
        assert!(one.has_changed().unwrap());
        assert_eq!(*one.borrow_and_update(), 3);
        drop(one);
        assert_eq!(hub.watched(), 0);
        hub.tell("a", 4);
        assert!(hub.channels.lock().is_empty());
    }
}
