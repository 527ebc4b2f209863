//! The processes of a fleet: writer, compactor, publisher and readers, which share nothing but the
//! bucket and a folder of models.
//!
//! Even numbers are written, odd ones never. The model of a checkpoint is what a scan of it finds,
//! because scans use no filters. So a writer may be killed at any time: whatever it left is in the
//! model or not.

use crate::numbers::key;
use crate::weed::store;
use futures::stream::BoxStream;
use lsm_sieve_slatedb::slatedb::admin::AdminBuilder;
use lsm_sieve_slatedb::slatedb::bytes::Bytes;
use lsm_sieve_slatedb::slatedb::config::{
    CheckpointOptions, CompactorOptions, DbReaderOptions, FlushOptions, FlushType,
    GarbageCollectorDirectoryOptions, GarbageCollectorOptions, Settings,
};
use lsm_sieve_slatedb::slatedb::object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result as StoreResult, path::Path,
};
use lsm_sieve_slatedb::slatedb::{
    BloomFilterPolicy, CompactorBuilder, Db, DbReader, DbReaderMode, FilterPolicy, WriteBatch,
};
use lsm_sieve_slatedb::{Bucket, Options, Publication, Publisher, SieveReader};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ROOT: &str = "fleet/db";
const NUMBERS: u64 = 40_000;
/// How often readers look for a newer checkpoint.
const REFRESHES: Duration = Duration::from_millis(500);
type Failure = Box<dyn std::error::Error + Send + Sync>;
type Model = HashMap<u64, u64>;

/// What a process is to do, and where. Travels in the environment.
#[derive(Clone, Debug)]
pub(crate) struct Role {
    /// `writer`, `compactor`, `publisher`, `reader`, or `plain`: a reader without filters of ours.
    pub(crate) name: &'static str,
    /// Of the S3 server.
    pub(crate) port: u16,
    /// For models, results, and the files `quiet` and `stop`.
    pub(crate) folder: PathBuf,
    pub(crate) number: u64,
    /// How many readers share this machine: the more, the rarer are checkpoints and reads.
    pub(crate) readers: u64,
}

const VARIABLE: &str = "LSM_SIEVE_ROLE";

impl Role {
    /// Starts this program again, as this role.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Child {
        let program = std::env::current_exe().expect("this program");
        let folder = self.folder.display();
        let role = format!(
            "{} {} {} {} {folder}",
            self.name, self.port, self.number, self.readers
        );
        Command::new(program)
            .args(arguments)
            .env(VARIABLE, role)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("a process")
    }

    /// The role that this process was started for.
    pub(crate) fn of_environment() -> Option<Self> {
        let role = std::env::var(VARIABLE).ok()?;
        let mut parts = role.splitn(5, ' ');
        let name = parts.next()?;
        let names = ["writer", "compactor", "publisher", "reader", "plain"];
        Some(Self {
            name: names.into_iter().find(|known| *known == name)?,
            port: parts.next()?.parse().ok()?,
            number: parts.next()?.parse().ok()?,
            readers: parts.next()?.parse().ok()?,
            folder: parts.next()?.into(),
        })
    }

    /// Runs until the file `stop` exists; all but readers end when the file `quiet` does. Whatever
    /// fails is tried again.
    pub(crate) async fn run(self) {
        let began = Instant::now();
        if matches!(self.name, "reader" | "plain") {
            return self.read().await;
        }
        let mut last = String::new();
        while !self.is_stopped() {
            let done = tokio::select! {
                done = self.work() => done,
                () = self.stopped() => Ok(()),
            };
            if let Err(error) = done {
                let (now, seconds) = (error.to_string(), began.elapsed().as_secs());
                if now != last {
                    eprintln!("{} {} after {seconds} s: {now}", self.name, self.number);
                    last = now;
                }
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        }
    }

    async fn work(&self) -> Result<(), Failure> {
        match self.name {
            "writer" => self.write().await,
            "compactor" => self.compact().await,
            _ => self.publish().await,
        }
    }

    /// Some seconds after the file `stop` appears. A writer without compactor would wait longer.
    async fn stopped(&self) {
        while !self.is_stopped() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }

    fn is_stopped(&self) -> bool {
        self.folder.join("stop").exists()
            || (self.is_quiet() && !matches!(self.name, "reader" | "plain"))
    }

    /// Whether nothing is written and published any more.
    fn is_quiet(&self) -> bool {
        self.folder.join("quiet").exists()
    }

    async fn bucket(&self) -> Result<Bucket, Failure> {
        Ok(Bucket::create(ROOT, store(self.port)).await?)
    }

    async fn write(&self) -> Result<(), Failure> {
        let bucket = self.bucket().await?;
        let settings = Settings {
            l0_sst_size_bytes: 256 << 10,
            l0_max_ssts: 256,
            l0_max_ssts_per_key: 256,
            flush_interval: Some(Duration::from_millis(100)),
            compactor_options: None,
            garbage_collector_options: None,
            object_store_max_retries: Some(2),
            ..Settings::default()
        };
        let db = Db::builder(ROOT, store(self.port))
            .with_settings(settings)
            .with_filter_policies(policies(&bucket));
        let db = db.build().await?;
        let mut rng = StdRng::seed_from_u64(self.number);
        while !self.is_stopped() {
            for _ in 0..20 {
                let mut batch = WriteBatch::new();
                for _ in 0..50 {
                    let number = rng.random_range(0..NUMBERS / 2) * 2;
                    match rng.random_ratio(12, 100) {
                        true => batch.delete(key(number)),
                        false => {
                            batch.put(key(number), rng.random::<u64>().to_be_bytes().repeat(8))
                        }
                    }
                }
                db.write(batch).await?;
            }
            let flush_type = FlushType::MemTable;
            db.flush_with_options(FlushOptions { flush_type }).await?;
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        Ok(db.close().await?)
    }

    async fn compact(&self) -> Result<(), Failure> {
        let bucket = self.bucket().await?;
        let options = CompactorOptions {
            poll_interval: Duration::from_millis(500),
            ..CompactorOptions::default()
        };
        let compactor = CompactorBuilder::new(ROOT, store(self.port))
            .with_options(options)
            .with_filter_policies(policies(&bucket))
            .build();
        Ok(compactor.run().await?)
    }

    /// Checkpoint, model, publication, and now and then the collection of what is not needed.
    async fn publish(&self) -> Result<(), Failure> {
        let admin = AdminBuilder::new(ROOT, store(self.port)).build();
        let publisher = Publisher::new(self.bucket().await?, Options::default());
        for round in 0_u64.. {
            if self.is_stopped() {
                break;
            }
            let options = CheckpointOptions {
                lifetime: Some(Duration::from_secs(60)),
                ..CheckpointOptions::default()
            };
            let created = admin.create_detached_checkpoint(&options).await?;
            let path = self.model_path(created.manifest_id);
            if !path.exists() {
                let model = scan(self.port, created.id).await?;
                let words = model.iter().flat_map(|(key, value)| [*key, *value]);
                let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
                save(&path, &bytes)?;
            }
            let began = now();
            publisher.publish(&created).await?;
            let at = created.manifest_id.to_string();
            save(&self.folder.join(at + ".published"), &began.to_le_bytes())?;
            if round % 5 == 4 {
                admin.run_gc_once(collect_all()).await?;
                publisher.clean().await?;
                self.remove_old_models()?;
            }
            tokio::time::sleep(Duration::from_millis(100) * self.pace()).await;
        }
        Ok(())
    }

    /// Checkpoints live for a minute.
    fn remove_old_models(&self) -> Result<(), Failure> {
        for entry in std::fs::read_dir(&self.folder)? {
            let entry = entry?;
            let age = entry.metadata()?.modified()?.elapsed().unwrap_or_default();
            let is_model = entry.path().extension().is_some_and(|end| end == "model");
            if is_model && age > Duration::from_secs(180) {
                std::fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    fn pace(&self) -> u32 {
        u32::try_from(self.readers).unwrap_or(u32::MAX).max(5)
    }

    fn model_path(&self, manifest: u64) -> PathBuf {
        self.folder.join(format!("{manifest}.model"))
    }

    fn model(&self, manifest: u64) -> Option<Model> {
        let bytes = std::fs::read(self.model_path(manifest)).ok()?;
        let words = bytes
            .as_chunks::<8>()
            .0
            .iter()
            .map(|word| u64::from_le_bytes(*word));
        let words: Vec<u64> = words.collect();
        Some(
            words
                .as_chunks::<2>()
                .0
                .iter()
                .map(|[key, value]| (*key, *value))
                .collect(),
        )
    }

    async fn read(self) {
        let counting = Arc::new(Counting::new(store(self.port)));
        let mut done = Results::default();
        let mut rng = StdRng::seed_from_u64(self.number);
        let mut reader = None;
        while !self.is_stopped() {
            match &mut reader {
                None => match Reading::open(&self, counting.clone(), &mut done).await {
                    Ok(open) => reader = Some(open),
                    Err(_) => tokio::time::sleep(Duration::from_millis(300)).await,
                },
                Some(reading) if self.is_quiet() => {
                    // The last checkpoint may still be on its way.
                    let began = Instant::now();
                    while began.elapsed() < Duration::from_secs(10) {
                        tokio::time::sleep(REFRESHES).await;
                        reading.refresh(&self, &mut done).await;
                    }
                    let before = counting.requests();
                    while !self.is_stopped() {
                        tokio::time::sleep(REFRESHES).await;
                        reading.refresh(&self, &mut done).await;
                        done.quiet_refreshes += 1;
                    }
                    done.quiet_requests = counting.requests() - before;
                }
                Some(reading) => reading.round(&self, &mut rng, &mut done).await,
            }
            if self.readers > 5 {
                // No longer than a reader waits between two refreshes.
                let pause = Duration::from_millis(10) * self.pace();
                tokio::time::sleep(pause.min(REFRESHES)).await;
            }
        }
        done.requests = counting.requests() - done.quiet_requests;
        let file = format!("{}{}.result", self.name, self.number);
        let bytes = serde_json::to_vec(&done).expect("results are JSON");
        save(&self.folder.join(file), &bytes).expect("a file of results");
    }
}

/// A reader with or without filters, at the checkpoint whose model it has.
struct Reading {
    reader: SieveReader,
    /// Reads without our filters go here. Only its requests are counted then, not those of `reader`,
    /// which tells it when to move on.
    plain: Option<DbReader>,
    counting: Arc<Counting>,
    model: Model,
    manifest: u64,
    looked: Instant,
}

impl Reading {
    async fn open(
        role: &Role,
        counting: Arc<Counting>,
        done: &mut Results,
    ) -> Result<Self, Failure> {
        let store: Arc<dyn ObjectStore> = match role.name {
            "plain" => store(role.port),
            _ => counting.clone(),
        };
        let options = Options::default().with_engine(engine_options());
        let reader = SieveReader::open(Bucket::open(ROOT, store).await?, options).await?;
        let mut reading = Self {
            reader,
            plain: None,
            counting,
            model: Model::new(),
            manifest: 0,
            looked: Instant::now(),
        };
        reading.follow(role, done).await?;
        Ok(reading)
    }

    /// Takes the model of the checkpoint that the reader has moved to.
    async fn follow(&mut self, role: &Role, done: &mut Results) -> Result<(), Failure> {
        let publication: Publication = self.reader.pinned().publication();
        if publication.manifest == self.manifest {
            return Ok(());
        }
        done.moved.push((publication.manifest, now()));
        if role.name == "plain" {
            let plain = DbReader::builder(ROOT, self.counting.clone())
                .with_reader_mode(DbReaderMode::Checkpoint(publication.checkpoint))
                .with_options(engine_options());
            self.plain = Some(plain.build().await?);
        }
        self.model = role.model(publication.manifest).ok_or("no model")?;
        self.manifest = publication.manifest;
        Ok(())
    }

    /// Moves to the newest checkpoint; false if its model cannot be had.
    async fn refresh(&mut self, role: &Role, done: &mut Results) -> bool {
        self.looked = Instant::now();
        match self.reader.refresh().await {
            Ok(moved) => done.moves += u64::from(moved),
            Err(_) => done.errors += 1,
        }
        let followed = self.follow(role, done).await;
        done.errors += u64::from(followed.is_err());
        followed.is_ok()
    }

    /// Some reads of one checkpoint, each held against its model.
    async fn round(&mut self, role: &Role, rng: &mut StdRng, done: &mut Results) {
        if self.looked.elapsed() > REFRESHES && !self.refresh(role, done).await {
            tokio::time::sleep(Duration::from_millis(100)).await;
            return;
        }
        let pinned = self.reader.pinned();
        for _ in 0..200 {
            // Nine of ten are absent, most of them never written.
            let number = match rng.random_ratio(1, 10) {
                true => rng.random_range(0..NUMBERS / 2) * 2,
                false => rng.random_range(0..NUMBERS / 2) * 2 + 1,
            };
            let expected = self.model.get(&number);
            let key = key(number);
            let began = Instant::now();
            let denied = self.plain.is_none() && pinned.answer(&key).is_absent();
            let got = match (denied, &self.plain) {
                (true, _) => Ok(None),
                (false, Some(plain)) => plain.get(key).await,
                (false, None) => pinned.engine().get(key).await,
            };
            let took = began.elapsed();
            match got {
                Ok(value) => done.count(expected, denied, value.as_ref(), number, took),
                Err(_) => {
                    done.errors += 1;
                    return;
                }
            }
        }
    }
}

/// What a reader found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) reads: u64,
    pub(crate) absent: u64,
    pub(crate) never: u64,
    pub(crate) denied: u64,
    pub(crate) lost: u64,
    pub(crate) torn: u64,
    pub(crate) moves: u64,
    pub(crate) errors: u64,
    pub(crate) requests: u64,
    /// After all was quiet.
    pub(crate) quiet_refreshes: u64,
    pub(crate) quiet_requests: u64,
    /// Nanoseconds that absent reads took.
    pub(crate) took: Vec<u64>,
    /// Manifests that the reader moved to, and when, in microseconds since 1970.
    pub(crate) moved: Vec<(u64, u64)>,
}

impl Results {
    fn count(
        &mut self,
        expected: Option<&u64>,
        denied: bool,
        value: Option<&Bytes>,
        number: u64,
        took: Duration,
    ) {
        const MOST_SAMPLES: u64 = 1 << 20;
        let value = value.map(|value| {
            let first = value.first_chunk().expect("a value that was written");
            u64::from_be_bytes(*first)
        });
        self.reads += 1;
        self.lost += u64::from(value.is_none() && expected.is_some());
        self.torn += u64::from(value.is_some() && value.as_ref() != expected);
        if number % 2 == 1 {
            self.never += 1;
            self.denied += u64::from(denied);
        }
        if expected.is_none() {
            self.absent += 1;
            if self.absent < MOST_SAMPLES {
                self.took
                    .push(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
            }
        }
    }

    /// What each reader of a name found.
    pub(crate) fn of(folder: &std::path::Path, name: &str) -> Vec<Self> {
        let results = files(folder, "result").filter(|(file, _)| file.starts_with(name));
        let results = results.map(|(_, bytes)| serde_json::from_slice(&bytes));
        results
            .map(|result| result.expect("results are JSON"))
            .collect()
    }

    /// What several readers found together.
    pub(crate) fn sum(readers: &[Self]) -> Self {
        let mut sum = Self::default();
        for reader in readers {
            sum.reads += reader.reads;
            sum.absent += reader.absent;
            sum.never += reader.never;
            sum.denied += reader.denied;
            sum.lost += reader.lost;
            sum.torn += reader.torn;
            sum.moves += reader.moves;
            sum.errors += reader.errors;
            sum.requests += reader.requests;
            sum.quiet_refreshes += reader.quiet_refreshes;
            sum.quiet_requests += reader.quiet_requests;
            sum.took.extend(&reader.took);
        }
        sum
    }

    /// Milliseconds from the beginning of each publication until all readers were at it or beyond, in
    /// ascending order. Those that some reader never came to, or began at, are left out.
    #[allow(dead_code, reason = "not all that include this file measure time")]
    pub(crate) fn delays_ms(folder: &std::path::Path, readers: &[Self]) -> Vec<u64> {
        let published = files(folder, "published").filter_map(|(file, bytes)| {
            let at = u64::from_le_bytes(*bytes.first_chunk()?);
            Some((file.parse::<u64>().ok()?, at))
        });
        let delay = |(manifest, at)| {
            let arrived = readers.iter().map(|reader: &Self| {
                // Where a reader begins is no move.
                let (first, later) = reader.moved.split_first()?;
                let mut later = later.iter().filter(|_| first.0 < manifest);
                later.find(|(to, _)| *to >= manifest).map(|(_, at)| *at)
            });
            let last = arrived.collect::<Option<Vec<u64>>>()?.into_iter().max()?;
            Some(last.saturating_sub(at) / 1_000)
        };
        let mut delays: Vec<u64> = published.filter_map(delay).collect();
        delays.sort_unstable();
        delays
    }

    /// The 99th percentile of the time of absent reads, in microseconds.
    #[allow(dead_code, reason = "not all that include this file measure time")]
    pub(crate) fn p99_us(&self) -> f64 {
        let mut took = self.took.clone();
        took.sort_unstable();
        let at = took.len() * 99 / 100;
        took.get(at).map_or(f64::NAN, |&ns| ns as f64 / 1_000.0)
    }
}

fn policies(bucket: &Bucket) -> Vec<Arc<dyn FilterPolicy>> {
    // SlateDB's own beside ours, for the readers that have only those.
    vec![
        Arc::new(lsm_sieve_slatedb::SievePolicy::new(bucket)),
        Arc::new(BloomFilterPolicy::new(10)),
    ]
}

fn engine_options() -> DbReaderOptions {
    DbReaderOptions {
        skip_wal_replay: true,
        object_store_max_retries: Some(1),
        ..DbReaderOptions::default()
    }
}

/// Everything in a checkpoint. A scan uses no filters.
async fn scan(port: u16, checkpoint: uuid::Uuid) -> Result<Model, Failure> {
    let reader = DbReader::builder(ROOT, store(port))
        .with_reader_mode(DbReaderMode::Checkpoint(checkpoint))
        .with_options(engine_options());
    let reader = reader.build().await?;
    let mut rows = reader.scan(..).await?;
    let mut model = Model::new();
    while let Some(row) = rows.next().await? {
        let number = row.key.last_chunk().ok_or("a key of another program")?;
        let value = row
            .value
            .first_chunk()
            .ok_or("a value of another program")?;
        model.insert(u64::from_be_bytes(*number), u64::from_be_bytes(*value));
    }
    Ok(model)
}

/// Written aside and renamed, for others may look at any time.
fn save(path: &std::path::Path, bytes: &[u8]) -> Result<(), Failure> {
    let aside = path.with_extension("aside");
    std::fs::write(&aside, bytes)?;
    Ok(std::fs::rename(aside, path)?)
}

/// The files with this extension: their names without it, and their bytes.
fn files(
    folder: &std::path::Path,
    extension: &'static str,
) -> impl Iterator<Item = (String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).expect("the folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let chosen = paths.filter(move |path| path.extension().is_some_and(|end| end == extension));
    chosen.map(|path| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        (name.into_owned(), std::fs::read(&path).expect("a file"))
    })
}

/// Microseconds since 1970.
fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64)
}

fn collect_all() -> GarbageCollectorOptions {
    let directory = Some(GarbageCollectorDirectoryOptions {
        interval: None,
        min_age: Duration::from_secs(2),
        dry_run: false,
    });
    GarbageCollectorOptions {
        manifest_options: directory,
        compacted_options: directory,
        compactions_options: directory,
        ..GarbageCollectorOptions::default()
    }
}

/// Counts requests.
#[derive(Debug)]
struct Counting {
    inner: Arc<dyn ObjectStore>,
    requests: AtomicU64,
}

impl Counting {
    fn new(inner: Arc<dyn ObjectStore>) -> Self {
        let requests = AtomicU64::new(0);
        Self { inner, requests }
    }

    fn count(&self) {
        self.requests.fetch_add(1, Ordering::SeqCst);
    }

    fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }
}

#[async_trait::async_trait]
impl ObjectStore for Counting {
    async fn put_opts(&self, at: &Path, is: PutPayload, o: PutOptions) -> StoreResult<PutResult> {
        self.count();
        self.inner.put_opts(at, is, o).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        options: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        self.count();
        self.inner.put_multipart_opts(at, options).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> StoreResult<GetResult> {
        self.count();
        self.inner.get_opts(at, options).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, StoreResult<Path>>,
    ) -> BoxStream<'static, StoreResult<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.count();
        self.inner.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.count();
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> StoreResult<ListResult> {
        self.count();
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> StoreResult<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

impl fmt::Display for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Counting({})", self.inner)
    }
}
