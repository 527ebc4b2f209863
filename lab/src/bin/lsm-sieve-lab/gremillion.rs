//! `gremillion`: measures how often a filter causes an unnecessary search of the differential file.

use std::path::{Path, PathBuf};

use lsm_sieve_cli::workload::Watch as _;
use lsm_sieve_filter::math::Probes;
use lsm_sieve_lab::chart::Ground;
use lsm_sieve_lab::workload::gremillion::report::GremillionReport;
use lsm_sieve_lab::workload::gremillion::stored::{Contest, StoredReport};
use lsm_sieve_lab::workload::gremillion::{Access, Experiment, Hashing, published};

use crate::database_folder::DatabaseFolder;
use crate::outcome::Stop;
use crate::output::Output;
use crate::output_file::OutputFile;
use crate::progress::Progress;

const AFTER_HELP: &str = "Examples:
  lsm-sieve-lab gremillion
  lsm-sieve-lab gremillion --svg rates.svg     writes rates-4.svg, rates-6.svg and rates-8.svg
  lsm-sieve-lab gremillion --hash weak --access uniform --json
  lsm-sieve-lab gremillion --store

In the experiment, 100,000 transactions read some 30,000 records and update 7,000. The filters have
16,384 to 65,536 bits and 4, 6 or 8 hash functions. The report compares their rates with those
printed in 1982 and 1983.";

/// Repeat Gremillion's experiment on the filter of a differential file, in all its 21 cells.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Number of rounds of each cell. Each round has its own transactions and hash functions.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u16).range(2..))]
    rounds: u16,
    /// Seed of the first round.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// How records are chosen.
    #[arg(long, default_value = "both")]
    access: AccessName,
    /// Exponent of Zipf's law, above 0 and at most 1.
    #[arg(long, value_name = "E", default_value_t = 0.99, value_parser = exponent)]
    exponent: f64,
    /// Hash functions of the filters.
    #[arg(long, default_value = "strong", conflicts_with = "store")]
    hash: HashName,
    /// Joint confidence of the intervals around all means.
    #[arg(long, value_name = "C", default_value_t = 0.95, value_parser = confidence)]
    confidence: f64,
    /// Plot the rate over the size as SVG, one file per number of functions: FILE-4, FILE-6 and
    /// FILE-8.
    #[arg(long, value_name = "FILE", conflicts_with = "store")]
    svg: Option<PathBuf>,
    /// Plot the same as PNG.
    #[arg(long, value_name = "FILE", conflicts_with = "store")]
    png: Option<PathBuf>,
    /// Run the first seed on a differential store in a temporary folder, and count RocksDB's reads.
    #[arg(long)]
    store: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum AccessName {
    /// All records with equal probability.
    Uniform,
    /// Skewed: record ranks follow Zipf's law.
    Zipf,
    /// Both, one after the other.
    Both,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum HashName {
    /// A 64-bit hash.
    Strong,
    /// The same hash folded to 190,000 values, which fits the rates of 1982 best.
    Weak,
}

fn exponent(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(exponent) if exponent > 0.0 && exponent <= 1.0 => Ok(exponent),
        _ => Err("an exponent is above 0 and at most 1".to_owned()),
    }
}

fn confidence(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(confidence) if confidence > 0.0 && confidence < 1.0 => Ok(confidence),
        _ => Err("a confidence is between 0 and 1, for example 0.95".to_owned()),
    }
}

impl Arguments {
    fn experiment(&self) -> Experiment {
        let skewed = Access::Zipf {
            exponent: self.exponent,
        };
        Experiment {
            accesses: match self.access {
                AccessName::Uniform => vec![Access::Uniform],
                AccessName::Zipf => vec![skewed],
                AccessName::Both => vec![Access::Uniform, skewed],
            },
            hashing: match self.hash {
                HashName::Strong => Hashing::Strong,
                HashName::Weak => Hashing::Weak,
            },
            seeds: self.rounds.into(),
            first_seed: self.seed,
            confidence: self.confidence,
            ..Experiment::default()
        }
    }
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<(), Stop> {
    let experiment = arguments.experiment();
    if arguments.store {
        return on_the_store(&experiment, output);
    }
    let svg = pictures(arguments.svg.as_deref())?;
    let png = pictures(arguments.png.as_deref())?;
    let runs = experiment.accesses.len() * experiment.seeds;
    let mut progress = Progress::new("running all cells", runs as u64);
    let outcome = experiment.run(&mut progress)?;
    drop(progress);
    let report = GremillionReport::new(&experiment, &outcome);
    let drawn = draw(&report, &svg, &png);
    output.conclude(&report, lost(&report).and(drawn))
}

fn draw(report: &GremillionReport, svg: &[OutputFile], png: &[OutputFile]) -> Result<(), Stop> {
    let charts = report.charts();
    for (file, (_, chart)) in svg.iter().zip(&charts) {
        file.write(chart.svg().as_bytes())?;
    }
    for (file, (_, chart)) in png.iter().zip(&charts) {
        file.write(&chart.png(Ground::Light)?)?;
    }
    Ok(())
}

fn lost(report: &GremillionReport) -> Result<(), Stop> {
    match report.false_negatives {
        0 => Ok(()),
        lost => Err(Stop::Finding(format!(
            "{lost} modified records were answered unmodified: do not use these filters, and report this"
        ))),
    }
}

fn on_the_store(experiment: &Experiment, output: Output) -> Result<(), Stop> {
    let cells = published::cells().count() * experiment.accesses.len();
    let mut progress = Progress::new("running the store", cells as u64);
    let mut report = StoredReport { cells: Vec::new() };
    for access in &experiment.accesses {
        let (scale, seed) = (&experiment.scale, experiment.first_seed);
        let home = DatabaseFolder::temporary()?;
        let contest = Contest::new(*access, scale, seed, home.path())?;
        for cell in published::cells() {
            let home = DatabaseFolder::temporary()?;
            report.cells.push(contest.run(&cell, home.path())?);
            progress.advance(1)?;
        }
    }
    drop(progress);
    let finding = report.finding();
    let outcome = finding.map_or(Ok(()), |found| Err(Stop::Finding(found)));
    output.conclude(&report, outcome)
}

/// The output files of one format, in the order of the charts.
fn pictures(file: Option<&Path>) -> Result<Vec<OutputFile>, Stop> {
    let Some(file) = file else {
        return Ok(Vec::new());
    };
    if let OutputFile::Stream(path) = OutputFile::new(file)? {
        return Err(Stop::input(format!(
            "{} is no regular file, but several pictures are written; name a file",
            path.display()
        )));
    }
    let files = published::probes().map(|probes| OutputFile::new(&numbered(file, probes)));
    files.collect()
}

/// Adds the number of probes to a file name: `rates-4.svg` for `rates.svg`.
fn numbered(file: &Path, probes: Probes) -> PathBuf {
    let mut name = file.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{probes}"));
    if let Some(extension) = file.extension() {
        name.push(".");
        name.push(extension);
    }
    file.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_keeps_all_of_its_name_and_gets_a_number() {
        for (file, want) in [
            ("rates.svg", "rates-4.svg"),
            ("a/b.c/rates", "a/b.c/rates-4"),
            ("rates.of.1982.svg", "rates.of.1982-4.svg"),
        ] {
            assert_eq!(numbered(Path::new(file), Probes::new(4)), Path::new(want));
        }
    }
}
