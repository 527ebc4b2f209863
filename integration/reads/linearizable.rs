//! What threads see of a `SieveDb` is linearizable, beside flushes, compactions, ingestions,
//! consolidations and reopenings. `LSM_SIEVE_LINEARIZABLE=100000` makes a long run.
//!
//! A write batch is written at one moment. Each read of several keys, and an iterator, reads at one.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::sync::atomic::{AtomicU64, Ordering};

use lsm_sieve::{Items, Prefix, SieveDb};
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
    /// The first byte of each key.
    first: u8,
}

fn with_prefixes() -> Options {
    let mut options = options();
    options.set_prefix_extractor(SliceTransform::create_fixed_prefix(2));
    options
}

impl FilteredDb {
    fn open(home: TempDir, first: u8) -> Self {
        // No audit, which would repair what is to be found.
        let filters = sieve().audit(0).expected_keys(Items::new(4));
        let filters = filters.prefixes("default", [Prefix::fixed(2)]);
        let db = SieveDb::open(&with_prefixes(), &filters, home.path().join("db")).unwrap();
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

    fn batch_of(&self, changes: &[(Key, Change)]) -> WriteBatch {
        let mut batch = WriteBatch::default();
        for (key, change) in changes {
            match change {
                Change::Put(value) => batch.put(self.key(*key), value),
                Change::Delete => batch.delete(self.key(*key)),
                Change::Merge(more) => batch.merge(self.key(*key), [*more]),
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
        self.db.ingest_external_file(vec![file]).unwrap();
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
            .iterator_opt(mode, options)
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
        let done = match changes {
            [(key, Change::Put(value))] => self.db.put(self.key(*key), value).map(|()| "put"),
            [(key, Change::Delete)] => self.db.delete(self.key(*key)).map(|()| "delete"),
            [(key, Change::Merge(more))] => {
                self.db.merge(self.key(*key), [*more]).map(|()| "merge")
            }
            _ => self.db.write(self.batch_of(changes)).map(|()| "write"),
        };
        Ok(done.unwrap())
    }

    fn read(&self, keys: &[Key], choice: u32) -> Result<Found, Crashed> {
        let keys: Vec<_> = keys.iter().map(|key| self.key(*key)).collect();
        let mut calls: Vec<Read<SieveDb, Handle<'_>>> = reads::of_db();
        // A call for each key would be no read at one moment.
        calls.retain(|call| keys.len() == 1 || call.keys_a_call() > 1);
        let at = choice as usize % (calls.len() + 1);
        let Some(call) = calls.get(at) else {
            return Ok(("iterator", self.iterate(&keys)));
        };
        let cf = self.db.cf_handle(DEFAULT).unwrap();
        let values = call.values(&self.db, &cf, &keys, &ReadOptions::default);
        Ok((call.name, values.into_iter().map(Result::unwrap).collect()))
    }

    fn disturb(&self, choice: u32) {
        match choice % 6 {
            0 | 1 => self.db.flush().unwrap(),
            2 => self.db.compact_range(None::<&[u8]>, None::<&[u8]>),
            3 => settle(&self.db),
            // An ingestion may overtake it.
            _ => _ = self.db.filters().consolidate(),
        }
    }

    fn renew_keys(&mut self) {
        self.first += 1;
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
