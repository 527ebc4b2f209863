//! `advise`: what the models recommend, with their reasons.

mod differential;
mod filter;
mod front;

use crate::outcome::Stop;
use crate::output::Output;

/// Recommend settings, with the reasons.
#[derive(clap::Subcommand)]
#[command(arg_required_else_help = false)]
pub(crate) enum Subject {
    Filter(filter::Arguments),
    Front(front::Arguments),
    Differential(differential::Arguments),
}

pub(crate) fn run(subject: &Subject, output: Output) -> Result<(), Stop> {
    match subject {
        Subject::Filter(filter) => filter::run(filter, output),
        Subject::Front(front) => front::run(front, output),
        Subject::Differential(differential) => differential::run(differential, output),
    }
}
