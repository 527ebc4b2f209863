//! A filter of [lsm-sieve](lsm_sieve) before a keyspace of [fjall].
//!
//! fjall has a filter per table, and probes one after the other. This one is over all keys, and is
//! probed before the store is read. Its records are part of fjall's own batches. With
//! `Recovery::Journal` it is trusted again after a crash.
//!
//! ```
//! use lsm_sieve_stores::FilterOptions;
//! use lsm_sieve_stores::kv::{Batch, FilteredStore, Recovery};
//! use lsm_sieve_fjall::FjallKeyspace;
//!
//! # let home = tempfile::tempdir()?;
//! # let folder = home.path();
//! let db = fjall::Database::builder(folder.join("db")).open()?;
//! let users = FjallKeyspace::open(&db, "users", fjall::KeyspaceCreateOptions::default)?;
//! let options = FilterOptions::default();
//! let users = FilteredStore::open(users, &folder.join("filter"), &options, Recovery::Journal)?;
//!
//! users.commit(Batch::default().insert(b"ada", b"1815"))?;
//! assert_eq!(users.get(b"ada")?.as_deref(), Some(&b"1815"[..]));
//! assert!(users.get(b"charles")?.is_none()); // almost never enters fjall
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What must go through the filter
//!
//! Every write to the keyspace: [`FilteredStore::commit`](lsm_sieve_stores::kv::FilteredStore::commit), or
//! a batch of one's own within [`FilteredStore::write`](lsm_sieve_stores::kv::FilteredStore::write), which
//! takes the records by [`FjallKeyspace::put_records`]. Ingestion is an external write. Snapshots
//! that are older than now read the keyspace itself.

use fjall::{Database, Error, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode};
use lsm_sieve_stores::kv::{Batch, Record, Store};
#[cfg(feature = "laws")]
use lsm_sieve_stores::laws::TestStore;

/// A keyspace.
pub struct FjallKeyspace {
    db: Database,
    keys: Keyspace,
    /// The keyspace of the filter's records.
    records: Keyspace,
}

impl FjallKeyspace {
    /// Opens a keyspace, which is created if it does not exist. The filter's records go to the
    /// keyspace `<name>.filter`, which must be none of yours.
    ///
    /// # Errors
    /// fjall's.
    pub fn open(
        db: &Database,
        name: &str,
        options: impl FnOnce() -> KeyspaceCreateOptions,
    ) -> Result<Self, Error> {
        let records = format!("{name}.filter");
        Ok(Self {
            db: db.clone(),
            keys: db.keyspace(name, options)?,
            records: db.keyspace(&records, KeyspaceCreateOptions::default)?,
        })
    }

    /// The keyspace, for reads of other kinds.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keys
    }

    /// Adds the filter's records to a batch.
    pub fn put_records(&self, batch: &mut OwnedWriteBatch, records: &[Record]) {
        for record in records {
            match record {
                Record::Put { key, value } => {
                    batch.insert(&self.records, key.as_slice(), value.as_slice());
                }
                Record::Delete { key } => batch.remove(&self.records, key.as_slice()),
            }
        }
    }
}

impl Store for FjallKeyspace {
    type Batch = Batch;
    type Value = fjall::UserValue;
    type Error = Error;

    fn get(&self, key: &[u8]) -> Result<Option<Self::Value>, Error> {
        self.keys.get(key)
    }

    fn keys_of(&self, batch: &Batch, each: &mut dyn FnMut(&[u8])) {
        batch.set_keys().for_each(each);
    }

    fn commit(&self, batch: Batch, records: &[Record]) -> Result<(), Error> {
        // As single inserts: what is committed outlives the process.
        let mut writes = self.db.batch().durability(Some(PersistMode::Buffer));
        for (key, value) in batch {
            match value {
                Some(value) => writes.insert(&self.keys, key, value),
                None => writes.remove(&self.keys, key),
            }
        }
        self.put_records(&mut writes, records);
        writes.commit()
    }

    fn sync(&self) -> Result<(), Error> {
        self.db.persist(PersistMode::SyncAll)
    }

    fn scan(&self, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Error> {
        for entry in self.keys.iter() {
            if !each(&entry.key()?) {
                break;
            }
        }
        Ok(())
    }

    fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let value = self.records.get(key)?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn approximate_len(&self) -> u64 {
        self.keys.approximate_len() as u64
    }
}

/// For the law suite.
#[cfg(feature = "laws")]
impl TestStore for FjallKeyspace {
    fn batch(entries: &[(Vec<u8>, bool)]) -> Batch {
        lsm_sieve_stores::laws::batch(entries)
    }
}

impl std::fmt::Debug for FjallKeyspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FjallKeyspace")
            .field("name", &self.keys.name())
            .finish_non_exhaustive()
    }
}
