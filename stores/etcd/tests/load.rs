//! Writers of a cluster that hold a filter against what etcd acknowledged to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use lsm_sieve_etcd::etcd_client::{Client, Error, Txn, TxnOp};
use lsm_sieve_stores::feed::FeedFilter;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::nodes::connect;

const WRITERS: u64 = 3;

/// Keys of one transaction, at most.
const MANY: u64 = 40;

/// What all writers found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) writes: AtomicU64,
    pub(crate) failed: AtomicU64,
    /// Keys that were asked though they are there.
    pub(crate) asked: AtomicU64,
    pub(crate) lost: AtomicU64,
    /// Keys that never were, asked at the filter's revision and at the newest that any writer knows.
    pub(crate) never: AtomicU64,
    pub(crate) denied: AtomicU64,
    pub(crate) denied_at_newest: AtomicU64,
    /// Microseconds until the filter was at the revision of a write.
    pub(crate) lags: AtomicU64,
    pub(crate) lag: AtomicU64,
    pub(crate) longest_lag: AtomicU64,
    pub(crate) newest: AtomicI64,
}

pub(crate) fn get(count: &AtomicU64) -> u64 {
    count.load(Ordering::SeqCst)
}

fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::SeqCst);
}

impl Found {
    /// Whether the filter denies a key that is there since a revision.
    pub(crate) fn ask(&self, filter: &FeedFilter, key: &str, since: i64) {
        add(&self.asked, 1);
        if filter.is_absent(key.as_bytes(), since as u64) {
            add(&self.lost, 1);
            if get(&self.lost) < 10 {
                eprintln!("{key} of {since} is denied at {:?}", filter.position());
            }
        }
    }

    fn ask_absent(&self, filter: &FeedFilter, key: &str) {
        let newest = self.newest.load(Ordering::SeqCst) as u64;
        if let Some(position) = filter.position() {
            add(&self.never, 1);
            let is_denied = |at_least| u64::from(filter.is_absent(key.as_bytes(), at_least));
            add(&self.denied, is_denied(position));
            add(&self.denied_at_newest, is_denied(newest));
        }
    }
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let percent = |part: &AtomicU64, of: &AtomicU64| 100.0 * get(part) as f64 / get(of) as f64;
        write!(
            f,
            "{} writes, {} failed; {} asked, {} lost; {} absent asked, {:.1} % denied at the \
             filter's revision, {:.1} % at the newest; {:.1} ms behind a write (mean of {}), {:.0} \
             ms at most",
            get(&self.writes),
            get(&self.failed),
            get(&self.asked),
            get(&self.lost),
            get(&self.never),
            percent(&self.denied, &self.never),
            percent(&self.denied_at_newest, &self.never),
            get(&self.lag) as f64 / get(&self.lags).max(1) as f64 / 1e3,
            get(&self.lags),
            get(&self.longest_lag) as f64 / 1e3,
        )
    }
}

/// Writers that run.
pub(crate) struct Load {
    pub(crate) found: Arc<Found>,
    stop: Arc<AtomicBool>,
    writers: JoinSet<Vec<(String, i64)>>,
}

impl Load {
    pub(crate) fn start(endpoints: &[String], filter: &FeedFilter) -> Self {
        let mut load = Self {
            found: Arc::default(),
            stop: Arc::default(),
            writers: JoinSet::new(),
        };
        for number in 0..WRITERS {
            let writer = Writer {
                number,
                rng: StdRng::seed_from_u64(number),
                endpoints: endpoints.to_vec(),
                filter: filter.clone(),
                found: Arc::clone(&load.found),
                next: 0,
                there: Vec::new(),
                deleted: Vec::new(),
            };
            load.writers.spawn(writer.run(Arc::clone(&load.stop)));
        }
        load
    }

    /// Ends the writers. Returns the keys that are there, each with the revision of its last put.
    pub(crate) async fn end(self) -> Vec<(String, i64)> {
        self.stop.store(true, Ordering::SeqCst);
        self.writers.join_all().await.concat()
    }
}

/// Writes keys of its own, so that it knows which are there.
struct Writer {
    number: u64,
    rng: StdRng,
    endpoints: Vec<String>,
    filter: FeedFilter,
    found: Arc<Found>,
    next: u64,
    /// Keys that are there, with the revision of the last put that was acknowledged.
    there: Vec<(String, i64)>,
    deleted: Vec<String>,
}

/// What one write does.
#[derive(Default)]
struct Write {
    puts: Vec<String>,
    deletes: Vec<String>,
}

impl Write {
    async fn send(&self, client: &mut Client) -> Result<i64, Error> {
        let header = match (&self.puts[..], &self.deletes[..]) {
            ([put], []) => client.put(put.as_str(), "value", None).await?.take_header(),
            ([], [delete]) => client.delete(delete.as_str(), None).await?.take_header(),
            (puts, deletes) => {
                let puts = puts
                    .iter()
                    .map(|key| TxnOp::put(key.as_str(), "value", None));
                let deletes = deletes.iter().map(|key| TxnOp::delete(key.as_str(), None));
                let all: Vec<_> = puts.chain(deletes).collect();
                client.txn(Txn::new().and_then(all)).await?.take_header()
            }
        };
        Ok(header.unwrap().revision())
    }
}

impl Writer {
    async fn run(mut self, stop: Arc<AtomicBool>) -> Vec<(String, i64)> {
        let mut client = None;
        while !stop.load(Ordering::SeqCst) {
            let Some(connected) = &mut client else {
                client = connect(&self.endpoints).await.ok();
                continue;
            };
            let write = self.plan();
            match write.send(connected).await {
                Ok(revision) => {
                    self.found.newest.fetch_max(revision, Ordering::SeqCst);
                    self.acknowledged(write, revision);
                    if self.next.is_multiple_of(4) {
                        self.measure_lag(revision).await;
                    }
                }
                // It may take place or not, now or later, so its keys are not used any more.
                Err(_) => {
                    add(&self.found.failed, 1);
                    client = None;
                    sleep(Duration::from_millis(50)).await;
                }
            }
            for number in 0..10 {
                let never = format!("never/{}/{}/{number}", self.number, self.next);
                self.found.ask_absent(&self.filter, &never);
            }
        }
        self.there
    }

    fn plan(&mut self) -> Write {
        let mut write = Write::default();
        let kind = self.rng.random_range(0..10);
        let puts = if kind == 0 {
            self.rng.random_range(2..MANY)
        } else {
            u64::from(kind < 8)
        };
        for _ in 0..puts {
            // One in four was there before.
            let again = self
                .rng
                .random_ratio(1, 4)
                .then(|| self.deleted.pop())
                .flatten();
            write.puts.push(again.unwrap_or_else(|| self.new_key()));
        }
        let deletes = if kind == 0 { 3 } else { u64::from(kind >= 8) };
        for _ in 0..deletes {
            if !self.there.is_empty() {
                let at = self.rng.random_range(0..self.there.len());
                write.deletes.push(self.there.swap_remove(at).0);
            }
        }
        if write.puts.is_empty() && write.deletes.is_empty() {
            write.puts.push(self.new_key());
        }
        write
    }

    fn new_key(&mut self) -> String {
        self.next += 1;
        format!("writer/{}/{:08}", self.number, self.next)
    }

    fn acknowledged(&mut self, write: Write, revision: i64) {
        add(&self.found.writes, 1);
        self.deleted.extend(write.deletes);
        self.there
            .extend(write.puts.into_iter().map(|key| (key, revision)));
        // The newest, and others.
        let newest = self.there.iter().rev().take(MANY as usize);
        let others = self.there.iter().rev().skip(MANY as usize).step_by(41);
        for (key, since) in newest.chain(others) {
            self.found.ask(&self.filter, key, *since);
        }
    }

    async fn measure_lag(&self, revision: i64) {
        let began = Instant::now();
        while self.filter.position() < Some(revision as u64) {
            // While it is cut off.
            if began.elapsed() > Duration::from_secs(1) {
                return;
            }
            sleep(Duration::from_millis(1)).await;
        }
        let lag = began.elapsed().as_micros() as u64;
        add(&self.found.lags, 1);
        add(&self.found.lag, lag);
        self.found.longest_lag.fetch_max(lag, Ordering::SeqCst);
    }
}
