//! Maps data to positions along an axis, and chooses the ticks.
//!
//! Ticks of a linear axis are multiples of 1, 2 or 5 times a power of ten. Ticks of a logarithmic
//! axis are powers of ten, or 1, 2 and 5 times these if the axis spans at most about two decades.

use super::{Axis, Scale};

/// The lowest and the highest value of an axis with at least one value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Range {
    scale: Scale,
    /// Both are logarithms on a logarithmic scale.
    low: f64,
    high: f64,
}

impl Range {
    /// The range of all values that the axis can show.
    pub(super) fn of(axis: &Axis, values: impl IntoIterator<Item = f64>) -> Self {
        let placed = |value: f64| place(axis.scale, value);
        let all = values.into_iter().chain(axis.include).filter_map(placed);
        let (low, high) = all.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        let (low, high) = match (low <= high, low < high) {
            (false, _) => (0.0, 1.0),
            (true, false) => (low - 0.5, high + 0.5),
            (true, true) => (low, high),
        };
        let scale = axis.scale;
        Self { scale, low, high }.widened()
    }

    /// Extends a linear range to the next ticks outside, and a logarithmic range by a margin.
    fn widened(self) -> Self {
        let (low, high) = match self.scale {
            Scale::Linear => {
                let step = step(self.high - self.low);
                let (low, high) = (self.low / step, self.high / step);
                // A value that differs from a tick only by rounding needs no further tick.
                ((low + 1e-9).floor() * step, (high - 1e-9).ceil() * step)
            }
            Scale::Log => {
                let air = 0.02 * (self.high - self.low);
                (self.low - air, self.high + air)
            }
        };
        Self { low, high, ..self }
    }

    /// The position of a value, from 0 at the low end to 1 at the high end. `None` if the axis
    /// cannot show it.
    pub(super) fn share(self, value: f64) -> Option<f64> {
        place(self.scale, value).map(|at| (at - self.low) / (self.high - self.low))
    }

    /// The values of the ticks, in order.
    pub(super) fn ticks(self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => self.linear_ticks(),
            Scale::Log => self.log_ticks(),
        }
    }

    fn linear_ticks(self) -> Vec<f64> {
        let step = step(self.high - self.low);
        let first = (self.low / step).round();
        let count = ((self.high - self.low) / step).round();
        (0..=count as u32)
            .map(|index| (first + f64::from(index)) * step)
            .collect()
    }

    fn log_ticks(self) -> Vec<f64> {
        let decades = self.high - self.low;
        let every = (decades / MOST_TICKS).ceil().max(1.0) as i32;
        let within: &[f64] = if decades < FINE_DECADES {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let (first, last) = (self.low.floor() as i32, self.high.ceil() as i32);
        (first..=last)
            .filter(|power| power.rem_euclid(every) == 0)
            .flat_map(|power| within.iter().map(move |times| times * 10_f64.powi(power)))
            .filter(|&tick| self.share(tick).is_some_and(|at| (0.0..=1.0).contains(&at)))
            .collect()
    }
}

const MOST_TICKS: f64 = 8.0;

/// An axis that spans less has three ticks per decade, which are at most [`MOST_TICKS`].
const FINE_DECADES: f64 = 2.3;

fn place(scale: Scale, value: f64) -> Option<f64> {
    let at = match scale {
        Scale::Linear => value,
        Scale::Log => value.log10(),
    };
    at.is_finite().then_some(at)
}

/// The distance between ticks: 1, 2 or 5 times a power of ten, chosen so that 4 to 9 ticks result.
fn step(span: f64) -> f64 {
    let rough = span / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let times = match rough / power {
        below if below < 1.5 => 1.0,
        below if below < 3.5 => 2.0,
        below if below < 7.5 => 5.0,
        _ => 10.0,
    };
    times * power
}

/// Formats the number of a tick: short, and as a power of ten if it would have many zeros.
pub(super) fn label(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 || (1e-2..1e5).contains(&size) {
        return grouped(value);
    }
    let power = (size.log10() + 1e-9).floor();
    let times = value / 10_f64.powf(power);
    let power = format!("10{}", superscript(power));
    if (times - 1.0).abs() < 1e-6 {
        power
    } else {
        format!("{}·{power}", trimmed(times))
    }
}

/// Formats an integer with a thin space between the thousands.
fn grouped(value: f64) -> String {
    if value.abs() < 1e4 {
        return trimmed(value);
    }
    format!(
        "{}\u{202f}{:03}",
        (value / 1e3).trunc(),
        (value % 1e3).abs().round()
    )
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn superscript(power: f64) -> String {
    let raise = |digit: char| match digit {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '0' => '⁰',
        '4' => '⁴',
        '5' => '⁵',
        '6' => '⁶',
        '7' => '⁷',
        '8' => '⁸',
        '9' => '⁹',
        other => other,
    };
    power.to_string().chars().map(raise).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_axis_ends_on_ticks() {
        let range = Range::of(&Axis::linear(""), [0.13, 7.9]);
        assert_eq!(range.ticks(), [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(range.share(8.0), Some(1.0));
        assert_eq!(range.share(f64::NAN), None);
    }

    #[test]
    fn a_logarithmic_axis_counts_in_tens() {
        let range = Range::of(&Axis::log(""), [1.0, 1e6]);
        assert_eq!(range.ticks(), [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6]);
        let short = Range::of(&Axis::log(""), [1.0, 30.0]);
        assert_eq!(short.ticks(), [1.0, 2.0, 5.0, 10.0, 20.0]);
        let longer = Range::of(&Axis::log(""), [0.9, 90.0]);
        assert_eq!(longer.ticks(), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(range.share(0.0), None);
    }

    #[test]
    fn equal_ratios_are_equal_lengths() {
        let range = Range::of(&Axis::log(""), [1.0, 1e4]);
        let at = |value| range.share(value).unwrap();
        assert!((at(100.0) - at(1.0) - (at(1e4) - at(100.0))).abs() < 1e-12);
    }

    #[test]
    fn a_value_alone_stands_in_the_middle() {
        let range = Range::of(&Axis::linear(""), [3.0]);
        assert!((range.share(3.0).unwrap() - 0.5).abs() < 1e-9, "{range:?}");
    }

    #[test]
    fn labels_are_short() {
        let cases = [
            (0.0, "0"),
            (0.5, "0.5"),
            (-2.0, "-2"),
            (20_000.0, "20\u{202f}000"),
            (1e6, "10⁶"),
            (2e-12, "2·10⁻¹²"),
        ];
        for (value, text) in cases {
            assert_eq!(label(value), text);
        }
    }
}
