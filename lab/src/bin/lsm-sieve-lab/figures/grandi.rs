//! Grandi, *On the analysis of Bloom filters*, IPL 129, 2018.

use lsm_sieve_classics::math::{Bits, Items, Probes, grandi, standard};
use lsm_sieve_lab::chart::{Axis, Chart, Series};

use super::{Figure, Name};

const BITS: Bits = Bits::new(128);

pub(super) fn dense() -> Figure {
    Figure {
        name: Name::Grandi,
        source: "Grandi 2018, Figure 1, S1: m = 128, n = 16",
        reading: "The best k is 5 for both; the classic filter, k distinct bits, is 3.3 % better \
                  there and worse from k = 8 on. A3 cannot be distinguished from the exact rate. The \
                  paper's text gives the errors of A1 and A2 under each other's name.",
        chart: rates("Rate of 128 bits, 16 keys", 16, 1..=16),
    }
}

pub(super) fn sparse() -> Figure {
    Figure {
        name: Name::GrandiSparse,
        source: "Grandi 2018, Figure 1, S2: m = 128, n = 8",
        reading: "The best k is 11, and 10 for the classic filter, which is 13.6 % better there. A1 \
                  is 12 % below the exact rate at the best k, and a third below it at k = 35.",
        chart: rates("Rate of 128 bits, 8 keys", 8, 4..=24),
    }
}

fn rates(title: &str, keys: u64, probes: std::ops::RangeInclusive<u32>) -> Chart {
    let line = |name, rate: fn(Bits, Probes, Items) -> f64| {
        let at = |k| (f64::from(k), rate(BITS, Probes::new(k), Items::new(keys)));
        Series::line_and_marks(name, probes.clone().map(at))
    };
    Chart::new(title, Axis::linear("probes, k"), Axis::log("rate"))
        .with(line("classic, exact", grandi::classic))
        .with(line("standard, exact", grandi::standard))
        .with(line("A3", standard::rate_corrected))
        .with(line("A1", standard::rate))
        .with(line("A2", standard::rate_asymptotic))
}
