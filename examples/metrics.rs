//! The metrics of the filters, for Prometheus.
//!
//! ```sh
//! cargo run --features metrics --example metrics                       # prints them once
//! cargo run --features metrics --example metrics -- 127.0.0.1:9184     # serves them at /metrics
//! ```
//!
//! The crate `metrics` is a facade, so any other exporter may take the place of this one. With its feature
//! `http-listener`, `metrics-exporter-prometheus` serves by itself; here a loop does it, to show that the figures
//! are copied to the recorder right before a scrape. `docs/grafana.json` is a dashboard of them.

#![expect(clippy::print_stdout, reason = "an example for the command line")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};

use lsm_sieve::{SieveDb, SieveOptions, describe_metrics};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let prometheus = PrometheusBuilder::new().install_recorder()?;
    describe_metrics();

    let folder = tempfile::tempdir()?;
    let db = open(folder.path())?;
    match std::env::args().nth(1) {
        None => print!("{}", scrape(&db, &prometheus)),
        Some(address) => serve(&TcpListener::bind(address)?, &db, &prometheus)?,
    }
    Ok(())
}

/// A database of users that was asked for as many again who do not exist.
fn open(folder: &std::path::Path) -> Result<SieveDb, Box<dyn std::error::Error>> {
    let mut options = rocksdb::Options::default();
    options.create_if_missing(true);
    let db = SieveDb::open(&options, &SieveOptions::default(), folder)?;
    for user in 0..10_000_u32 {
        db.put(user.to_be_bytes(), b"a record")?;
    }
    for user in 0..20_000_u32 {
        db.get(user.to_be_bytes())?;
    }
    Ok(db)
}

/// The text that Prometheus reads. `users` becomes the label `db`.
fn scrape(db: &SieveDb, prometheus: &PrometheusHandle) -> String {
    db.filters().health().record_metrics("users");
    prometheus.render()
}

fn serve(
    listener: &TcpListener,
    db: &SieveDb,
    prometheus: &PrometheusHandle,
) -> std::io::Result<()> {
    println!("http://{}/metrics", listener.local_addr()?);
    for stream in listener.incoming() {
        // A client that went away is no reason to stop.
        if let Err(error) = stream.and_then(|stream| answer(stream, &scrape(db, prometheus))) {
            eprintln!("metrics: {error}");
        }
    }
    Ok(())
}

/// Answers every request alike.
fn answer(mut stream: TcpStream, text: &str) -> std::io::Result<()> {
    for line in BufReader::new(&stream).lines() {
        if line?.is_empty() {
            break;
        }
    }
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{text}",
        text.len()
    )
}
