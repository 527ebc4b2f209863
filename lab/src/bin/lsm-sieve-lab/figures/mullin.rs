//! Mullin, *A second look at Bloom filters*, CACM 26(8), 1983, on Gremillion's experiment of 1982.

use lsm_sieve_classics::math::differential::mullin;
use lsm_sieve_lab::chart::{Axis, Chart, Series};
use lsm_sieve_lab::workload::gremillion::published::{Printed, UPDATED, cells};

use super::{Figure, Name};

pub(super) fn rates() -> Figure {
    let size = |cell: &Printed| cell.bits.get() as f64;
    let of = |probes| cells().filter(move |cell| cell.probes.get() == probes);
    let formula = |cell: Printed| (size(&cell), mullin(0.0, cell.bits, cell.probes, UPDATED));
    let theory = |probes| {
        Series::line(
            format!("formula, {probes} functions"),
            of(probes).map(formula),
        )
    };
    let printed = |probes| {
        let points = of(probes).filter_map(|cell| Some((size(&cell), cell.theoretical?)));
        Series::marks(format!("Mullin, {probes}"), points)
    };
    let simulated = |probes| {
        let points = of(probes).map(|cell| (size(&cell), cell.simulated));
        Series::marks(format!("Gremillion, {probes}"), points)
    };
    let chart = Chart::new(
        "Unnecessary searches",
        Axis::log("filter size, bits"),
        Axis::log("rate"),
    )
    .with(theory(4))
    .with(theory(6))
    .with(printed(4))
    .with(printed(6))
    .with(simulated(4))
    .with(simulated(6));
    Figure {
        name: Name::Mullin,
        source: "Mullin 1983; Gremillion 1982; both as quoted by Nikitin 2006",
        reading: "Sizes are in bits; 7,000 records have changed; α = 0. The formula gives Mullin's \
                  values to three digits, except for 65,536 bits and 4 functions: it gives 0.0146, \
                  and 0.014 is printed. Gremillion's simulation is below the formula for small \
                  filters and above it for large ones.",
        chart,
    }
}
