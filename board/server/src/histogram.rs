//! Histogram of durations.

/// Upper bounds of the histogram buckets, in seconds.
pub const BOUNDS: [f64; 10] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 600.0];

/// Histogram of durations.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// Number of durations up to each bound.
    pub buckets: [u64; BOUNDS.len()],
    pub count: u64,
    pub sum: f64,
}

impl Histogram {
    /// Adds a duration.
    pub fn add(&mut self, seconds: f64) {
        for (bucket, bound) in self.buckets.iter_mut().zip(BOUNDS) {
            *bucket += u64::from(seconds <= bound);
        }
        self.count += 1;
        self.sum += seconds;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_count_everything_up_to_their_bound() {
        let mut histogram = Histogram::default();
        histogram.add(0.2);
        histogram.add(0.9);
        histogram.add(1e6);
        assert_eq!(histogram.buckets[..4], [0, 1, 1, 2]);
        assert_eq!((histogram.count, histogram.buckets[9]), (3, 2));
    }
}
