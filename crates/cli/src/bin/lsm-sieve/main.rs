//! The command `lsm-sieve`: shows, measures, inspects and checks the filters.
//!
//! Exit codes: 0, no problem was found; 1, a finding, such as a lost key; 2, the command could not
//! do its work because of bad input, a failing disk or Ctrl-C. Results go to standard output,
//! everything else to standard error.

mod advise;
mod bench;
mod database;
mod database_folder;
mod demo;
mod engine;
mod figures;
mod gremillion;
mod inspect;
mod model;
mod output_file;
mod reorganize;
mod replay;
mod report;
mod verify;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use lsm_sieve_cli::{outcome, output, progress};
use outcome::Stop;
use output::Output;

const AFTER_HELP: &str = "Exit codes: 0 success, 1 a finding (a lost key, a damaged sidecar), \
2 bad input, a failing disk or Ctrl-C.";

/// Show, measure, inspect and check scalable Bloom filters in front of RocksDB.
#[derive(Parser)]
#[command(name = "lsm-sieve", version, after_help = AFTER_HELP, arg_required_else_help = false)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Print the result as JSON.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    #[command(subcommand)]
    Advise(advise::Subject),
    Demo(demo::Arguments),
    Replay(replay::Arguments),
    #[command(subcommand)]
    Bench(bench::Benchmark),
    Gremillion(gremillion::Arguments),
    Inspect(inspect::Arguments),
    Verify(verify::Arguments),
    Reorganize(reorganize::Arguments),
    Model(model::Arguments),
    Report(report::Arguments),
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => stop.report(),
    }
}

fn run() -> Result<(), Stop> {
    let arguments = Arguments::try_parse().or_else(|error| outcome::usage(&error, &asked()))?;
    output::log_to_stderr();
    progress::handle_interrupts()?;
    let output = Output::new(arguments.json);
    match arguments.command {
        Command::Advise(subject) => advise::run(&subject, output),
        Command::Demo(demo) => demo::run(&demo, output),
        Command::Replay(replay) => replay::run(&replay, output),
        Command::Bench(bench::Benchmark::Busy(busy)) => bench::busy::run(&busy, output),
        Command::Bench(bench::Benchmark::Jobs(jobs)) => bench::jobs::run(&jobs, output),
        Command::Bench(bench::Benchmark::Miss(miss)) => bench::miss::run(&miss, output),
        Command::Gremillion(gremillion) => gremillion::run(&gremillion, output),
        Command::Inspect(inspect) => inspect::run(&inspect, output),
        Command::Verify(verify) => verify::run(&verify, output),
        Command::Reorganize(reorganize) => reorganize::run(&reorganize, output),
        Command::Model(model) => model::run(&model, output),
        Command::Report(report) => report::run(&report, output),
    }
}

/// The command as it was called, with its subcommands up to the first word that is none.
fn asked() -> String {
    let mut command = &Arguments::command();
    let mut names = vec![command.get_name()];
    for word in std::env::args_os().skip(1) {
        let Some(next) = command.find_subcommand(&word) else {
            break;
        };
        names.push(next.get_name());
        command = next;
    }
    names.join(" ")
}
