//! The command `lsm-sieve`: shows, measures, inspects and checks the filters.
//!
//! Exit codes: 0, no problem was found; 1, a finding, such as a lost key; 2, the command could not
//! do its work because of bad input, a failing disk or Ctrl-C. Results go to standard output,
//! everything else to standard error.

mod advise;
mod completions;
mod database;
mod demo;
mod gremillion;
mod inspect;
mod man;
mod replay;
mod verify;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use lsm_sieve_cli::{database_folder, engine, outcome, output, output_file, progress};
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
    /// Say below each table what its columns and rows mean.
    #[arg(long, global = true, conflicts_with = "json")]
    explain: bool,
}

#[derive(Subcommand)]
enum Command {
    #[command(subcommand)]
    Advise(advise::Subject),
    Demo(demo::Arguments),
    Gremillion(gremillion::Arguments),
    Replay(replay::Arguments),
    Inspect(inspect::Arguments),
    Verify(verify::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
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
        Command::Demo(demo) => demo::run(&demo, output),
        Command::Gremillion(gremillion) => gremillion::run(&gremillion, output),
        Command::Replay(replay) => replay::run(&replay, output),
        Command::Inspect(inspect) => inspect::run(&inspect, output),
        Command::Verify(verify) => verify::run(&verify, output),
        Command::Completions(completions) => completions::run(&completions),
        Command::Man(man) => man::run(&man, output),
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

    /// An option means the same in every command.
    #[test]
    fn options_of_one_name_take_the_same_value() {
        let mut all = BTreeMap::new();
        options(&Arguments::command(), &mut all);
        assert!(all.len() > 12, "{all:?}");
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
