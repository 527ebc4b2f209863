//! The layouts of this crate compared with each other and with the lower bound of any filter.

use lsm_sieve_classics::math::{Items, Rate, blocked, classic, partitioned, standard};
use lsm_sieve_lab::chart::{Axis, Chart, Series};

use super::{Figure, Name};

const KEYS: Items = Items::new(1_000_000);

pub(super) fn layouts() -> Figure {
    let line = |name, bits: fn(Rate) -> Option<f64>| {
        let rates = (2..=12).map(|halves| 10_f64.powf(-f64::from(halves) / 2.0));
        let points = rates.filter_map(|p| Some((p, bits(Rate::new(p).ok()?)? / KEYS.get() as f64)));
        Series::line_and_marks(name, points)
    };
    let bits = Axis::linear("bits per key").including(0.0);
    let chart = Chart::new("Bits per key by rate", Axis::log("rate"), bits)
        .with(line("standard", |p| {
            Some(standard::size(KEYS, p).0.get() as f64)
        }))
        .with(line("classic", |p| {
            Some(classic::size(KEYS, p).0.get() as f64)
        }))
        .with(line("partitioned", |p| {
            let (slice, slices) = partitioned::size(KEYS, p);
            Some(slice.get() as f64 * f64::from(slices.get()))
        }))
        .with(line("blocked", |p| {
            let (_, lines) = blocked::size(KEYS, p)?;
            Some((lines * blocked::LINE_BITS) as f64)
        }))
        .with(line("any filter: log2 1/p", |p| {
            Some(-p.get().log2() * KEYS.get() as f64)
        }));
    Figure {
        name: Name::Compare,
        source: "the sizes that this crate gives filters of 1,000,000 keys",
        reading: "Standard, classic and partitioned filters take the same at this size. The blocked \
                  layout answers from one cache line, but takes more bits, the more the stricter \
                  the rate. No filter takes less than the last line.",
        chart,
    }
}
