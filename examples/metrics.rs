//! Prints the metrics of the filters in the format of Prometheus: `cargo run --example metrics`

#![expect(clippy::print_stdout, reason = "an example for the command line")]

use lsm_sieve::{CfHealth, Health, SieveDb, SieveOptions};

fn figures(family: &CfHealth) -> [(&'static str, f64); 10] {
    let stats = &family.stats;
    // While coverage is not known, every answer is *maybe*.
    let uncovered = family.uncovered.map_or(f64::NAN, |tables| tables as f64);
    [
        ("reads_avoided_total", stats.absent as f64),
        ("reads_found_total", stats.found as f64),
        ("false_positives_total", stats.false_positives as f64),
        ("reads_uncovered_total", stats.uncovered as f64),
        ("reads_not_consulted_total", stats.not_consulted as f64),
        ("false_negatives_total", stats.false_negatives as f64),
        ("uncovered_ssts", uncovered),
        ("predicted_rate", family.predicted_rate),
        ("summary_bytes", family.memory.to_bytes() as f64),
        ("front_bytes", family.overhead.to_bytes() as f64),
    ]
}

fn print(health: &Health) {
    for family in &health.cfs {
        for (name, value) in figures(family) {
            println!("lsm_sieve_{name}{{family={:?}}} {value}", family.name);
        }
    }
    let segments = health.memory.segments.to_bytes();
    println!("lsm_sieve_segment_bytes {segments}");
    println!("lsm_sieve_distrusted {}", u8::from(health.false_negatives));
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let mut options = rocksdb::Options::default();
    options.create_if_missing(true);
    let db = SieveDb::open(&options, &SieveOptions::default(), folder.path())?;
    for user in 0..10_000_u32 {
        db.put(user.to_be_bytes(), b"a record")?;
    }
    for user in 0..20_000_u32 {
        db.get(user.to_be_bytes())?;
    }
    print(&db.health());
    Ok(())
}
