//! What threads see of a `SieveDb`, and through the plain handle behind which its filters are, is
//! linearizable: beside flushes, compactions, ingestions, consolidations, dropped column families and
//! reopenings. `LSM_SIEVE_LINEARIZABLE=100000` makes a long run.
//!
//! A write batch is written at one moment. Each read of several keys, and an iterator, reads at one.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::sync::atomic::{AtomicU64, Ordering};

use lsm_sieve::{Items, Prefix, RocksDb, SieveDb};
use lsm_sieve_histories::{Change, Crashed, Door, Found, Hunt, Key, Value};
use rocksdb::{
    DEFAULT_COLUMN_FAMILY_NAME as DEFAULT, IteratorMode, Options, ReadOptions, SliceTransform,
    SstFileWriter, WriteBatch,
};
use tempfile::TempDir;

use crate::support::model_db::{options, settle, sieve};
use crate::support::reads::{self, Handle, Read};

struct FilteredDb {
    db: SieveDb,
    home: TempDir,
    files: AtomicU64,
    /// The first byte of each key. If it is odd, the keys are in the column family [`DROPPED`].
    first: u8,
}

/// It is dropped, and created anew with other keys.
const DROPPED: &str = "dropped";

/// It is dropped and created anew while a history runs. It has no keys of the history.
const BESIDE: &str = "beside";

fn with_prefixes() -> Options {
    let mut options = options();
    options.set_prefix_extractor(SliceTransform::create_fixed_prefix(2));
    options
}

impl FilteredDb {
    fn open(home: TempDir, first: u8) -> Self {
        // No audit, which would repair what is to be found.
        let filters = sieve().audit(0).expected_keys(Items::new(4));
        let filters = filters.prefixes(DEFAULT, [Prefix::fixed(2)]);
        let filters = filters.prefixes(DROPPED, [Prefix::fixed(2)]);
        let families = [DROPPED, BESIDE].map(|family| (family, with_prefixes()));
        let path = home.path().join("db");
        let db = SieveDb::open_cf_with_opts(&with_prefixes(), &filters, path, families).unwrap();
        let files = AtomicU64::new(0);
        Self {
            db,
            home,
            files,
            first,
        }
    }

    /// The prefix of each is its own.
    fn key(&self, key: Key) -> [u8; 3] {
        [self.first, key, b'k']
    }

    fn family_name(&self) -> &'static str {
        [DEFAULT, DROPPED][usize::from(self.first % 2)]
    }

    fn family(&self) -> Handle<'_> {
        self.db.cf_handle(self.family_name()).unwrap()
    }

    fn renew_family(&self, name: &str) {
        self.db.drop_cf(name).unwrap();
        self.db.create_cf(name, &with_prefixes()).unwrap();
    }

    fn batch_of(&self, changes: &[(Key, Change)]) -> WriteBatch {
        let cf = self.family();
        let mut batch = WriteBatch::default();
        for (key, change) in changes {
            match change {
                Change::Put(value) => batch.put_cf(&cf, self.key(*key), value),
                Change::Delete => batch.delete_cf(&cf, self.key(*key)),
                Change::Merge(more) => batch.merge_cf(&cf, self.key(*key), [*more]),
            }
        }
        batch
    }

    fn ingest(&self, changes: &[(Key, Change)]) {
        let number = self.files.fetch_add(1, Ordering::Relaxed);
        let file = self.home.path().join(number.to_string());
        let options = with_prefixes();
        let mut writer = SstFileWriter::create(&options);
        writer.open(&file).unwrap();
        for (key, change) in changes {
            match change {
                Change::Put(value) => writer.put(self.key(*key), value).unwrap(),
                Change::Delete => writer.delete(self.key(*key)).unwrap(),
                Change::Merge(more) => writer.merge(self.key(*key), [*more]).unwrap(),
            }
        }
        writer.finish().unwrap();
        let ingested = self.db.ingest_external_file_cf(&self.family(), vec![file]);
        ingested.unwrap();
    }

    /// By one of these calls, which reads all keys at one moment.
    fn read_by<'db, D>(
        &'db self,
        mut calls: Vec<Read<D, Handle<'db>>>,
        on: &D,
        keys: &[[u8; 3]],
        choice: u32,
    ) -> Found {
        calls.retain(|call| keys.len() == 1 || call.keys_a_call() > 1);
        calls.retain(|call| self.family_name() == DEFAULT || call.names_a_cf());
        let call = &calls[choice as usize % calls.len()];
        let values = call.values(on, &self.family(), keys, &ReadOptions::default);
        (call.name, values.into_iter().map(Result::unwrap).collect())
    }

    /// By an iterator of all keys, or of the one prefix that is asked for.
    fn iterate(&self, keys: &[[u8; 3]]) -> Vec<Option<Value>> {
        let mut options = ReadOptions::default();
        let mode = match keys {
            [key] => {
                options.set_prefix_same_as_start(true);
                IteratorMode::From(&key[..2], rocksdb::Direction::Forward)
            }
            _ => {
                options.set_total_order_seek(true);
                IteratorMode::Start
            }
        };
        let entries: Vec<_> = self
            .db
            .iterator_cf_opt(&self.family(), options, mode)
            .map(Result::unwrap)
            .collect();
        let value = |key: &[u8; 3]| entries.iter().find(|(of, _)| **of == key[..]);
        keys.iter()
            .map(|key| value(key).map(|(_, value)| value.to_vec()))
            .collect()
    }
}

impl Door for FilteredDb {
    fn write(&self, changes: &[(Key, Change)], choice: u32) -> Result<&'static str, Crashed> {
        if choice.is_multiple_of(8) {
            self.ingest(changes);
            return Ok("ingest_external_file");
        }
        let (db, cf) = (&self.db, &self.family());
        let done = match changes {
            [(key, Change::Put(value))] => db.put_cf(cf, self.key(*key), value).map(|()| "put"),
            [(key, Change::Delete)] => db.delete_cf(cf, self.key(*key)).map(|()| "delete"),
            [(key, Change::Merge(more))] => {
                db.merge_cf(cf, self.key(*key), [*more]).map(|()| "merge")
            }
            _ => self.db.write(self.batch_of(changes)).map(|()| "write"),
        };
        Ok(done.unwrap())
    }

    fn read(&self, keys: &[Key], choice: u32) -> Result<Found, Crashed> {
        let keys: Vec<_> = keys.iter().map(|key| self.key(*key)).collect();
        let plain: &RocksDb = &self.db;
        Ok(match choice % 8 {
            0 => ("iterator", self.iterate(&keys)),
            1..4 => self.read_by(reads::of_handle(), plain, &keys, choice / 8),
            _ => self.read_by(reads::of_db(), &self.db, &keys, choice / 8),
        })
    }

    fn disturb(&self, choice: u32) {
        let cf = self.family();
        match choice % 7 {
            0 | 1 => self.db.flush_cf(&cf).unwrap(),
            2 => self.db.compact_range_cf(&cf, None::<&[u8]>, None::<&[u8]>),
            3 => settle(&self.db),
            4 => self.renew_family(BESIDE),
            // An ingestion may overtake it.
            _ => _ = self.db.filters().consolidate(),
        }
    }

    fn renew_keys(&mut self) {
        self.first += 1;
        if self.family_name() == DROPPED {
            self.renew_family(DROPPED);
        }
    }

    fn reopen(self, _: u32) -> Self {
        drop(self.db);
        Self::open(self.home, self.first)
    }

    fn merges() -> bool {
        true
    }
}

#[test]
fn histories_of_threads_are_linearizable() {
    let hunt = Hunt::new("SieveDb", 100);
    hunt.run(|_| FilteredDb::open(tempfile::tempdir().unwrap(), 0));
}
