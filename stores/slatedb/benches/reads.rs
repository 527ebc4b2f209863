//! What the filters save and what they cost, beside SlateDB alone. Both sides are measured in turns,
//! and medians compared.
//!
//! ```sh
//! cargo bench --bench reads            # in memory
//! cargo bench --bench reads -- weed    # and over SeaweedFS (see `tests/weed.rs`)
//! ```
//!
//! A million random keys of 16 bytes with values of 100 bytes. "5 sources" are five SSTs that all
//! span the whole range of keys. SlateDB alone has its Bloom filters of 10 bits per key and its
//! default caches. A delay is added to each request where it says so.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]
#![expect(
    clippy::disallowed_methods,
    reason = "files of servers and processes, not of filters"
)]

#[path = "../tests/numbers.rs"]
mod numbers;
#[path = "../tests/weed.rs"]
mod weed;

use futures::stream::BoxStream;
use lsm_sieve_slatedb::slatedb::admin::AdminBuilder;
use lsm_sieve_slatedb::slatedb::bytes::Bytes;
use lsm_sieve_slatedb::slatedb::config::{
    CheckpointOptions, CheckpointScope, DbReaderOptions, FlushOptions, FlushType, Settings,
    WriteOptions,
};
use lsm_sieve_slatedb::slatedb::object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, memory::InMemory, path::Path,
};
use lsm_sieve_slatedb::slatedb::{
    BloomFilterPolicy, CheckpointCreateResult, Db, DbReader, DbReaderMode, FilterPolicy, WriteBatch,
};
use lsm_sieve_slatedb::{Bucket, Options, Publisher, SievePolicy, SieveReader, SieveWriter};
use numbers::key;
use std::fmt;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const KEYS: u64 = 1_000_000;
const DELAY: Duration = Duration::from_millis(25);

#[tokio::main]
async fn main() {
    let with_weed = std::env::args().any(|argument| argument == "weed");
    for sources in [1, 5, 17] {
        println!("\n== in memory, {KEYS} keys, {sources} sources");
        let pair = Pair::load(Arc::new(InMemory::new()), sources, KEYS).await;
        pair.filters().await;
        pair.cold(DELAY).await;
        pair.absent_reads(DELAY, [50_000, 5_000]).await;
        pair.warm().await;
    }
    println!("\n== a new reader until its first absent answer, 100 keys per SST");
    for ssts in [10, 100, 1_000] {
        let pair = Pair::load(Arc::new(InMemory::new()), ssts, ssts * 100).await;
        print!("{ssts:5} SSTs: ");
        pair.cold(DELAY).await;
    }
    println!("\n== writes, 100,000 keys in batches of 100, then a flush");
    writes().await;
    println!("\n== single puts of the writer, 20,000 keys");
    puts().await;
    if with_weed {
        println!("\n== SeaweedFS, 200,000 keys, 5 sources, no delay added");
        let weed = weed::Weed::single();
        let pair = Pair::load(weed::store(weed.port()), 5, 200_000).await;
        pair.cold(Duration::ZERO).await;
        pair.absent_reads(Duration::ZERO, [50_000, 20_000]).await;
        pair.warm().await;
    }
}

/// The same keys in two databases: one with our filters, one with SlateDB's.
struct Pair {
    store: Arc<dyn ObjectStore>,
    keys: u64,
    sieve: CheckpointCreateResult,
    bloom: CheckpointCreateResult,
}

impl Pair {
    async fn load(store: Arc<dyn ObjectStore>, sources: u64, keys: u64) -> Self {
        let bucket = bucket("sieve", store.clone()).await;
        let publisher = Publisher::new(bucket, Options::default());
        let own: Arc<dyn FilterPolicy> = Arc::new(publisher.policy());
        let sieve = load("sieve", store.clone(), sources, keys, own).await;
        let began = Instant::now();
        publisher.publish(&sieve).await.expect("a publication");
        println!("published in {:.2} s", began.elapsed().as_secs_f64());
        let bloom = Arc::new(BloomFilterPolicy::new(10));
        let bloom = load("bloom", store.clone(), sources, keys, bloom).await;
        Self {
            store,
            keys,
            sieve,
            bloom,
        }
    }

    async fn with(&self, store: Arc<dyn ObjectStore>) -> SieveReader {
        let bucket = Bucket::open("sieve", store).await.expect("an identity");
        let reader = SieveReader::open(bucket, Options::default()).await;
        reader.expect("a published checkpoint")
    }

    async fn without(&self, store: Arc<dyn ObjectStore>) -> DbReader {
        let options = DbReaderOptions {
            skip_wal_replay: true,
            ..DbReaderOptions::default()
        };
        let reader = DbReader::builder("bloom", store)
            .with_reader_mode(DbReaderMode::Checkpoint(self.bloom.id))
            .with_options(options);
        reader.build().await.expect("a checkpoint")
    }

    /// Bytes of filters, in the SSTs and in the summary.
    async fn filters(&self) {
        let sizes = [("sieve", &self.sieve), ("bloom", &self.bloom)].map(async |(root, of)| {
            let admin = AdminBuilder::new(root, self.store.clone()).build();
            let manifest = admin.read_manifest(Some(of.manifest_id)).await;
            let manifest = manifest.expect("a manifest").expect("a manifest");
            let views = manifest.all_sst_views();
            views.map(|view| view.sst.info.filter_len).sum::<u64>()
        });
        let [sieve, bloom] = sizes;
        let summary = self.with(self.store.clone()).await.stats().summary_bytes;
        let bits = |bytes: u64| bytes as f64 * 8.0 / self.keys as f64;
        println!(
            "bits per key: in SSTs {:.2}, SlateDB {:.2}; summary {:.2}",
            bits(sieve.await),
            bits(bloom.await),
            bits(summary)
        );
    }

    /// A new process' reader until it has answered its first absent key.
    async fn cold(&self, delay: Duration) {
        let key = absent_key(1);
        let slow = Slow::over(self.store.clone(), delay);
        let began = Instant::now();
        let reader = self.with(slow.clone()).await;
        let opened = slow.take();
        assert_eq!(reader.get(&key).await.expect("a read"), None);
        let (with, after) = (began.elapsed(), slow.take());
        let began = Instant::now();
        let reader = self.without(slow.clone()).await;
        let opened_without = slow.take();
        assert_eq!(reader.get(key).await.expect("a read"), None);
        let (without, after_without) = (began.elapsed(), slow.take());
        println!(
            "first absent answer: {:.0} ms, {} + {} requests, {} KB; \
             SlateDB {:.0} ms, {} + {} requests, {} KB",
            with.as_secs_f64() * 1e3,
            opened.requests,
            after.requests,
            (opened.bytes + after.bytes) / 1_000,
            without.as_secs_f64() * 1e3,
            opened_without.requests,
            after_without.requests,
            (opened_without.bytes + after_without.bytes) / 1_000,
        );
    }

    /// Absent reads from the first on, with a delay for each request: the number with our filters,
    /// and the number without.
    async fn absent_reads(&self, delay: Duration, [reads, reads_without]: [u64; 2]) {
        let slow = Slow::over(self.store.clone(), delay);
        let with = self.with(slow.clone()).await;
        slow.take();
        let (mut took, began) = (Vec::new(), Instant::now());
        let (mut needed, mut requests) = (0, 0);
        for number in 0..reads {
            let (key, began) = (absent_key(number), Instant::now());
            assert_eq!(with.get(&key).await.expect("a read"), None);
            took.push(began.elapsed().as_secs_f64() * 1e6);
            if slow.requests() > 0 {
                needed += 1;
                requests += slow.take().requests;
            }
        }
        let total = began.elapsed();
        println!(
            "{reads} absent reads: {:.2} s, {:.3} % need no request, {:.5} requests per read, \
             p50 {:.2} us, p99 {:.2} us",
            total.as_secs_f64(),
            100.0 * (reads - needed) as f64 / reads as f64,
            requests as f64 / reads as f64,
            percentile(&mut took, 0.5),
            percentile(&mut took, 0.99),
        );
        let without = self.without(slow.clone()).await;
        slow.take();
        let (mut took, began) = (Vec::new(), Instant::now());
        for number in 0..reads_without {
            let (key, began) = (absent_key(number), Instant::now());
            assert_eq!(without.get(key).await.expect("a read"), None);
            took.push(began.elapsed().as_secs_f64() * 1e6);
        }
        let (total, requests) = (began.elapsed(), slow.take().requests);
        println!(
            "{reads_without} by SlateDB alone: {:.2} s, {:.5} requests per read, p50 {:.2} us, \
             p99 {:.2} us",
            total.as_secs_f64(),
            requests as f64 / reads_without as f64,
            percentile(&mut took, 0.5),
            percentile(&mut took, 0.99),
        );
    }

    /// Reads of what is in all caches, in turns.
    async fn warm(&self) {
        let (with, without) = (
            self.with(self.store.clone()).await,
            self.without(self.store.clone()).await,
        );
        let present: Vec<[u8; 16]> = (0..3_000).map(|i| key(i * 331 % self.keys)).collect();
        let absent: Vec<[u8; 16]> = (0..3_000).map(|i| absent_key(1 << 30 | i)).collect();
        let pinned = with.pinned();
        for (name, keys) in [("absent", &absent), ("present", &present)] {
            let is_present = name == "present";
            let mut times = [Vec::new(), Vec::new(), Vec::new()];
            // The first two turns fill the caches.
            for turn in 0..33 {
                let took = [
                    time(keys, is_present, async |key| with.get(key).await).await,
                    time(keys, is_present, async |key| pinned.engine().get(key).await).await,
                    time(keys, is_present, async |key| without.get(key).await).await,
                ];
                if turn >= 2 {
                    times
                        .iter_mut()
                        .zip(took)
                        .for_each(|(times, took)| times.push(took));
                }
            }
            let ratio = |one: &[f64], other: &[f64]| {
                let ratios = one.iter().zip(other).map(|(one, other)| one / other);
                percentile(&mut ratios.collect::<Vec<_>>(), 0.5)
            };
            let to_engine = ratio(&times[0], &times[1]);
            let to_without = ratio(&times[0], &times[2]);
            let [with, engine, without] = times.map(|mut times| percentile(&mut times, 0.5));
            println!(
                "warm, {name}: {with:.0} ns, the same SSTs without the summary {engine:.0} ns \
                 (ratio {to_engine:.4}), SlateDB alone {without:.0} ns (ratio {to_without:.4}, \
                 1 / {:.1})",
                1.0 / to_without
            );
        }
    }
}

/// Nanoseconds per read.
async fn time(
    keys: &[[u8; 16]],
    is_present: bool,
    read: impl AsyncFn(
        &[u8; 16],
    ) -> std::result::Result<Option<Bytes>, lsm_sieve_slatedb::slatedb::Error>,
) -> f64 {
    let began = Instant::now();
    for key in keys {
        let found = read(black_box(key)).await.expect("a read");
        assert_eq!(found.is_some(), is_present);
    }
    began.elapsed().as_secs_f64() * 1e9 / keys.len() as f64
}

/// The time to write and flush with either filter, in turns.
async fn writes() {
    let mut ratios = Vec::new();
    for turn in 0..15 {
        let mut took = [0.0, 0.0];
        // Whoever is first changes from turn to turn.
        for which in [turn % 2, 1 - turn % 2] {
            let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
            let policy: Arc<dyn FilterPolicy> = match which {
                0 => Arc::new(SievePolicy::new(&bucket("db", store.clone()).await)),
                _ => Arc::new(BloomFilterPolicy::new(10)),
            };
            let began = Instant::now();
            load("db", store, 4, 100_000, policy).await;
            took[which] = began.elapsed().as_secs_f64();
        }
        ratios.push(took[0] / took[1]);
    }
    println!(
        "ratio to SlateDB's filters: {:.4}",
        percentile(&mut ratios, 0.5)
    );
}

/// The time of single puts through the writer's front, in turns with a bare `Db`.
async fn puts() {
    let mut ratios = Vec::new();
    for turn in 0..15 {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let bucket = bucket("front", store.clone()).await;
        let publisher = Publisher::new(bucket.clone(), Options::default());
        let builder = Db::builder(Path::from("front"), store.clone()).with_settings(settings());
        let front = SieveWriter::open(builder, bucket, Options::default(), publisher).await;
        let front = front.expect("a new database");
        let bare = Db::builder("bare", store)
            .with_settings(settings())
            .build()
            .await;
        let bare = bare.expect("a new database");
        let mut took = [0.0, 0.0];
        for which in [turn % 2, 1 - turn % 2] {
            let began = Instant::now();
            for number in 0..20_000 {
                match which {
                    0 => front.put(&key(number), [7; 100]).await.expect("a put"),
                    _ => bare.put(key(number), [7; 100]).await.expect("a put"),
                };
            }
            took[which] = began.elapsed().as_secs_f64();
        }
        ratios.push(took[0] / took[1]);
        front.close().await.expect("a close");
        bare.close().await.expect("a close");
    }
    println!(
        "ratio to a bare database: {:.4}",
        percentile(&mut ratios, 0.5)
    );
}

async fn bucket(root: &str, store: Arc<dyn ObjectStore>) -> Bucket {
    Bucket::create(root, store).await.expect("an identity")
}

fn settings() -> Settings {
    Settings {
        l0_sst_size_bytes: 1 << 30,
        l0_max_ssts: 2_000,
        l0_max_ssts_per_key: 2_000,
        max_unflushed_bytes: 2 << 30,
        min_filter_keys: 0,
        compactor_options: None,
        garbage_collector_options: None,
        ..Settings::default()
    }
}

/// Writes keys into as many SSTs as asked for.
async fn load(
    root: &str,
    store: Arc<dyn ObjectStore>,
    ssts: u64,
    keys: u64,
    policy: Arc<dyn FilterPolicy>,
) -> CheckpointCreateResult {
    let db = Db::builder(root, store)
        .with_settings(settings())
        .with_filter_policies(vec![policy]);
    let db = db.build().await.expect("a new database");
    for sst in 0..ssts {
        let numbers: Vec<u64> = (sst * keys / ssts..(sst + 1) * keys / ssts).collect();
        for numbers in numbers.chunks(100) {
            let mut batch = WriteBatch::new();
            numbers
                .iter()
                .for_each(|&number| batch.put(key(number), [7; 100]));
            let options = WriteOptions::default();
            db.write_with_options(batch, &options)
                .await
                .expect("a write");
        }
        let flush_type = FlushType::MemTable;
        let flushed = db.flush_with_options(FlushOptions { flush_type }).await;
        flushed.expect("a flush");
    }
    let options = CheckpointOptions::default();
    let created = db.create_checkpoint(CheckpointScope::All, &options).await;
    db.close().await.expect("a close");
    created.expect("a checkpoint")
}

fn absent_key(number: u64) -> [u8; 16] {
    key((1 << 40) + number)
}

fn percentile(values: &mut [f64], at: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * at) as usize]
}

/// Counts requests and bytes, and delays each request.
#[derive(Debug)]
struct Slow {
    inner: Arc<dyn ObjectStore>,
    delay: Duration,
    requests: AtomicU64,
    bytes: AtomicU64,
}

/// What a store was asked for.
struct Asked {
    requests: u64,
    bytes: u64,
}

impl Slow {
    fn over(inner: Arc<dyn ObjectStore>, delay: Duration) -> Arc<Self> {
        Arc::new(Self {
            inner,
            delay,
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        })
    }

    fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// The requests since the last call.
    fn take(&self) -> Asked {
        Asked {
            requests: self.requests.swap(0, Ordering::SeqCst),
            bytes: self.bytes.swap(0, Ordering::SeqCst),
        }
    }

    async fn count(&self) {
        self.requests.fetch_add(1, Ordering::SeqCst);
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
    }
}

#[async_trait::async_trait]
impl ObjectStore for Slow {
    async fn put_opts(&self, at: &Path, is: PutPayload, o: PutOptions) -> Result<PutResult> {
        self.count().await;
        self.inner.put_opts(at, is, o).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.count().await;
        self.inner.put_multipart_opts(at, options).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        self.count().await;
        let found = self.inner.get_opts(at, options).await?;
        let bytes = found.range.end - found.range.start;
        self.bytes.fetch_add(bytes, Ordering::SeqCst);
        Ok(found)
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.count().await;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

impl fmt::Display for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slow({})", self.inner)
    }
}
