//! Samples of repeated measurements.

/// Durations of a repeated operation, in seconds.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    values: Vec<f64>,
}

impl Sample {
    pub fn push(&mut self, seconds: f64) {
        self.values.push(seconds);
    }

    /// The shortest time: without interference.
    pub fn best(&self) -> f64 {
        self.values.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub fn median(&self) -> f64 {
        median(self.values.clone())
    }
}

/// Two operations measured alternately.
#[derive(Debug, Clone, Default)]
pub struct Pair {
    pub ours: Sample,
    pub reference: Sample,
}

impl Pair {
    pub fn push(&mut self, ours: f64, reference: f64) {
        self.ours.push(ours);
        self.reference.push(reference);
    }

    /// The median ratio of our time to the reference's over all rounds; both see the same conditions in a round.
    pub fn ratio(&self) -> f64 {
        median(self.ours.values.iter().zip(&self.reference.values).map(|(a, b)| a / b).collect())
    }

    /// The ratio of the best times.
    pub fn best_ratio(&self) -> f64 {
        self.ours.best() / self.reference.best()
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_the_mean_of_the_middle_two() {
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(vec![9.0, 1.0, 2.0]), 2.0);
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn a_disturbance_that_strikes_both_leaves_the_ratio_alone() {
        let mut pair = Pair::default();
        for slowdown in [1.0, 5.0, 1.0, 3.0, 1.0] {
            pair.push(2.0 * slowdown, slowdown);
        }
        assert_eq!(pair.ratio(), 2.0);
        assert_eq!(pair.best_ratio(), 2.0);
    }
}
