//! `verify`: checks that all sidecars are intact, and that every key passes its filters.

use lsm_sieve_cli::workload::report::{Tabular, number};
use serde::Serialize;

use crate::database::Database;
use crate::outcome::Stop;
use crate::output::Output;
use crate::progress::Progress;

const AFTER_HELP: &str = "Examples:
  lsm-sieve verify /var/lib/service/db
  lsm-sieve verify /var/lib/service/db --full
  lsm-sieve verify /var/lib/service/db --filters /fast/filters

A damaged sidecar loses no key: lookups answer maybe until it is rebuilt. A lost key is a bug.";

/// How many damaged files and lost keys the message names. The report lists all.
const NAMED_MAX: usize = 3;

/// Check the filters of a database; exit code 1 if a sidecar is damaged or a key is lost.
///
/// The database is opened read-only, and none of its files are changed. No other process may have
/// it open.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    database: Database,
    /// Also probe the summary filter and the segment filter with every raw key of every SST.
    #[arg(long)]
    full: bool,
}

#[derive(Serialize)]
struct Report {
    sidecars_checked: u64,
    summaries_checked: u64,
    damaged: Vec<String>,
    missing: Vec<String>,
    keys_checked: u64,
    lost_keys: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<(), Stop> {
    let opened = arguments.database.open()?;
    let tables = opened.db.live_files()?;
    let entries = tables.iter().map(|table| table.num_entries).sum();
    let mut progress = Progress::new("checking", entries);
    let found = opened
        .db
        .filters()
        .verify_while(arguments.full, |entries| progress.pass(entries))?;
    drop(progress);
    let report = Report {
        sidecars_checked: found.sidecars_checked,
        summaries_checked: found.summaries_checked,
        damaged: found.damaged,
        missing: found.missing,
        keys_checked: found.entries_checked,
        lost_keys: found.lost.iter().map(ToString::to_string).collect(),
    };
    output.conclude(&report, report.outcome())
}

impl Report {
    fn outcome(&self) -> Result<(), Stop> {
        if !self.lost_keys.is_empty() {
            return Err(Stop::Finding(format!(
                "lost keys: {}, whose filters answer absent ({}): delete the folder of the filters, and report this",
                self.lost_keys.len(),
                named(&self.lost_keys)
            )));
        }
        if !self.damaged.is_empty() {
            return Err(Stop::Finding(format!(
                "damaged filter files: {} ({}): check the disk; they are rebuilt when the database is open for writing",
                self.damaged.len(),
                named(&self.damaged)
            )));
        }
        Ok(())
    }
}

fn named(items: &[String]) -> String {
    let mut text = items
        .iter()
        .take(NAMED_MAX)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    if items.len() > NAMED_MAX {
        text.push_str(", ...");
    }
    text
}

impl Tabular for Report {
    fn head(&self) -> Vec<String> {
        vec!["checked".to_owned(), String::new()]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let row = |label: &str, value: u64| vec![label.to_owned(), number(value)];
        vec![
            row("sidecars of segment filters", self.sidecars_checked),
            row("sidecars of summary filters", self.summaries_checked),
            row("damaged files", self.damaged.len() as u64),
            row("SSTs without a sidecar", self.missing.len() as u64),
            row("keys", self.keys_checked),
            row("lost keys", self.lost_keys.len() as u64),
        ]
    }

    fn legend(&self) -> Vec<(&str, &str)> {
        vec![
            (
                "sidecars of segment filters",
                "files whose checksums were verified, one per SST",
            ),
            (
                "sidecars of summary filters",
                "the same, one per column family",
            ),
            (
                "damaged files",
                "files that do not match their checksums or their SST; rebuilt at the next open for writing",
            ),
            (
                "SSTs without a sidecar",
                "their filters are built at the next open for writing",
            ),
            (
                "keys",
                "raw keys of all SSTs that were checked; 0 without --full",
            ),
            ("lost keys", "keys that a filter denies; must be 0"),
        ]
    }
}
