//! `man`: writes the manual pages, one for the command and one for each subcommand.

use std::path::PathBuf;

use clap::CommandFactory as _;
use clap_mangen::Man;
use lsm_sieve_cli::workload::report::Tabular;
use serde::Serialize;

use crate::outcome::Stop;
use crate::output::Output;
use crate::output_file::{OutputFile, create_folder};

const AFTER_HELP: &str = "Examples:
  lsm-sieve man /usr/share/man/man1
  lsm-sieve man man && man --local-file man/lsm-sieve-advise-filter.1";

/// Write the manual pages into a folder.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The folder for the pages; created if it does not exist.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<(), Stop> {
    let folder = &arguments.folder;
    create_folder(folder)?;
    let mut command = crate::Arguments::command();
    // Gives each subcommand its full name and the options of all commands.
    command.build();
    let mut pages = Vec::new();
    pages_of(&command, &mut pages)?;
    for (name, page) in &pages {
        OutputFile::new(&folder.join(name))?.write(page)?;
    }
    let names = pages.into_iter().map(|(name, _)| name);
    output.print(&Written {
        pages: names.collect(),
    })
}

/// The pages of a command and of those below it: file name and contents.
fn pages_of(command: &clap::Command, pages: &mut Vec<(String, Vec<u8>)>) -> Result<(), Stop> {
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render(&mut page)?;
    pages.push((man.get_filename(), page));
    let below = command.get_subcommands();
    below
        .filter(|command| command.get_name() != "help" && !command.is_hide_set())
        .try_for_each(|command| pages_of(command, pages))
}

#[derive(Serialize)]
struct Written {
    pages: Vec<String>,
}

impl Tabular for Written {
    fn head(&self) -> Vec<String> {
        vec!["page".to_owned()]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        self.pages.iter().map(|page| vec![page.clone()]).collect()
    }

    fn legend(&self) -> Vec<(&str, &str)> {
        vec![("page", "a file that was written into the folder")]
    }
}
