//! Follows an etcd cluster and answers keys from standard input: one per line, or a key and the
//! revision that the answer must not be before.
//!
//! `cargo run --example follow -- http://127.0.0.1:2379 /tmp/filter`

#![expect(clippy::print_stdout, reason = "an example for the command line")]

use std::error::Error;
use std::io::BufRead;
use std::path::Path;
use std::time::Instant;

use lsm_sieve_etcd::{EtcdFollower, Options};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [endpoint, folder] = &arguments[..] else {
        return Err("an endpoint and a folder are needed".into());
    };
    let follower = EtcdFollower::open([endpoint], Path::new(folder), Options::default()).await?;
    follower.wait_for(1).await;
    println!("{:?}", follower.stats());
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (key, at_least) = match line.split_once(' ') {
            Some((key, revision)) => (key, revision.parse()?),
            None => (line.as_str(), 0),
        };
        let began = Instant::now();
        let is_absent = follower.is_absent(key.as_bytes(), at_least);
        let time = began.elapsed();
        let answer = if is_absent { "absent" } else { "maybe" };
        let position = follower.filter().position();
        println!("{answer} in {time:?}, followed to {position:?}");
    }
    follower.close().await;
    Ok(())
}
