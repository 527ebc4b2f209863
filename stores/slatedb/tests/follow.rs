//! Histories: one writer, a compactor, garbage collection, checkpoints that expire, and readers that
//! move from one to the next. Each answer of the filters and of the store is held against a model of
//! the checkpoint that is read. Faults that are planted must be found.

use crate::faulty::{Fault, Verb};
use crate::world::{ROOT, World, checkpoint, key, options, settings};
use lsm_sieve_slatedb::slatedb::admin::AdminBuilder;
use lsm_sieve_slatedb::slatedb::config::{
    CheckpointOptions, CheckpointScope, GarbageCollectorDirectoryOptions, GarbageCollectorOptions,
};
use lsm_sieve_slatedb::slatedb::{Filter, FilterBuilder, FilterPolicy, RowEntry, WriteBatch};
use lsm_sieve_slatedb::{Bucket, Options, PinnedReader, SieveReader};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Even numbers are written, odd ones never.
const NUMBERS: u64 = 8_000;

type Model = Arc<BTreeMap<u64, u64>>;

/// What the readers found.
#[derive(Debug, Default)]
struct Found {
    reads: AtomicU64,
    /// Reads of keys that were never written, and of these the denied ones.
    never: AtomicU64,
    denied: AtomicU64,
    /// Denied, but in the model.
    lost: AtomicU64,
    /// The store's answer differs from the model.
    wrong: AtomicU64,
    /// Batches that were read beside a move, or beside a look at what is published.
    batches: AtomicU64,
    moves: AtomicU64,
    errors: AtomicU64,
}

/// A fault that the harness must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    None,
    /// Filters lack one key of 97.
    MissedKey,
    /// The filters of the checkpoint before are asked for the one that is read.
    Torn,
    /// The first filters are asked forever.
    Stale,
}

struct History {
    seed: u64,
    rounds: u64,
    readers: u64,
    planted: Planted,
    options: Options,
    summaries: bool,
}

impl History {
    fn new(seed: u64) -> Self {
        Self {
            seed,
            rounds: 25,
            readers: 3,
            planted: Planted::None,
            options: options(),
            summaries: true,
        }
    }

    async fn run(self) -> Arc<Found> {
        let world = self.world().await;
        let models: Arc<Mutex<HashMap<u64, Model>>> = Arc::default();
        let (found, stop) = (Arc::new(Found::default()), Arc::new(AtomicBool::new(false)));
        let mut model = BTreeMap::new();
        let mut rng = StdRng::seed_from_u64(self.seed);
        write_round(&world, &mut rng, &mut model).await;
        publish(&world, &models, &model).await;
        let mut readers = tokio::task::JoinSet::new();
        for number in 0..self.readers {
            let reader = world.reader_with(self.options.clone()).await;
            let check = Check {
                reader,
                planted: self.planted,
                models: models.clone(),
                found: found.clone(),
                stop: stop.clone(),
            };
            readers.spawn(check.run(self.seed ^ (number + 1)));
        }
        let admin = AdminBuilder::new(ROOT, world.store.clone()).build();
        for round in 0..self.rounds {
            write_round(&world, &mut rng, &mut model).await;
            publish(&world, &models, &model).await;
            if round % 5 == 4 {
                admin.run_gc_once(collect_all()).await.unwrap();
                world.publisher.clean().await.unwrap();
            }
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
        stop.store(true, Ordering::SeqCst);
        readers.join_all().await;
        world.db.close().await.unwrap();
        eprintln!("{:?} {found:?}", self.planted);
        found
    }

    async fn world(&self) -> World {
        let (planted, summaries) = (self.planted, self.summaries);
        let mut world = World::with(settings(true), |publisher| {
            let policy: Arc<dyn FilterPolicy> = Arc::new(publisher.policy());
            match planted {
                Planted::MissedKey => vec![Arc::new(Forgetful(policy))],
                _ => vec![policy],
            }
        })
        .await;
        if !summaries {
            let none = Options::default().with_max_summary_keys(0);
            world.publisher = lsm_sieve_slatedb::Publisher::new(world.bucket.clone(), none);
        }
        let seed = self.seed;
        // Requests that are delayed overtake each other.
        world.store.set(move |_, path| {
            let hash = path.bytes().fold(seed, |hash, byte| {
                hash.wrapping_mul(0x100_0000_01b3) ^ u64::from(byte)
            });
            (hash % 5 == 0).then(|| Fault::Delay(Duration::from_millis(hash % 7)))
        });
        world
    }
}

/// Twenty batches of puts and, of each hundred, twelve deletes.
async fn write_round(world: &World, rng: &mut StdRng, model: &mut BTreeMap<u64, u64>) {
    for _ in 0..20 {
        let mut batch = WriteBatch::new();
        for _ in 0..50 {
            let number = rng.random_range(0..NUMBERS / 2) * 2;
            if rng.random_ratio(12, 100) {
                batch.delete(key(number));
                model.remove(&number);
            } else {
                let value: u64 = rng.random();
                batch.put(key(number), value.to_be_bytes().repeat(8));
                model.insert(number, value);
            }
        }
        world.db.write(batch).await.unwrap();
    }
}

async fn publish(world: &World, models: &Mutex<HashMap<u64, Model>>, model: &BTreeMap<u64, u64>) {
    let options = CheckpointOptions {
        lifetime: Some(Duration::from_secs(1)),
        ..CheckpointOptions::default()
    };
    let scope = CheckpointScope::All;
    let created = world.db.create_checkpoint(scope, &options).await.unwrap();
    let known = models
        .lock()
        .unwrap()
        .insert(created.manifest_id, Arc::new(model.clone()));
    assert!(known.is_none_or(|known| *known == *model));
    world.publisher.publish(&created).await.unwrap();
}

/// Everything that no checkpoint keeps is collected at once.
fn collect_all() -> GarbageCollectorOptions {
    let directory = Some(GarbageCollectorDirectoryOptions {
        interval: None,
        min_age: Duration::ZERO,
        dry_run: false,
    });
    GarbageCollectorOptions {
        manifest_options: directory,
        wal_options: directory,
        compacted_options: directory,
        compactions_options: directory,
        ..GarbageCollectorOptions::default()
    }
}

/// One reader and its checks.
struct Check {
    reader: SieveReader,
    planted: Planted,
    models: Arc<Mutex<HashMap<u64, Model>>>,
    found: Arc<Found>,
    stop: Arc<AtomicBool>,
}

impl Check {
    async fn run(self, seed: u64) {
        let mut rng = StdRng::seed_from_u64(seed);
        let first = self.reader.pinned();
        let (mut before, mut pinned) = (first.clone(), first.clone());
        while !self.stop.load(Ordering::SeqCst) {
            let numbers: Vec<u64> = (0..60).map(|_| rng.random_range(0..NUMBERS)).collect();
            let batch = self.check_batch(&numbers);
            let (refreshed, ()) = tokio::join!(self.reader.refresh(), batch);
            match refreshed {
                Ok(true) => {
                    before = std::mem::replace(&mut pinned, self.reader.pinned());
                    add(&self.found.moves);
                }
                Ok(false) => {}
                // The checkpoint expired between `current` and the open.
                Err(_) => add(&self.found.errors),
            }
            let filters = match self.planted {
                Planted::Torn => &before,
                Planted::Stale => &first,
                Planted::None | Planted::MissedKey => &pinned,
            };
            self.check(filters, &pinned, &numbers).await;
            tokio::task::yield_now().await;
        }
    }

    /// Reads many keys beside a move: all of them in the checkpoint before it or after it.
    async fn check_batch(&self, numbers: &[u64]) {
        let model_of = |pinned: Arc<PinnedReader>| {
            let manifest = pinned.publication().manifest;
            self.models.lock().unwrap()[&manifest].clone()
        };
        let before = model_of(self.reader.pinned());
        let keys: Vec<_> = numbers.iter().map(|number| key(*number)).collect();
        // An error is that of an expired checkpoint.
        let Ok(values) = self.reader.get_many(&keys).await else {
            return add(&self.found.errors);
        };
        let after = model_of(self.reader.pinned());
        let is_of = |model: &Model| {
            let all = numbers.iter().zip(&values);
            all.into_iter().all(|(number, value)| {
                let expected = model.get(number).map(|value| value.to_be_bytes().repeat(8));
                value.as_deref() == expected.as_deref()
            })
        };
        add(&self.found.batches);
        if !is_of(&before) && !is_of(&after) {
            add(&self.found.wrong);
        }
    }

    async fn check(&self, filters: &PinnedReader, store: &PinnedReader, numbers: &[u64]) {
        let manifest = store.publication().manifest;
        let model = self.models.lock().unwrap()[&manifest].clone();
        for number in numbers {
            let expected = model.get(number);
            let is_denied = filters.answer(&key(*number)).is_absent();
            add(&self.found.reads);
            if number % 2 == 1 {
                add(&self.found.never);
                self.found
                    .denied
                    .fetch_add(is_denied.into(), Ordering::SeqCst);
            }
            if is_denied && expected.is_some() {
                add(&self.found.lost);
            }
            match store.engine().get(key(*number)).await {
                Ok(value) => {
                    let value =
                        value.map(|value| u64::from_be_bytes(value[..8].try_into().unwrap()));
                    if value.as_ref() != expected {
                        add(&self.found.wrong);
                    }
                }
                Err(_) => add(&self.found.errors),
            }
        }
    }
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::SeqCst);
}

fn get(count: &AtomicU64) -> u64 {
    count.load(Ordering::SeqCst)
}

fn assert_exact(found: &Found, least_denied_percent: u64) {
    assert_eq!((get(&found.lost), get(&found.wrong)), (0, 0));
    assert!(get(&found.batches) >= 20, "{found:?}");
    assert!(
        get(&found.reads) >= 1_000 && get(&found.moves) >= 6,
        "{found:?}"
    );
    let least = get(&found.never) * least_denied_percent / 100;
    assert!(get(&found.denied) >= least, "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_reader_loses_a_key() {
    for seed in 1..=2 {
        assert_exact(&*History::new(seed).run().await, 99);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_reader_with_filters_of_ssts_loses_a_key() {
    let history = History {
        summaries: false,
        ..History::new(3)
    };
    // Up to some twenty SSTs, at one percent each.
    assert_exact(&*history.run().await, 75);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_reader_that_keeps_summaries_loses_a_key() {
    let history = History {
        options: options().with_max_beside(5),
        ..History::new(5)
    };
    assert_exact(&*history.run().await, 93);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn planted_faults_are_found() {
    for planted in [Planted::MissedKey, Planted::Torn, Planted::Stale] {
        let history = History {
            planted,
            rounds: 12,
            ..History::new(4)
        };
        let found = history.run().await;
        assert!(get(&found.lost) > 0, "{planted:?}");
    }
}

/// A policy whose filters lack one key of 97.
struct Forgetful(Arc<dyn FilterPolicy>);

impl FilterPolicy for Forgetful {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn builder(&self) -> Box<dyn FilterBuilder> {
        Box::new(ForgetfulBuilder(self.0.builder(), 0))
    }

    fn decode(&self, data: &[u8]) -> Arc<dyn Filter> {
        self.0.decode(data)
    }

    fn estimate_size(&self, keys: usize) -> usize {
        self.0.estimate_size(keys)
    }
}

struct ForgetfulBuilder(Box<dyn FilterBuilder>, u64);

impl FilterBuilder for ForgetfulBuilder {
    fn add_entry(&mut self, entry: &RowEntry) {
        self.1 += 1;
        if !self.1.is_multiple_of(97) {
            self.0.add_entry(entry);
        }
    }

    fn build(&mut self) -> Arc<dyn Filter> {
        self.0.build()
    }
}

/// Past the limit nothing is denied, so that the outage is reported.
#[tokio::test]
async fn a_reader_that_is_too_stale_denies_nothing() {
    let world = World::new().await;
    world.fill(0..300).await;
    world.publish().await;
    let limit = Duration::from_millis(300);
    let reader = world.reader_with(options().with_max_staleness(limit)).await;
    assert!(reader.answer(&key(9_000)).is_absent());
    world.store.set(|_, _| Some(Fault::Fail));
    assert!(reader.refresh().await.is_err());
    // The outage alone changes nothing yet.
    assert_eq!(reader.get(&key(9_000)).await.unwrap(), None);
    tokio::time::sleep(limit * 2).await;
    assert!(!reader.answer(&key(9_000)).is_absent());
    assert!(reader.get(&key(9_000)).await.is_err());
    assert!(reader.stats().stale >= 2 && reader.stats().failures == 1);
    world.store.heal();
    assert!(!reader.refresh().await.unwrap());
    assert_eq!(reader.get(&key(9_000)).await.unwrap(), None);
    assert!(reader.answer(&key(9_000)).is_absent());
}

/// Many keys are read from one checkpoint.
#[tokio::test]
async fn many_keys_are_answered_in_order() {
    let world = World::new().await;
    world.fill(0..300).await;
    world.publish().await;
    let reader = world.reader().await;
    let keys: Vec<[u8; 16]> = (250..350).map(key).collect();
    let found = reader.get_many(&keys).await.unwrap();
    for (number, value) in (250..350).zip(found) {
        assert_eq!(value, (number < 300).then(|| crate::world::value(number)));
    }
}

/// Whatever the caller configures, the reader stays pinned and reads no log.
#[tokio::test]
async fn a_caller_cannot_make_the_reader_follow() {
    use lsm_sieve_slatedb::slatedb::DbReaderMode;
    let world = World::new().await;
    world.fill(0..300).await;
    world.publish().await;
    let following = options().with_builder(|builder| {
        let options = lsm_sieve_slatedb::slatedb::config::DbReaderOptions {
            manifest_poll_interval: Duration::from_millis(10),
            skip_wal_replay: false,
            ..Default::default()
        };
        builder
            .with_reader_mode(DbReaderMode::FollowLatest)
            .with_options(options)
    });
    let reader = world.reader_with(following).await;
    world.fill(300..600).await;
    checkpoint(&world.db).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    for number in 300..600 {
        assert_eq!(
            reader.pinned().engine().get(key(number)).await.unwrap(),
            None
        );
        let denied = reader.answer(&key(number)).is_absent();
        assert!(denied || reader.get(&key(number)).await.unwrap().is_none());
    }
}

/// A store that is down when a newer checkpoint is published delays the reader, no more.
#[tokio::test]
async fn an_outage_delays_a_reader_and_loses_nothing() {
    let world = World::new().await;
    world.fill(0..300).await;
    world.publish().await;
    let bucket = Bucket::open(ROOT, world.store.clone()).await.unwrap();
    let reader = SieveReader::open(bucket, options()).await.unwrap();
    world.fill(300..600).await;
    world.publish().await;
    for failing in ["current", "manifest", ".sieve"] {
        let is_summary = failing == ".sieve";
        world.store.set(move |verb, path| {
            (verb == Verb::Get && path.contains(failing)).then_some(Fault::Fail)
        });
        let moved = reader.refresh().await;
        assert_eq!(moved.is_ok(), is_summary, "{failing}");
        world.store.heal();
        let present = if is_summary { 0..600 } else { 0..300 };
        crate::world::assert_exact_and_denying(&reader, present).await;
    }
}
