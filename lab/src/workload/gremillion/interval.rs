//! Student's confidence interval for the mean of independent runs, widened for many at once.
//!
//! Of 21 intervals at 95 %, one is expected to miss. By Bonferroni's inequality, j intervals that
//! each hold with probability 1 − (1 − c)/j hold together with at least c, whatever their
//! dependence.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// A mean and the half-width of its interval.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Interval {
    /// The mean of the runs.
    pub mean: f64,
    /// Half the width of the interval.
    pub half_width: f64,
}

impl Interval {
    /// The interval of `samples` that holds with `confidence` together with `among` − 1 others.
    ///
    /// Infinitely wide for fewer than two samples, since they do not show the spread.
    pub fn of(samples: &[f64], confidence: f64, among: usize) -> Self {
        let count = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / count;
        let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
        let half_width = match StudentsT::new(0.0, 1.0, count - 1.0) {
            Ok(student) => {
                let tail = (1.0 - confidence) / among.max(1) as f64 / 2.0;
                student.inverse_cdf(1.0 - tail) * (squares / (count - 1.0) / count).sqrt()
            }
            Err(_) => f64::INFINITY,
        };
        Self { mean, half_width }
    }

    /// Whether the interval holds `value`.
    pub fn contains(&self, value: f64) -> bool {
        (value - self.mean).abs() <= self.half_width
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// t for 29 degrees of freedom: 2.0452 at 95 % (any table), 3.3 and more for 21 at once.
    #[test]
    fn the_width_is_students() {
        let samples: Vec<f64> = (0..30).map(f64::from).collect();
        let error = (samples.iter().map(|x| (x - 14.5).powi(2)).sum::<f64>() / 29.0 / 30.0).sqrt();
        let one = Interval::of(&samples, 0.95, 1);
        assert_eq!(one.mean, 14.5);
        assert!((one.half_width / error - 2.0452).abs() < 1e-4);
        let many = Interval::of(&samples, 0.95, 21);
        assert!(
            (3.28..3.38).contains(&(many.half_width / error)),
            "{many:?}"
        );
        assert!(one.contains(14.5) && !one.contains(14.5 + 1.01 * one.half_width));
    }

    #[test]
    fn one_run_says_nothing_of_the_spread() {
        assert_eq!(Interval::of(&[1.0], 0.95, 1).half_width, f64::INFINITY);
    }
}
