//! What threads see of SlateDB behind filters is linearizable, beside publications and reopenings.
//! `LSM_SIEVE_LINEARIZABLE=10000` makes a long run.
//!
//! | door | promises |
//! |---|---|
//! | a writer | a batch is written at one moment; a snapshot reads at one |
//! | a reader | the same of a batch that is published before its call ends, and of `get_many` after a refresh |
//!
//! A reader that is not refreshed before each read promises less: one checkpoint, and never an older
//! one after it. `follow` and `moves` test that.

use crate::world::{ROOT, options, settings};
use lsm_sieve_histories::{Change, Crashed, Door, Found, Hunt, Key};
use lsm_sieve_slatedb::slatedb::Db;
use lsm_sieve_slatedb::slatedb::bytes::Bytes;
use lsm_sieve_slatedb::slatedb::config::{CheckpointOptions, CompactorOptions, Settings};
use lsm_sieve_slatedb::slatedb::object_store::memory::InMemory;
use lsm_sieve_slatedb::slatedb::object_store::path::Path;
use lsm_sieve_slatedb::{Bucket, Publisher, SieveBatch, SieveReader, SieveWriter};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Runtime;

/// Settings whose background work waits for a millisecond only.
fn short_waits() -> Settings {
    let short = Duration::from_millis(1);
    Settings {
        flush_interval: Some(short),
        manifest_poll_interval: short,
        compactor_options: Some(CompactorOptions {
            poll_interval: short,
            ..CompactorOptions::default()
        }),
        ..settings(true)
    }
}

/// What was done beside the threads of all histories, and how often.
#[derive(Clone, Default)]
struct Disturbances(Arc<Mutex<BTreeMap<&'static str, u32>>>);

/// Among so many, one of the three kinds is missing by chance once in ten million hunts.
const MANY: u32 = 60;

impl Disturbances {
    fn count(&self, done: &'static str) {
        *self.0.lock().unwrap().entry(done).or_default() += 1;
    }

    /// Without publications, say, the hunt would pass whatever they lose.
    fn check(&self) {
        let times = self.0.lock().unwrap();
        let all: u32 = times.values().sum();
        assert!(all < MANY || times.len() == 3, "only {times:?}");
    }
}

struct Written {
    disturbances: Disturbances,
    store: Arc<InMemory>,
    writer: SieveWriter,
    runtime: Runtime,
    /// The first bytes of each key.
    first: u32,
}

impl Written {
    fn open(disturbances: Disturbances, store: Arc<InMemory>, first: u32) -> Self {
        let runtime = Runtime::new().unwrap();
        let writer = runtime.block_on(async {
            let bucket = Bucket::create(ROOT, store.clone()).await.unwrap();
            let publisher = Publisher::new(bucket.clone(), options());
            let builder = Db::builder(Path::from(ROOT), store.clone())
                .with_settings(short_waits())
                .with_filter_policies(vec![Arc::new(publisher.policy())]);
            let writer = SieveWriter::open(builder, bucket, options(), publisher);
            writer.await.unwrap()
        });
        Self {
            disturbances,
            store,
            writer,
            runtime,
            first,
        }
    }

    fn key(&self, key: Key) -> Vec<u8> {
        [&self.first.to_be_bytes()[..], &[key]].concat()
    }

    fn keys(&self, keys: &[Key]) -> Vec<Vec<u8>> {
        keys.iter().map(|key| self.key(*key)).collect()
    }

    fn batch_of(&self, changes: &[(Key, Change)]) -> SieveBatch {
        let mut batch = self.writer.batch();
        for (key, change) in changes {
            let key = self.key(*key);
            match change {
                Change::Put(value) => batch.put(&key, value),
                Change::Delete | Change::Merge(_) => batch.delete(&key),
            }
        }
        batch
    }

    async fn change(&self, changes: &[(Key, Change)]) -> &'static str {
        let (name, written) = match changes {
            [(key, Change::Put(value))] => ("put", self.writer.put(&self.key(*key), value).await),
            [(key, Change::Delete)] => ("delete", self.writer.delete(&self.key(*key)).await),
            _ => ("write", self.writer.write(self.batch_of(changes)).await),
        };
        written.unwrap();
        name
    }

    async fn publish(&self) {
        let published = self.writer.publish(&CheckpointOptions::default()).await;
        published.unwrap();
    }
}

fn found(name: &'static str, values: Vec<Option<Bytes>>) -> Found {
    let values = values.into_iter().map(|value| value.map(Vec::from));
    (name, values.collect())
}

impl Door for Written {
    fn write(&self, changes: &[(Key, Change)], _: u32) -> Result<&'static str, Crashed> {
        Ok(self.runtime.block_on(self.change(changes)))
    }

    fn read(&self, keys: &[Key], choice: u32) -> Result<Found, Crashed> {
        let keys = self.keys(keys);
        Ok(self.runtime.block_on(async {
            if let [key] = &keys[..]
                && !choice.is_multiple_of(8)
            {
                return found("get", vec![self.writer.get(key).await.unwrap()]);
            }
            let snapshot = self.writer.snapshot().unwrap();
            let mut values = Vec::new();
            for key in keys {
                values.push(snapshot.get(key).await.unwrap());
            }
            found("snapshot", values)
        }))
    }

    fn disturb(&self, choice: u32) {
        let done = self.runtime.block_on(async {
            match choice % 4 {
                0 => {
                    self.writer.flush().await.unwrap();
                    "flush"
                }
                1 => {
                    self.writer.publisher().clean().await.unwrap();
                    "clean"
                }
                _ => {
                    self.publish().await;
                    "publish"
                }
            }
        });
        self.disturbances.count(done);
    }

    fn renew_keys(&mut self) {
        self.first += 1;
    }

    /// The writer before is closed, or fenced by the new one. A write returns before it is durable.
    fn reopen(self, choice: u32) -> Self {
        let ended = self.runtime.block_on(async {
            match choice.is_multiple_of(2) {
                true => self.writer.close().await,
                false => self.writer.flush().await,
            }
        });
        ended.unwrap();
        Self::open(self.disturbances.clone(), self.store.clone(), self.first)
    }
}

/// Writes are published, and read by a reader that is refreshed before.
struct Published {
    written: Written,
    reader: SieveReader,
}

impl Published {
    fn open(written: Written) -> Self {
        let reader = written.runtime.block_on(async {
            written.publish().await;
            let bucket = Bucket::open(ROOT, written.store.clone()).await.unwrap();
            SieveReader::open(bucket, options()).await.unwrap()
        });
        Self { written, reader }
    }
}

impl Door for Published {
    fn write(&self, changes: &[(Key, Change)], _: u32) -> Result<&'static str, Crashed> {
        let Written { runtime, .. } = &self.written;
        Ok(runtime.block_on(async {
            let name = self.written.change(changes).await;
            self.written.publish().await;
            name
        }))
    }

    fn read(&self, keys: &[Key], _: u32) -> Result<Found, Crashed> {
        let keys = self.written.keys(keys);
        Ok(self.written.runtime.block_on(async {
            self.reader.refresh().await.unwrap();
            match &keys[..] {
                [key] => found("get", vec![self.reader.get(key).await.unwrap()]),
                keys => found("get_many", self.reader.get_many(keys).await.unwrap()),
            }
        }))
    }

    fn disturb(&self, choice: u32) {
        self.written.disturb(choice);
    }

    fn renew_keys(&mut self) {
        self.written.renew_keys();
    }

    fn reopen(self, choice: u32) -> Self {
        let Self { written, reader } = self;
        // Its engine lives in the runtime of the writer before.
        drop(reader);
        Self::open(written.reopen(choice))
    }
}

#[test]
fn histories_of_a_writer_are_linearizable() {
    let hunt = Hunt::new("SlateDB, writer", 50);
    let disturbances = Disturbances::default();
    hunt.run(|_| Written::open(disturbances.clone(), Arc::default(), 0));
    disturbances.check();
}

#[test]
fn histories_of_a_refreshed_reader_are_linearizable() {
    let hunt = Hunt::new("SlateDB, reader", 5);
    let disturbances = Disturbances::default();
    hunt.run(|_| Published::open(Written::open(disturbances.clone(), Arc::default(), 0)));
    disturbances.check();
}
