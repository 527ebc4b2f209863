//! Almeida, Baquero, Preguiça, Hutchison, *Scalable Bloom Filters*, IPL 101(6), 2007.

use lsm_sieve_classics::math::ladder::{self, Ladder};
use lsm_sieve_filter::math::growth::Tightening;
use lsm_sieve_filter::math::{Bits, Rate};
use lsm_sieve_lab::chart::{Axis, Chart, Series};

use super::{Figure, Name};

const GROWTH: &str = "growth over the first stage";
const SPACE: &str = "bits / bits of a static filter";

/// The scalable filter of the figures: m0 = 128, r = 0.5, P = 10⁻⁶ unless a figure says otherwise.
fn ladder(promised: f64, r: f64, s: f64) -> Ladder {
    Ladder {
        promised: rate(promised),
        tightening: Tightening::Geometric(r),
        growth: s,
        first_slice: 128.0,
        whole_slices: true,
    }
}

fn rate(rate: f64) -> Rate {
    Rate::new(rate).expect("the figures' rates lie between 0 and 1")
}

/// 10, 10^(1 + 1/per), ... up to 10^6.
fn growths(per_decade: u32) -> impl Iterator<Item = f64> {
    (per_decade..=6 * per_decade).map(move |i| 10_f64.powf(f64::from(i) / f64::from(per_decade)))
}

/// 1.1, 1.2, ... 5.
fn factors() -> impl Iterator<Item = f64> + Clone {
    (11..=50).map(|tenths| f64::from(tenths) / 10.0)
}

pub(super) fn table_1() -> Figure {
    const KILOBYTES_32: Bits = Bits::new(262_144);
    let capacities = || {
        let rates = (3..=6).map(|power| 10_f64.powi(-power));
        rates.map(|p| (p, ladder::capacity(KILOBYTES_32, rate(p))))
    };
    let column = |name, value: fn(ladder::Capacity) -> u64| {
        Series::line_and_marks(name, capacities().map(|(p, row)| (p, value(row) as f64)))
    };
    let chart = Chart::new("Keys in 32 KB", Axis::log("P"), Axis::log("n, m and k"))
        .with(column("n as printed", |row| row.printed))
        .with(column("n by rate", |row| row.by_fill))
        .with(column("n half full", |row| row.half_full))
        .with(column("m, bits a slice", |row| row.slice_bits))
        .with(column("k, slices", |row| row.slices.into()));
    Figure {
        name: Name::Table1,
        source: "Almeida et al. 2007, Table 1",
        reading: "The printed capacity uses k before it is rounded up. The paper's own rule, slices \
                  half full, gives up to 5 % less; filling until the rate is reached gives the \
                  printed number to within 0.1 %.",
        chart,
    }
}

pub(super) fn figure_1() -> Figure {
    let (constant, doubling) = (ladder(1e-6, 0.5, 1.0), ladder(1e-6, 0.5, 2.0));
    let bits =
        |ladder: Ladder, keys: f64| ladder.space(keys) * ladder::static_bits(ladder.promised, keys);
    let ends: Vec<f64> = doubling.steps().take(8).map(|step| step.keys).collect();
    let line = |name, of: &dyn Fn(f64) -> f64| {
        Series::line_and_marks(name, ends.iter().map(|&keys| (keys, of(keys))))
    };
    let axes = (Axis::log("keys"), Axis::log("bits"));
    let chart = Chart::new("Space as a set grows", axes.0, axes.1)
        .with(line("s = 1", &|keys| bits(constant, keys)))
        .with(line("s = 2", &|keys| bits(doubling, keys)))
        .with(line("static", &|keys| {
            ladder::static_bits(doubling.promised, keys)
        }));
    Figure {
        name: Name::Fig1,
        source: "Almeida et al. 2007, Figure 1: m0 = 128, r = 0.5, P = 10⁻⁶",
        reading: "At the ends of the stages of s = 2. The paper calls 882,304 bits for 22,624 keys \
                  only slightly more than a static filter: it is 36 % more. With s = 1 it takes 255 \
                  stages and 7.4 times the static space.",
        chart,
    }
}

/// The space over the growth, with a jump at each stage that opens.
fn staircase(name: &str, ladder: Ladder, most: f64) -> Series {
    let first = ladder.first_keys();
    let ends = ladder.steps().map(|step| step.keys / first);
    let ends: Vec<f64> = ends.take_while(|&end| end <= most).collect();
    let points = ends.iter().flat_map(|&end| {
        let after = end * (1.0 + 1e-9);
        [end, after].map(|growth| (growth, ladder.space(growth * first)))
    });
    Series::line(name, points)
}

pub(super) fn figure_2() -> Figure {
    let ends = |name, ladder: Ladder| {
        let first = ladder.first_keys();
        let ends = ladder.steps().map(|step| step.keys);
        let points = ends.take_while(|&keys| keys <= 2e6 * first);
        Series::line_and_marks(name, points.map(|keys| (keys / first, ladder.space(keys))))
    };
    let (two, four) = (ladder(1e-6, 0.5, 2.0), ladder(1e-6, 0.5, 4.0));
    let space = Axis::linear(SPACE).including(0.0);
    let chart = Chart::new("Space over a static filter's", Axis::log(GROWTH), space)
        .with(ends("s = 2, full", two))
        .with(ends("s = 4, full", four))
        .with(staircase("s = 2, always", two, 2e6))
        .with(staircase("s = 4, always", four, 2e6));
    Figure {
        name: Name::Fig2,
        source: "Almeida et al. 2007, Figure 2: r = 0.5, P = 10⁻⁶",
        reading: "The paper draws the ends of stages: about twice for s = 2, half more for s = 4, \
                  at a growth of a million. Just after a stage has opened it is 3.9 and 6.2 times.",
        chart,
    }
}

pub(super) fn figure_3() -> Figure {
    let line = |name, growth| {
        let stages = factors().map(|s| (s, f64::from(ladder(1e-6, 0.5, s).stages(growth))));
        Series::line(name, stages)
    };
    let chart = Chart::new(
        "Stages by s",
        Axis::linear("s"),
        Axis::linear("stages").including(0.0),
    )
    .with(line("growth 10²", 1e2))
    .with(line("growth 10⁶", 1e6));
    Figure {
        name: Name::Fig3,
        source: "Almeida et al. 2007, Figure 3",
        reading: "A miss visits every stage: s close to 1 costs time, beyond 4 little is gained.",
        chart,
    }
}

pub(super) fn figure_4() -> Figure {
    let line = |name, promised, growth| {
        let space = |s| {
            let any = Ladder {
                whole_slices: false,
                ..ladder(promised, 0.5, s)
            };
            let tightening = Tightening::Geometric(any.best_tightening(growth));
            (s, Ladder { tightening, ..any }.mean_space(growth))
        };
        Series::line(name, factors().map(space))
    };
    let space = Axis::linear("mean bits / final static bits").including(0.0);
    let chart = Chart::new("Mean space by s, best r", Axis::linear("s"), space)
        .with(line("10⁻³, growth 10²", 1e-3, 1e2))
        .with(line("10⁻³, growth 10⁶", 1e-3, 1e6))
        .with(line("10⁻⁶, growth 10²", 1e-6, 1e2))
        .with(line("10⁻⁶, growth 10⁶", 1e-6, 1e6));
    Figure {
        name: Name::Fig4,
        source: "Almeida et al. 2007, Figure 4",
        reading: "Averaged over the life of the set, so it can be below 1. The curves jump if the \
                  final size falls just beyond the end of a stage.",
        chart,
    }
}

pub(super) fn figure_5() -> Figure {
    let mut chart = Chart::new(
        "Space by r and P, s = 2",
        Axis::log(GROWTH),
        Axis::linear(SPACE).including(0.0),
    );
    for (power, promised) in [("10⁻³", 1e-3), ("10⁻⁶", 1e-6)] {
        for r in [0.5, 0.8, 0.9] {
            let ladder = ladder(promised, r, 2.0);
            let first = ladder.first_keys();
            let ends = ladder.steps().take(20);
            let points = ends.map(|step| (step.keys / first, ladder.space(step.keys)));
            chart = chart.with(Series::line_and_marks(format!("{power}, r = {r}"), points));
        }
    }
    Figure {
        name: Name::Fig5,
        source: "Almeida et al. 2007, Figure 5, at the ends of stages",
        reading: "A large r begins with more slices and adds fewer: it wins after a growth of some \
                  tens, the sooner the stricter P is.",
        chart,
    }
}

pub(super) fn figure_6() -> Figure {
    let best = |name, s: f64| {
        let real = Ladder {
            whole_slices: false,
            ..ladder(1e-6, 0.5, s)
        };
        Series::line(
            name,
            growths(8).map(|growth| (growth, real.best_tightening(growth))),
        )
    };
    let whole = growths(1).map(|growth| {
        (
            growth,
            ladder(1e-6, 0.5, 2.0).best_tightening_by_trial(growth),
        )
    });
    let chart = Chart::new("The best r", Axis::log(GROWTH), Axis::linear("r"))
        .with(best("s = √2", 2.0_f64.sqrt()))
        .with(best("s = 2", 2.0))
        .with(best("s = 4", 4.0))
        .with(Series::marks("s = 2, whole slices", whole));
    Figure {
        name: Name::Fig6,
        source: "Almeida et al. 2007, Figure 6",
        reading: "The lines are r = c / (1 + c), c the mean index of a stage weighted by its bits \
                  and its life; P does not enter. Rounding slices up moves the optimum down.",
        chart,
    }
}

pub(super) fn tightening() -> Figure {
    let line = |name, tightening: Tightening| {
        let bits =
            |stage: u32| tightening.halvings(Rate::ONE_PERCENT, stage) / std::f64::consts::LN_2;
        Series::line(name, (0..=40).map(|stage| (f64::from(stage), bits(stage))))
    };
    let bits = Axis::linear("bits per key of that stage").including(0.0);
    let chart = Chart::new(
        "The cost of tightening, P = 1 %",
        Axis::linear("stage"),
        bits,
    )
    .with(line("r = 0.5", Tightening::Geometric(0.5)))
    .with(line("r = 0.85", Tightening::Geometric(0.85)))
    .with(line("r = 0.9", Tightening::Geometric(0.9)))
    .with(line("polynomial", Tightening::Polynomial));
    Figure {
        name: Name::Tightening,
        source: "Almeida et al. 2007, §4; Pagh, Segev, Wieder, FOCS 2013",
        reading: "A static filter takes 9.6 bits. A geometric tightening costs the same again with \
                  every stage, a polynomial one less and less: r = 0.9 takes fewer bits than it from \
                  the third stage to the 62nd.",
        chart,
    }
}
