//! `advise`: what to build before it is built.

mod filter;

use crate::outcome::Stop;
use crate::output::Output;

/// Say what to build, and whether it pays.
#[derive(clap::Subcommand)]
pub(crate) enum Question {
    Filter(filter::Arguments),
}

pub(crate) fn run(question: &Question, output: Output) -> Result<(), Stop> {
    match question {
        Question::Filter(filter) => filter::run(filter, output),
    }
}
