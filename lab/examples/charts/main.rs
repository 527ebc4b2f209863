//! Draws the pictures of the documentation from recorded figures:
//! `cargo run --example charts -- ../docs`
//!
//! It writes the picture of the README, `images/gain-light.svg` and `gain-dark.svg`, and the page `benchmarks.html`, which
//! needs no other file. Every figure is in `benches/record`, with its commit, machine and command. To add
//! one, add its measurement there.

#![expect(
    clippy::disallowed_methods,
    reason = "a chart is no filter: one that is cut short is drawn again"
)]

mod busy;
mod gain;
mod jobs;
mod misses;
mod page;
mod record;

use std::path::Path;
use std::{env, fs};

use lsm_sieve_lab::chart::Ground;

use crate::page::Section;
use crate::record::{Measurements, Origin, Recorded};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = env::args().nth(1).ok_or("usage: charts FOLDER")?;
    let folder = Path::new(&folder);
    let gain: Measurements<gain::Measured> = serde_json::from_str(gain::RECORD)?;
    let misses: Measurements<misses::Measured> = serde_json::from_str(misses::RECORD)?;
    let jobs: Recorded<Vec<jobs::Job>> = serde_json::from_str(jobs::RECORD)?;
    let busy: Recorded<busy::Report> = serde_json::from_str(busy::RECORD)?;

    fs::create_dir_all(folder.join("images"))?;
    for (name, ground) in [("light", Ground::Light), ("dark", Ground::Dark)] {
        let file = folder.join(format!("images/gain-{name}.svg"));
        fs::write(file, gain::chart(&gain).svg_on(ground))?;
    }
    let sections = [
        Section {
            title: "Times as fast, by the share of lookups that miss",
            svg: gain::chart(&gain).inline_svg(),
            about: "Whole jobs with everything that they do, and lookups alone. Bars extend from the lowest run to \
                    the highest."
                .to_owned(),
            origins: origins(&gain),
        },
        Section {
            title: "A lookup of an absent key",
            svg: misses::chart(&misses).inline_svg(),
            about: misses.about.clone(),
            origins: origins(&misses),
        },
        Section {
            title: "Whole jobs",
            svg: jobs::svg(&jobs),
            about: format!(
                "{} Left of the line a job is slower with filters. What each job does is in the help of \
                 lsm-sieve-lab bench jobs.",
                jobs.about
            ),
            origins: jobs.origins(),
        },
        Section {
            title: "Beside writers that never pause",
            svg: busy::chart(&busy).inline_svg(),
            about: busy.about.clone(),
            origins: busy.origins(),
        },
    ];
    fs::write(folder.join("benchmarks.html"), page::page(&sections))?;
    Ok(())
}

/// Where each measurement comes from.
fn origins<P>(of: &Measurements<P>) -> Vec<(String, Origin)> {
    let all = of.measurements.iter();
    all.map(|of| (of.series.clone(), of.origin.clone()))
        .collect()
}
