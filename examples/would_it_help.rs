//! Counts the lookups of a trace that a filter could answer: those of new ids, if the first access
//! to an id inserts it. `cargo run --example would_it_help -- FILE lis|u64be|u32be|lines`

#![expect(clippy::print_stdout, reason = "an example for the command line")]

use std::collections::HashSet;
use std::path::Path;

use clap::ValueEnum as _;
use lsm_sieve_cli::workload::trace::{Format, Trace};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(path), Some(format)) = (arguments.next(), arguments.next()) else {
        println!("usage: would_it_help FILE lis|u64be|u32be|lines");
        return Ok(());
    };
    let mut seen = HashSet::new();
    let mut lookups = 0_u64;
    for id in Trace::open(Path::new(&path), Format::from_str(&format, false)?)? {
        seen.insert(id?);
        lookups += 1;
    }
    let share = 100.0 * seen.len() as f64 / lookups as f64;
    println!(
        "{} of {lookups} lookups ({share:.1} %) are of new ids",
        seen.len()
    );
    if share < 10.0 {
        println!("too few misses: filters would cost more than they save");
    }
    Ok(())
}
