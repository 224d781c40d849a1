//! Statistics of time samples.

/// Summary of samples.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Summary {
    pub median: f64,
    /// 95 % confidence interval of the median from order statistics, valid for any distribution.
    pub low: f64,
    pub high: f64,
    pub mean: f64,
    pub min: f64,
    pub p95: f64,
    /// Samples more than five standard deviations from the median, with the deviation estimated from the median absolute deviation.
    pub outliers: usize,
}

/// Summarises samples; `None` without samples.
pub(crate) fn summary(samples: &[f64]) -> Option<Summary> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (&min, &last) = (sorted.first()?, sorted.last()?);
    let count = sorted.len();
    let median = middle(&sorted);
    // Binomial ranks of the median, by the normal approximation. With few samples the interval covers all of them.
    let half = 0.98 * (count as f64).sqrt();
    let low = ((count as f64 / 2.0 - half).floor().max(0.0) as usize).min(count - 1);
    let high = ((count as f64 / 2.0 + half).ceil() as usize).min(count - 1);
    let mut deviations: Vec<f64> = sorted.iter().map(|sample| (sample - median).abs()).collect();
    deviations.sort_by(f64::total_cmp);
    let spread = 1.4826 * middle(&deviations);
    let outliers = if spread > 0.0 {
        deviations.iter().filter(|deviation| **deviation > 5.0 * spread).count()
    } else {
        0
    };
    Some(Summary {
        median,
        low: sorted[low],
        high: sorted[high],
        mean: sorted.iter().sum::<f64>() / count as f64,
        min,
        p95: sorted.get((count * 95).div_ceil(100).saturating_sub(1)).copied().unwrap_or(last),
        outliers,
    })
}

/// Returns the standard error of the mean, relative to the mean.
pub(crate) fn relative_error(samples: &[f64]) -> f64 {
    let count = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / count;
    let variance = samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    if mean > 0.0 { (variance / count).sqrt() / mean } else { 0.0 }
}

/// Returns the geometric mean; `None` without values, or if one has no logarithm.
pub(crate) fn geometric_mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let logarithms: Vec<f64> = values.map(f64::ln).collect();
    let mean = logarithms.iter().sum::<f64>() / logarithms.len() as f64;
    mean.is_finite().then(|| mean.exp())
}

/// Returns the 95 % confidence interval of the geometric mean of medians, given each median and its own 95 % interval; `None` without
/// values, or if a median has no logarithm.
///
/// The mean of logarithms is a linear combination of independent estimates, so its distance to either end of the interval is the root of
/// the sum of their squared distances, divided by their number (method of variance estimates recovery, Zou and Donner 2008).
pub(crate) fn geometric_interval(medians: &[(f64, f64, f64)]) -> Option<(f64, f64)> {
    let mean = geometric_mean(medians.iter().map(|(median, ..)| *median))?;
    let distance = |end: fn(&(f64, f64, f64)) -> f64| {
        let squares = medians.iter().map(|one| (one.0.ln() - end(one).ln()).powi(2));
        squares.sum::<f64>().sqrt() / medians.len() as f64
    };
    let (low, high) = (mean * (-distance(|one| one.1)).exp(), mean * distance(|one| one.2).exp());
    (low.is_finite() && high.is_finite()).then_some((low, high))
}

fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { (sorted[half - 1] + sorted[half]) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_holds_what_the_samples_say() {
        let samples: Vec<f64> = (1..=100).map(f64::from).collect();
        let found = summary(&samples).unwrap();
        assert_eq!((found.median, found.min, found.p95, found.mean), (50.5, 1.0, 95.0, 50.5));
        assert!(found.low < 50.5 && found.high > 50.5 && found.low > 35.0 && found.high < 65.0);
        assert_eq!(found.outliers, 0);
        assert_eq!(summary(&[]), None);
    }

    #[test]
    fn one_sample_far_out_is_counted_and_moves_no_median() {
        let mut samples = vec![1.0, 1.01, 0.99, 1.02, 0.98, 1.0, 1.01];
        let before = summary(&samples).unwrap();
        samples.push(50.0);
        let after = summary(&samples).unwrap();
        assert_eq!((before.outliers, after.outliers), (0, 1));
        assert!((after.median - before.median).abs() < 0.01);
    }

    #[test]
    fn the_interval_of_one_case_is_its_own_and_that_of_more_is_narrower() {
        let near = |found: Option<(f64, f64)>, low: f64, high: f64| {
            let (found_low, found_high) = found.unwrap();
            assert!((found_low - low).abs() < 1e-9 && (found_high - high).abs() < 1e-9, "{found:?}");
        };
        near(geometric_interval(&[(2.0, 1.8, 2.5)]), 1.8, 2.5);
        // Four equal cases have half the relative error of each.
        near(geometric_interval(&[(4.0, 1.0, 16.0); 4]), 2.0, 8.0);
        assert_eq!(geometric_interval(&[]), None);
        assert_eq!(geometric_interval(&[(0.0, 0.0, 2.0)]), None);
        assert_eq!(geometric_interval(&[(1.0, 0.0, 2.0)]).unwrap().0, 0.0);
    }

    #[test]
    fn the_geometric_mean_of_ratios_is_their_ratio() {
        let mean = geometric_mean([1.0, 4.0, 16.0].into_iter()).unwrap();
        assert!((mean - 4.0).abs() < 1e-12);
        assert_eq!(geometric_mean([].into_iter()), None);
        assert_eq!(geometric_mean([0.0].into_iter()), None);
    }
}
