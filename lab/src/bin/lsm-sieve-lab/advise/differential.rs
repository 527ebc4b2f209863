//! `advise differential`: sizes the filter of a differential file and finds the interval at which
//! the file should be reorganised.

use std::iter::once;

use lsm_sieve_classics::math::differential::{Advice, Choice, Costs, Operation};
use lsm_sieve_cli::workload::report::{Tabular, number};
use lsm_sieve_filter::math::{Bits, Items};
use serde::Serialize;

use crate::outcome::Stop;
use crate::output::Output;

const AFTER_HELP: &str = "Examples:
  lsm-sieve-lab advise differential --records 1000000 --updates 0.08 --search-us 100 --main-us 100 \\
    --reorganize-s 300 --held-ns 1
  lsm-sieve-lab advise differential --records 31279 --updates 0.079 --search-us 2 --main-us 2 \\
    --reorganize-s 0.2 --interval 100000 --json

All records are assumed to be accessed equally often. You have to measure the costs yourself:
`lsm-sieve-lab gremillion --store` shows those of a store on this machine.";

/// Recommend the filter of a differential file, and how often to reorganise the file.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Records in the main file.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    records: u64,
    /// Share of transactions that update the record they read.
    #[arg(long, value_name = "SHARE", value_parser = updates)]
    updates: f64,
    /// Cost of one search of the differential file, in microseconds.
    #[arg(long, value_name = "US", value_parser = price)]
    search_us: f64,
    /// Cost of one read of the main file, in microseconds.
    #[arg(long, value_name = "US", value_parser = price)]
    main_us: f64,
    /// Fixed cost of a reorganisation, in seconds, however many records it moves.
    #[arg(long, value_name = "S", value_parser = price)]
    reorganize_s: f64,
    /// Cost of moving one record in a reorganisation, in microseconds.
    #[arg(long, value_name = "US", default_value_t = 0.0, value_parser = price)]
    move_us: f64,
    /// Cost that each record in the differential file adds to every transaction, in nanoseconds:
    /// longer searches, larger backups, a longer recovery.
    #[arg(long, value_name = "NS", default_value_t = 0.0, value_parser = price)]
    held_ns: f64,
    /// Cost of one probe of the filter, in nanoseconds.
    #[arg(long, value_name = "NS", default_value_t = 10.0, value_parser = price)]
    probe_ns: f64,
    /// Reorganise after N transactions, for example every night, instead of at the best interval.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    interval: Option<u64>,
    /// Maximum size of the filter, in bits.
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u64).range(64..))]
    bits_max: Option<u64>,
    /// Recommend the smallest filter whose cost exceeds the lowest cost by at most this share.
    #[arg(long, value_name = "SHARE", default_value_t = 0.01, value_parser = price)]
    worth: f64,
}

fn updates(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err(
            "a share is above 0 and at most 1; without updates the differential file stays empty"
                .to_owned(),
        ),
    }
}

fn price(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(price) if price >= 0.0 && price.is_finite() => Ok(price),
        _ => Err("a cost is a finite number, 0 or more".to_owned()),
    }
}

impl Arguments {
    fn operation(&self) -> Operation {
        Operation {
            records: Items::new(self.records),
            updates: self.updates,
        }
    }

    /// In microseconds.
    fn costs(&self) -> Costs {
        Costs {
            search: self.search_us,
            main: self.main_us,
            probe: self.probe_ns / 1e3,
            held: self.held_ns / 1e3,
            reorganisation: self.reorganize_s * 1e6,
            moved: self.move_us,
        }
    }
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<(), Stop> {
    let (operation, costs) = (arguments.operation(), arguments.costs());
    let advice = operation.advise(
        &costs,
        arguments.interval.map(|interval| interval as f64),
        arguments.bits_max.map(Bits::new),
        arguments.worth,
    );
    output.print(&Report::new(arguments, &advice))
}

#[derive(Serialize)]
struct Report {
    /// The recommended filter; `None` if no filter pays.
    filter: Option<Row>,
    /// Transactions from one reorganisation to the next; `None` if reorganising does not pay.
    interval: Option<f64>,
    /// The interval of the square-root law, for comparison.
    square_root_interval: Option<f64>,
    reasons: Vec<String>,
    unfiltered: Row,
    choices: Vec<Row>,
}

/// One choice of filter and interval. Costs are in microseconds per transaction.
#[derive(Clone, Serialize)]
struct Row {
    bits: u64,
    bits_per_record: f64,
    probes: u32,
    interval: f64,
    reorganisation_pays: bool,
    records_max: u64,
    searches_avoided: f64,
    searches_unnecessary: f64,
    saved_us: f64,
    paid_us: f64,
    reorganising_us: f64,
    all_us: f64,
}

impl From<&Choice> for Row {
    fn from(choice: &Choice) -> Self {
        let (plan, cost) = (&choice.plan, &choice.cost);
        let (bits, probes) = plan
            .filter
            .map_or((Bits::default(), 0), |f| (f.bits, f.probes.get()));
        Self {
            bits: bits.get(),
            bits_per_record: bits.per_key(cost.records_max),
            probes,
            interval: plan.interval,
            reorganisation_pays: choice.reorganisation_pays,
            records_max: cost.records_max.get(),
            searches_avoided: cost.searches_avoided,
            searches_unnecessary: cost.searches_unnecessary,
            saved_us: cost.saved,
            paid_us: cost.paid,
            reorganising_us: cost.reorganising,
            all_us: cost.all,
        }
    }
}

impl Report {
    fn new(arguments: &Arguments, advice: &Advice) -> Self {
        let taken = advice.recommended.unwrap_or(advice.unfiltered);
        let law = arguments
            .operation()
            .square_root_interval(&arguments.costs());
        Self {
            filter: advice.recommended.as_ref().map(Row::from),
            interval: taken.reorganisation_pays.then_some(taken.plan.interval),
            square_root_interval: law,
            reasons: vec![
                about_filter(advice, arguments.worth),
                about_interval(&taken, arguments, law),
            ],
            unfiltered: Row::from(&advice.unfiltered),
            choices: advice.choices.iter().map(Row::from).collect(),
        }
    }
}

fn about_filter(advice: &Advice, worth: f64) -> String {
    let without = advice.unfiltered.cost.all;
    let Some(taken) = advice.recommended.as_ref().map(Row::from) else {
        let cost = |choice: &&Choice| choice.cost.all;
        let best = advice
            .choices
            .iter()
            .min_by(|a, b| cost(a).total_cmp(&cost(b)));
        let best = best.map_or(f64::NAN, |choice| choice.cost.all);
        return format!(
            "Do not keep a filter: a transaction takes {best:.3} us with the best one and \
             {without:.3} us without; its probes cost more than the searches that they avoid."
        );
    };
    format!(
        "Keep a filter of {} bits with {} hash functions ({:.1} bits per record at the end of an \
         interval): a transaction takes {:.3} us instead of {without:.3} us. The filter avoids \
         {:.3} searches per transaction, which saves {:.3} us and costs {:.3} us of probes; {:.4} \
         searches per transaction are unnecessary (false positives). Larger filters save less \
         than {} % more.",
        number(taken.bits),
        taken.probes,
        taken.bits_per_record,
        taken.all_us,
        taken.searches_avoided,
        taken.saved_us,
        taken.paid_us,
        taken.searches_unnecessary,
        worth * 100.0,
    )
}

fn about_interval(taken: &Choice, arguments: &Arguments, law: Option<f64>) -> String {
    let held = number(taken.cost.records_max.get());
    let after = format!("{:.0}", taken.plan.interval);
    if arguments.interval.is_some() {
        return format!(
            "Reorganise after {after} transactions, as given: the differential file then holds \
             {held} records."
        );
    }
    if !taken.reorganisation_pays {
        return format!(
            "Do not reorganise: a reorganisation costs more than all that grows with the \
             differential file; after {after} transactions the file holds {held} of {} records.",
            number(arguments.records)
        );
    }
    let law = law.map_or_else(
        || "what grows is the filter's false-positive rate, not the cost per record".to_owned(),
        |law| format!("the square-root law, which counts only the cost per record, gives {law:.0}"),
    );
    format!(
        "Reorganise after {after} transactions, with {held} records in the differential file. \
         Reorganising then costs {:.3} us per transaction; a shorter interval costs more for \
         reorganising, a longer one more for the file; {law}.",
        taken.cost.reorganising
    )
}

impl Tabular for Report {
    fn head(&self) -> Vec<String> {
        [
            "filter bits",
            "bits per record",
            "k",
            "interval",
            "records",
            "avoided",
            "unnecessary",
            "saved us",
            "probes us",
            "reorganising us",
            "total us",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let row = |row: &Row| {
            let interval = format!("{:.0}", row.interval);
            let never = if row.reorganisation_pays {
                ""
            } else {
                " (never)"
            };
            vec![
                number(row.bits),
                format!("{:.1}", row.bits_per_record),
                row.probes.to_string(),
                interval + never,
                number(row.records_max),
                format!("{:.4}", row.searches_avoided),
                format!("{:.4}", row.searches_unnecessary),
                format!("{:.3}", row.saved_us),
                format!("{:.3}", row.paid_us),
                format!("{:.3}", row.reorganising_us),
                format!("{:.3}", row.all_us),
            ]
        };
        once(&self.unfiltered)
            .chain(&self.choices)
            .map(row)
            .collect()
    }

    fn legend(&self) -> Vec<(&str, &str)> {
        vec![
            ("filter bits", "size of the filter; the first line has none"),
            ("bits per record", "at the end of an interval"),
            ("k", "hash functions"),
            ("interval", "transactions between two reorganisations"),
            (
                "records",
                "in the differential file at the end of an interval",
            ),
            (
                "avoided",
                "searches of the differential file per transaction that the filter avoids",
            ),
            (
                "unnecessary",
                "searches per transaction that find nothing: false positives",
            ),
            (
                "saved us",
                "what the avoided searches would cost, per transaction",
            ),
            ("probes us", "what the probes cost, per transaction"),
            (
                "reorganising us",
                "what reorganising costs, per transaction",
            ),
            ("total us", "all costs of a transaction"),
        ]
    }

    fn notes(&self) -> Vec<String> {
        self.reasons.clone()
    }
}
