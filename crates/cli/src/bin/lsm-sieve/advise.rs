//! `advise`: recommends settings from the models and gives the reasons.

mod front;

use crate::outcome::Stop;
use crate::output::Output;

const AFTER_HELP: &str = "Examples:
  lsm-sieve advise front /var/lib/service/db";

/// Recommend settings, with the reasons.
#[derive(clap::Subcommand)]
#[command(arg_required_else_help = false, after_help = AFTER_HELP)]
pub(crate) enum Subject {
    Front(front::Arguments),
}

pub(crate) fn run(subject: &Subject, output: Output) -> Result<(), Stop> {
    match subject {
        Subject::Front(front) => front::run(front, output),
    }
}
