//! `completions`: writes the completions of a shell to standard output.
//!
//! Packagers run the command once it is built. A build script would leave the file in a folder whose name they
//! cannot know, and a generator beside the command could be of another version.

use std::io::{self, Write as _};

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::outcome::{Stop, writing};

const AFTER_HELP: &str = "Examples:
  lsm-sieve completions bash > /usr/share/bash-completion/completions/lsm-sieve
  lsm-sieve completions zsh > ~/.zfunc/_lsm-sieve
  lsm-sieve completions fish > ~/.config/fish/completions/lsm-sieve.fish";

/// Print the completions for a shell.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The shell.
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Stop> {
    let mut command = crate::Arguments::command();
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "lsm-sieve", &mut script);
    io::stdout().lock().write_all(&script).map_err(writing)
}
