//! What threads see of redb and fjall behind a filter is linearizable, beside maintenance,
//! external writes and reopenings, and through crashes within a commit.
//! `LSM_SIEVE_LINEARIZABLE=100000` makes a long run.
//!
//! The door promises that a batch is committed at one moment, and that `multi_get_with` reads at one
//! if its closure does.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and copies the files of its stores"
)]

use std::fs;
use std::io::{self, Error};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use fjall::{KeyspaceCreateOptions, Readable as _};
use lsm_sieve_fjall::FjallKeyspace;
use lsm_sieve_histories::{Change, Crashed, Door, Found, Hunt, Key, Value};
use lsm_sieve_redb::RedbTable;
use lsm_sieve_stores::kv::{Batch, FilteredStore, Record, Recovery, Store};
use lsm_sieve_stores::{FilterOptions, Items};
use redb::{ReadableDatabase as _, TableDefinition};
use tempfile::TempDir;

/// The values of keys at one moment.
type Read<S> = Box<dyn Fn(&S, &[&[u8]]) -> Vec<Option<Value>> + Send + Sync>;

type Open<S> = fn(&Path) -> (S, Read<S>);

/// A store whose process ends within a commit, before or after it took effect. Its files are copied
/// then, and nothing reaches it any more.
struct Mortal<S> {
    store: S,
    read: Read<S>,
    home: PathBuf,
    /// The number of the commit.
    dies_at: u32,
    commits: AtomicU32,
    /// Held by commits; that in which the process ends waits for the others.
    committing: RwLock<()>,
    is_dead: AtomicBool,
}

impl<S> Mortal<S> {
    fn alive(&self) -> io::Result<()> {
        match self.is_dead.load(Ordering::SeqCst) {
            true => Err(Error::other("the process has ended")),
            false => Ok(()),
        }
    }

    fn die(&self) -> io::Result<()> {
        self.is_dead.store(true, Ordering::SeqCst);
        copy(&self.home.join("live"), &self.home.join("left"));
        self.alive()
    }
}

/// Copies files that change little meanwhile. One that is gone was a filter's, or the store's own.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            true => copy(&source, &target),
            false => match fs::copy(&source, &target) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                copied => _ = copied.unwrap(),
            },
        }
    }
}

impl<S: Store<Batch = Batch>> Store for Mortal<S> {
    type Batch = Batch;
    type Value = Value;
    type Error = Error;

    fn get(&self, key: &[u8]) -> io::Result<Option<Value>> {
        self.alive()?;
        Ok((self.read)(&self.store, &[key]).remove(0))
    }

    fn keys_of(&self, batch: &Batch, each: &mut dyn FnMut(&[u8])) {
        self.store.keys_of(batch, each);
    }

    fn commit(&self, batch: Batch, records: &[Record]) -> io::Result<()> {
        let nth = self.commits.fetch_add(1, Ordering::Relaxed);
        let commit = || self.store.commit(batch, records).map_err(Error::other);
        if nth != self.dies_at {
            let _one = self.committing.read().unwrap();
            return self.alive().and_then(|()| commit());
        }
        let _all = self.committing.write().unwrap();
        if nth.is_multiple_of(2) {
            commit()?;
        }
        self.die()
    }

    fn sync(&self) -> io::Result<()> {
        self.alive()?;
        self.store.sync().map_err(Error::other)
    }

    fn scan(&self, each: &mut dyn FnMut(&[u8]) -> bool) -> io::Result<()> {
        self.alive()?;
        self.store.scan(each).map_err(Error::other)
    }

    fn record(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        self.store.record(key).map_err(Error::other)
    }

    fn approximate_len(&self) -> u64 {
        self.store.approximate_len()
    }
}

struct Filtered<S: Store<Batch = Batch>> {
    store: FilteredStore<Mortal<S>>,
    home: TempDir,
    open: Open<S>,
    /// The first bytes of each key.
    first: u32,
}

impl<S: Store<Batch = Batch>> Filtered<S> {
    fn open(home: TempDir, open: Open<S>, choice: u32) -> Self {
        let live = home.path().join("live");
        fs::create_dir_all(&live).unwrap();
        let (store, read) = open(&live);
        let mortal = Mortal {
            store,
            read,
            home: home.path().to_owned(),
            // Not while it is opened.
            dies_at: 10 + choice % 200,
            commits: AtomicU32::new(0),
            committing: RwLock::default(),
            is_dead: AtomicBool::new(false),
        };
        let recovery = [Recovery::Scan, Recovery::Position, Recovery::Journal];
        let recovery = recovery[(choice / 200 % 3) as usize];
        // No audit, which would repair what is to be found.
        let options = FilterOptions::default().audit(0);
        let options = options.expected_keys(Items::new(4));
        let filters = live.join("filters");
        let store = FilteredStore::open(mortal, &filters, &options, recovery).unwrap();
        let first = 0;
        Self {
            store,
            home,
            open,
            first,
        }
    }

    fn key(&self, key: Key) -> Vec<u8> {
        [&self.first.to_be_bytes()[..], &[key]].concat()
    }

    /// An error is that of a crash.
    fn unless_crashed<T>(&self, result: Result<T, impl std::fmt::Display>) -> Result<T, Crashed> {
        result.map_err(|error| {
            assert!(self.store.store().alive().is_err(), "{error}");
            Crashed
        })
    }
}

impl<S: Store<Batch = Batch>> Door for Filtered<S> {
    fn write(&self, changes: &[(Key, Change)], choice: u32) -> Result<&'static str, Crashed> {
        let add = |batch: Batch, (key, change): &(Key, Change)| match change {
            Change::Put(value) => batch.insert(self.key(*key), value.clone()),
            Change::Delete | Change::Merge(_) => batch.remove(self.key(*key)),
        };
        let batch = changes.iter().fold(Batch::default(), add);
        if choice.is_multiple_of(8) {
            let _announced = self.unless_crashed(self.store.external_writes())?;
            self.unless_crashed(self.store.store().commit(batch, &[]))?;
            return Ok("external write");
        }
        self.unless_crashed(self.store.commit(batch))?;
        Ok("commit")
    }

    fn read(&self, keys: &[Key], _: u32) -> Result<Found, Crashed> {
        let keys: Vec<_> = keys.iter().map(|key| self.key(*key)).collect();
        if let [key] = &keys[..] {
            let value = self.unless_crashed(self.store.get(key))?;
            return Ok(("get", vec![value]));
        }
        let mortal = self.store.store();
        let read = |keys: &[&[u8]]| {
            let values = (mortal.read)(&mortal.store, keys).into_iter();
            values.map(|value| mortal.alive().map(|()| value)).collect()
        };
        let values = self.store.multi_get_with(&keys, read).into_iter();
        let values = self.unless_crashed(values.collect::<io::Result<_>>())?;
        Ok(("multi_get_with", values))
    }

    fn disturb(&self, choice: u32) {
        match choice % 4 {
            0 => _ = self.store.wait_for_maintenance(Duration::from_secs(10)),
            1 => _ = self.store.scrub(),
            _ => _ = self.store.consolidate(),
        }
    }

    fn renew_keys(&mut self) {
        self.first += 1;
    }

    fn reopen(self, choice: u32) -> Self {
        let Self {
            store,
            home,
            open,
            first,
        } = self;
        let has_crashed = store.store().alive().is_err();
        drop(store);
        if has_crashed {
            let (live, left) = (home.path().join("live"), home.path().join("left"));
            fs::remove_dir_all(&live).unwrap();
            fs::rename(left, live).unwrap();
        }
        let again = Self::open(home, open, choice);
        Self { first, ..again }
    }
}

fn hunt<S: Store<Batch = Batch>>(door: &'static str, histories: u64, open: Open<S>) {
    // In memory, if the system has such a folder.
    let memory = Path::new("/dev/shm");
    let home = || match memory.is_dir() {
        true => tempfile::tempdir_in(memory).unwrap(),
        false => tempfile::tempdir().unwrap(),
    };
    Hunt::new(door, histories).run(|choice| Filtered::open(home(), open, choice));
}

#[test]
fn histories_over_redb_are_linearizable() {
    hunt("redb", 100, |folder| {
        let db = Arc::new(redb::Database::create(folder.join("redb")).unwrap());
        let read: Read<RedbTable> = Box::new(|table, keys| {
            let of_table = TableDefinition::<&[u8], &[u8]>::new("table");
            match table.database().begin_read().unwrap().open_table(of_table) {
                Err(redb::TableError::TableDoesNotExist(_)) => vec![None; keys.len()],
                table => {
                    let table = table.unwrap();
                    let value = |key: &&[u8]| Some(table.get(*key).unwrap()?.value().to_vec());
                    keys.iter().map(value).collect()
                }
            }
        });
        (RedbTable::new(db, "table"), read)
    });
}

#[test]
fn histories_over_fjall_are_linearizable() {
    hunt("fjall", 100, |folder| {
        let db = fjall::Database::builder(folder.join("db")).open().unwrap();
        let keyspace = FjallKeyspace::open(&db, "keys", KeyspaceCreateOptions::default).unwrap();
        let read: Read<FjallKeyspace> = Box::new(move |keyspace, keys| {
            let snapshot = db.snapshot();
            let value = |key: &&[u8]| snapshot.get(keyspace.keyspace(), key).unwrap();
            keys.iter()
                .map(|key| value(key).map(|value| value.to_vec()))
                .collect()
        });
        (keyspace, read)
    });
}
