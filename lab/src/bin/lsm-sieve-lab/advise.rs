//! `advise`: recommends settings from the models and gives the reasons.

mod differential;
mod filter;

use crate::outcome::Stop;
use crate::output::Output;

const AFTER_HELP: &str = "Examples:
  lsm-sieve-lab advise filter --keys 10000000 --rate 0.001
  lsm-sieve-lab advise differential --help";

/// Recommend settings, with the reasons.
#[derive(clap::Subcommand)]
#[command(arg_required_else_help = false, after_help = AFTER_HELP)]
pub(crate) enum Subject {
    Filter(filter::Arguments),
    Differential(differential::Arguments),
}

pub(crate) fn run(subject: &Subject, output: Output) -> Result<(), Stop> {
    match subject {
        Subject::Filter(filter) => filter::run(filter, output),
        Subject::Differential(differential) => differential::run(differential, output),
    }
}
