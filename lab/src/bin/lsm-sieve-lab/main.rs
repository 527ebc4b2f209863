//! The command `lsm-sieve-lab`: measures the filters, and repeats the literature.
//!
//! Exit codes and output are those of `lsm-sieve`.

mod advise;
mod bench;
mod figures;
mod gremillion;
mod model;
mod reorganize;
mod replay;
mod report;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use lsm_sieve_cli::{database_folder, engine, outcome, output, output_file, progress, weight};
use outcome::Stop;
use output::Output;

const AFTER_HELP: &str = "Exit codes: 0 success, 1 a finding (a lost key, a damaged sidecar), \
2 bad input, a failing disk or Ctrl-C.";

/// Measure scalable Bloom filters in front of RocksDB, and repeat the literature.
#[derive(Parser)]
#[command(name = "lsm-sieve-lab", version, after_help = AFTER_HELP, arg_required_else_help = false)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Print the result as JSON.
    #[arg(long, global = true)]
    json: bool,
    /// Say below each table what its columns and rows mean.
    #[arg(long, global = true, conflicts_with = "json")]
    explain: bool,
}

#[derive(Subcommand)]
enum Command {
    #[command(subcommand)]
    Advise(advise::Subject),
    Replay(replay::Arguments),
    #[command(subcommand)]
    Bench(bench::Benchmark),
    Gremillion(gremillion::Arguments),
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
    let arguments = Arguments::try_parse()
        .or_else(|error| outcome::usage(&error, &outcome::asked(&Arguments::command())))?;
    output::log_to_stderr();
    progress::handle_interrupts()?;
    let output = Output::new(arguments.json).explained(arguments.explain);
    match arguments.command {
        Command::Advise(subject) => advise::run(&subject, output),
        Command::Replay(replay) => replay::run(&replay, output),
        Command::Bench(bench::Benchmark::Busy(busy)) => bench::busy::run(&busy, output),
        Command::Bench(bench::Benchmark::Jobs(jobs)) => bench::jobs::run(&jobs, output),
        Command::Bench(bench::Benchmark::Miss(miss)) => bench::miss::run(&miss, output),
        Command::Bench(bench::Benchmark::Prefix(prefix)) => bench::prefix::run(&prefix, output),
        Command::Gremillion(gremillion) => gremillion::run(&gremillion, output),
        Command::Reorganize(reorganize) => reorganize::run(&reorganize, output),
        Command::Model(model) => model::run(&model, output),
        Command::Report(report) => report::run(&report, output),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Collects the value of each option by its name: `--keys N` of `demo`.
    fn options(command: &clap::Command, of: &mut BTreeMap<String, Vec<(String, String)>>) {
        for option in command.get_opts().filter(|option| !option.is_hide_set()) {
            let name = option.get_long().unwrap_or_default().to_owned();
            let values = option.get_value_names().unwrap_or_default();
            let values: Vec<_> = values.iter().map(ToString::to_string).collect();
            let value = values.join(" ");
            let command = command.get_name().to_owned();
            of.entry(name).or_default().push((command, value));
        }
        command
            .get_subcommands()
            .for_each(|command| options(command, of));
    }

    /// Whoever knows an option of one command knows it of all.
    #[test]
    fn options_of_one_name_take_the_same_value() {
        let mut all = BTreeMap::new();
        options(&Arguments::command(), &mut all);
        assert!(all.len() > 40, "{all:?}");
        // One trace, or several that each name their format.
        all.remove("trace");
        for (name, uses) in all {
            assert!(
                uses.iter().all(|(_, value)| *value == uses[0].1),
                "--{name}: {uses:?}"
            );
        }
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }
}
