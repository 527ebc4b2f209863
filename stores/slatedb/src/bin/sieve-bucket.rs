//! Shows, checks and makes what lies beside a SlateDB database in an object store.
//!
//! S3 is configured by the usual variables: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
//! `AWS_REGION`, and for other servers `AWS_ENDPOINT` and `AWS_ALLOW_HTTP=true`.

#![expect(clippy::print_stdout, reason = "a command prints what it found")]

use lsm_sieve_slatedb::slatedb::admin::AdminBuilder;
use lsm_sieve_slatedb::slatedb::config::CheckpointOptions;
use lsm_sieve_slatedb::slatedb::object_store::{
    ObjectStore, aws::AmazonS3Builder, local::LocalFileSystem, memory::InMemory, path::Path,
};
use lsm_sieve_slatedb::{Bucket, Options, Publisher, inspect, verify};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

const USAGE: &str = "\
usage: sieve-bucket inspect URL          what is published, and what a reader would hold
       sieve-bucket verify URL           read every row, and ask the filters for its key
       sieve-bucket attach URL [SECONDS] create a checkpoint (which expires after SECONDS) and
                                         publish it with a summary; the database may be open

URL is s3://BUCKET/PATH, file:///FOLDER or memory:///PATH, of the database.";

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["inspect", url] => show(url).await,
        ["verify", url] => check(url).await,
        ["attach", url] => attach(url, None).await,
        ["attach", url, seconds] => match seconds.parse() {
            Ok(seconds) => attach(url, Some(Duration::from_secs(seconds))).await,
            Err(_) => return usage(),
        },
        _ => return usage(),
    };
    done.unwrap_or_else(|error| {
        print_error(error.as_ref());
        ExitCode::FAILURE
    })
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

/// The error and what caused it.
fn print_error(error: &dyn std::error::Error) {
    eprint!("sieve-bucket: {error}");
    let mut cause = error.source();
    while let Some(source) = cause {
        eprint!(": {source}");
        cause = source.source();
    }
    eprintln!();
}

/// The object store and the path of the database in it.
fn database(url: &str) -> Result<(Arc<dyn ObjectStore>, Path), Failure> {
    let (scheme, rest) = url.split_once("://").ok_or("the URL has no scheme")?;
    Ok(match scheme {
        "s3" => {
            let (bucket, path) = rest.split_once('/').ok_or("the URL has no path")?;
            let store = AmazonS3Builder::from_env()
                .with_bucket_name(bucket)
                .build()?;
            (Arc::new(store), Path::parse(path)?)
        }
        "file" => {
            let store = LocalFileSystem::new();
            (Arc::new(store), Path::from_absolute_path(rest)?)
        }
        "memory" => (Arc::new(InMemory::new()), Path::parse(rest)?),
        _ => return Err(format!("{scheme}:// is not known").into()),
    })
}

async fn bucket(url: &str) -> Result<Bucket, Failure> {
    let (store, path) = database(url)?;
    Ok(Bucket::open(path, store).await?)
}

async fn show(url: &str) -> Result<ExitCode, Failure> {
    let found = inspect(&bucket(url).await?, &Options::default()).await?;
    println!("published:        {}", found.publication);
    println!("SSTs:             {}", found.ssts);
    println!(
        "covered:          {}",
        if found.is_covered { "all" } else { "not all" }
    );
    println!("summary:          {} bytes", found.summary_bytes);
    println!("filters of SSTs:  {}", found.resident_filters);
    Ok(ExitCode::SUCCESS)
}

async fn check(url: &str) -> Result<ExitCode, Failure> {
    let found = verify(&bucket(url).await?, &Options::default()).await?;
    println!("SSTs read:        {}", found.ssts);
    println!("rows:             {}", found.rows);
    println!("denied:           {}", found.denied);
    for reason in &found.unreadable {
        println!("unreadable:       {reason}");
    }
    Ok(if found.is_good() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

async fn attach(url: &str, lifetime: Option<Duration>) -> Result<ExitCode, Failure> {
    let (store, path) = database(url)?;
    let options = CheckpointOptions {
        lifetime,
        ..CheckpointOptions::default()
    };
    let admin = AdminBuilder::new(path.clone(), store.clone()).build();
    let checkpoint = admin.create_detached_checkpoint(&options).await?;
    let bucket = Bucket::create(path, store).await?;
    let published = Publisher::new(bucket, Options::default())
        .publish(&checkpoint)
        .await?;
    println!("published:        {published}");
    Ok(ExitCode::SUCCESS)
}
