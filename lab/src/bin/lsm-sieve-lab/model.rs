//! `model`: the tables and figures of the literature, computed from this crate's formulas.

use std::path::PathBuf;

use lsm_sieve_lab::chart::Ground;

use crate::figures::{self, Contents, Name};
use crate::outcome::Stop;
use crate::output::Output;
use crate::output_file::OutputFile;

const AFTER_HELP: &str = "Examples:
  lsm-sieve-lab model
  lsm-sieve-lab model table1
  lsm-sieve-lab model fig6 --svg fig6.svg --csv fig6.csv
  lsm-sieve-lab model grandi --png grandi.png --dark
  lsm-sieve-lab model compare --json

Without a figure, all figures are listed; with --json, the list has their points.";

/// Print a table or figure of the literature, and plot it.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The figure; all figures are listed without it.
    #[arg(value_name = "FIGURE")]
    name: Option<Name>,
    /// Plot it into this file as SVG, which follows the reader's light or dark mode.
    #[arg(long, value_name = "FILE", requires = "name")]
    svg: Option<PathBuf>,
    /// Plot it into this file as PNG.
    #[arg(long, value_name = "FILE", requires = "name")]
    png: Option<PathBuf>,
    /// Plot the PNG on a dark background.
    #[arg(long, requires = "png")]
    dark: bool,
    /// Write its points into this file as CSV.
    #[arg(long, value_name = "FILE", requires = "name")]
    csv: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<(), Stop> {
    let Some(name) = arguments.name else {
        return output.print(&Contents(figures::all()));
    };
    let file = |path: &Option<PathBuf>| path.as_deref().map(OutputFile::new).transpose();
    let (svg, png) = (file(&arguments.svg)?, file(&arguments.png)?);
    let csv = file(&arguments.csv)?;
    let figure = name.figure();
    if let Some(file) = svg {
        file.write(figure.chart.svg().as_bytes())?;
    }
    if let Some(file) = png {
        let ground = if arguments.dark {
            Ground::Dark
        } else {
            Ground::Light
        };
        file.write(&figure.chart.png(ground)?)?;
    }
    if let Some(file) = csv {
        file.write(figure.csv().as_bytes())?;
    }
    output.print(&figure)
}
