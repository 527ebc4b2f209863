//! `advise filter`: computes the missing parameters of a filter from the given ones, and says
//! whether filters of this size in front of an engine pay.

use clap::ValueEnum as _;
use lsm_sieve_cli::advise::front::{Measured, Verdict};
use lsm_sieve_cli::workload::report::{Tabular, number, percent};
use lsm_sieve_filter::filter::ScalableOptions;
use lsm_sieve_filter::math::growth::Tightening;
use lsm_sieve_filter::math::{Bits, Items, Probes, Rate};
use lsm_sieve_lab::advise::design::Design;
use lsm_sieve_lab::advise::filter::{Advice, Wish};
use serde::Serialize;

use crate::engine;
use crate::outcome::Stop;
use crate::output::Output;

const AFTER_HELP: &str = "Examples:
  lsm-sieve-lab advise filter --keys 1000000 --rate 0.01
  lsm-sieve-lab advise filter --bits 8000000 --rate 0.001 --kind counting
  lsm-sieve-lab advise filter --keys 1000000 --rate 0.01 --growth 1000
  lsm-sieve-lab advise filter --keys 1000000 --rate 0.01 --reads 90000 --misses 12000 \\
      --miss-ns 1100 --hit-ns 3400 --front-ns 50

Two of keys, rate and bits determine a filter. Probes may replace the rate. Growth makes the filter
scalable. If keys, rate and bits are all given, the report says how far the filter may grow. Given
the counts and times of a running database, it says whether such filters in front of it pay;
`lsm-sieve-lab advise front` measures these numbers.";

/// Size a filter, and say whether such filters in front of a database pay.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Final number of keys.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    keys: Option<u64>,
    /// False-positive rate with all keys inserted.
    #[arg(long, value_name = "P", value_parser = engine::parse_rate)]
    rate: Option<Rate>,
    /// Size of the filter in bits; together with keys and rate, the maximum size.
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u64).range(1..))]
    bits: Option<u64>,
    /// Number of hash functions: the bits that a key sets, in the first stage of a scalable filter.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=64))]
    probes: Option<u32>,
    /// Final number of keys divided by the keys that the first stage takes.
    #[arg(long, value_name = "G")]
    growth: Option<f64>,
    /// Report this kind of filter only; by default, all kinds that meet the requirements.
    #[arg(long)]
    kind: Option<Design>,
    /// Tighten the rates of the stages polynomially, instead of by a factor of 0.85 per stage.
    #[arg(long, requires = "growth")]
    polynomial: bool,
    /// Lookups of the running database.
    #[arg(long, value_name = "N", requires_all = ["misses", "miss_ns", "hit_ns", "front_ns"], value_parser = clap::value_parser!(u64).range(1..))]
    reads: Option<u64>,
    /// Of these lookups, the misses.
    #[arg(long, value_name = "N", requires = "reads")]
    misses: Option<u64>,
    /// Latency of a miss, in nanoseconds.
    #[arg(long, value_name = "NS", requires = "reads", value_parser = nanoseconds)]
    miss_ns: Option<f64>,
    /// Latency of a hit, in nanoseconds.
    #[arg(long, value_name = "NS", requires = "reads", value_parser = nanoseconds)]
    hit_ns: Option<f64>,
    /// Latency of the filters in front of the engine, in nanoseconds.
    #[arg(long, value_name = "NS", requires = "reads", value_parser = nanoseconds)]
    front_ns: Option<f64>,
}

fn nanoseconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(ns) if ns > 0.0 && f64::is_finite(ns) => Ok(ns),
        _ => Err("a time is a positive number of nanoseconds".to_owned()),
    }
}

impl Arguments {
    fn wish(&self, kind: Design) -> Wish {
        let tightening = if self.polynomial {
            Tightening::Polynomial
        } else {
            ScalableOptions::default().tightening
        };
        Wish {
            kind,
            items: self.keys.map(Items::new),
            rate: self.rate,
            bits: self.bits.map(Bits::new),
            probes: self.probes.map(Probes::new),
            growth: self.growth,
            tightening,
        }
    }

    /// Advice for each requested kind that meets the requirements; an error if none does.
    fn filters(&self) -> Result<Vec<Advice>, Stop> {
        let kinds = self
            .kind
            .map_or_else(|| Design::ALL.to_vec(), |kind| vec![kind]);
        let advised = kinds.into_iter().map(|kind| self.wish(kind).advise());
        let (done, refused): (Vec<_>, Vec<_>) = advised.partition(Result::is_ok);
        let done: Vec<Advice> = done.into_iter().flatten().collect();
        match refused.into_iter().find_map(Result::err) {
            Some(error) if done.is_empty() => Err(error.into()),
            _ => Ok(done),
        }
    }

    /// The costs to compare such filters with; `None` if they were not given.
    fn measured(&self, advice: &Advice) -> Option<Measured> {
        Some(Measured {
            reads: self.reads?,
            misses: self.misses?,
            writes: 0,
            miss_ns: self.miss_ns?,
            hit_ns: self.hit_ns?,
            front_ns: self.front_ns?,
            write_ns: 0.0,
            rate: Rate::new(advice.rate).ok()?,
            memory: Some(Bits::new(advice.bits)),
        })
    }
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<(), Stop> {
    if arguments.misses > arguments.reads {
        return Err(Stop::input(
            "more misses than reads; misses are counted among the reads",
        ));
    }
    let filters = arguments.filters()?;
    let measured = filters
        .first()
        .and_then(|advice| arguments.measured(advice));
    let front = measured.map(|measured| measured.verdict());
    output.print(&Report { filters, front })
}

#[derive(Serialize)]
struct Report {
    filters: Vec<Advice>,
    front: Option<Verdict>,
}

impl Tabular for Report {
    fn head(&self) -> Vec<String> {
        let heads = [
            "filter",
            "keys",
            "rate",
            "bits",
            "bits per key",
            "probes",
            "stages",
            "growth",
            "cache lines per miss",
        ];
        heads.map(str::to_owned).to_vec()
    }

    fn rows(&self) -> Vec<Vec<String>> {
        self.filters.iter().map(filter_row).collect()
    }

    fn legend(&self) -> Vec<(&str, &str)> {
        vec![
            ("filter", "the kind of filter"),
            ("keys", "that it is sized for"),
            ("rate", "false-positive rate with all keys inserted"),
            ("bits", "size of the filter"),
            ("bits per key", "bits over keys"),
            ("probes", "bits that a key sets, in the first stage"),
            ("stages", "Bloom filters that it ends with"),
            ("growth", "final keys over keys of the first stage"),
            (
                "cache lines per miss",
                "mean number that a lookup of an absent key reads",
            ),
        ]
    }

    fn notes(&self) -> Vec<String> {
        let reasons = self.filters.iter().flat_map(reasons);
        reasons
            .chain(self.front.iter().flat_map(Verdict::lines))
            .collect()
    }
}

/// The kind's name on the command line.
fn kind(advice: &Advice) -> String {
    let value = advice.kind.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

fn reasons(advice: &Advice) -> impl Iterator<Item = String> {
    let line = |reason| format!("{}: {reason}", kind(advice));
    advice.reasons.iter().map(line)
}

fn filter_row(advice: &Advice) -> Vec<String> {
    let growth = match advice.growth_max {
        Some(most) => format!("up to {most:.0}"),
        None => format!("{:.0}", advice.growth),
    };
    vec![
        kind(advice),
        number(advice.items),
        percent(advice.rate),
        number(advice.bits),
        format!("{:.2}", advice.bits_per_key),
        advice.probes.to_string(),
        advice.stages.to_string(),
        growth,
        format!("{:.1}", advice.lines_per_miss),
    ]
}
