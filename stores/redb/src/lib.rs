//! A filter of [lsm-sieve](lsm_sieve) before a table of [redb].
//!
//! A B-tree answers an absent key by a walk to a leaf, on disk if that is not cached. Behind the
//! filter most absent keys cost no read. The filter lies in a folder beside the database, and its
//! records in a table of the same transactions. With `Recovery::Journal` it is trusted again after a
//! crash.
//!
//! ```
//! use std::sync::Arc;
//!
//! use lsm_sieve_stores::FilterOptions;
//! use lsm_sieve_stores::kv::{Batch, FilteredStore, Recovery};
//! use lsm_sieve_redb::RedbTable;
//!
//! # let home = tempfile::tempdir()?;
//! # let folder = home.path();
//! let db = Arc::new(redb::Database::create(folder.join("users.redb"))?);
//! let users = RedbTable::new(db, "users");
//! let options = FilterOptions::default();
//! let users = FilteredStore::open(users, &folder.join("filter"), &options, Recovery::Journal)?;
//!
//! users.commit(Batch::default().insert(b"ada", b"1815"))?;
//! assert_eq!(users.get(b"ada")?.unwrap().value(), b"1815");
//! assert!(users.get(b"charles")?.is_none()); // almost never reads the table
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What must go through the filter
//!
//! Every write to the table: [`FilteredStore::commit`](lsm_sieve_stores::kv::FilteredStore::commit), or a
//! transaction of one's own that begins within
//! [`FilteredStore::write`](lsm_sieve_stores::kv::FilteredStore::write), which stores the records with
//! [`RedbTable::put_records`]. Restoring a savepoint brings back deleted keys: it is an external
//! write, which
//! [`FilteredStore::external_writes`](lsm_sieve_stores::kv::FilteredStore::external_writes) announces
//! before its transaction begins. Read transactions that are older than now read the table itself.

use std::sync::Arc;

use lsm_sieve_stores::kv::{Batch, Record, Store};
#[cfg(feature = "laws")]
use lsm_sieve_stores::laws::TestStore;
use redb::{
    Database, Error, OwnedAccessGuard, ReadOnlyTable, ReadableDatabase as _, ReadableTable as _,
    ReadableTableMetadata as _, TableDefinition, TableError, WriteTransaction,
};

type Table = ReadOnlyTable<&'static [u8], &'static [u8]>;
type Definition<'a> = TableDefinition<'a, &'static [u8], &'static [u8]>;

/// A table of byte keys and byte values.
pub struct RedbTable {
    db: Arc<Database>,
    name: String,
    /// The table of the filter's records.
    records: String,
}

impl RedbTable {
    /// The table of this name, which need not exist yet. The filter's records go to the table
    /// `<name>.filter`, which must be no table of yours.
    pub fn new(db: Arc<Database>, name: &str) -> Self {
        Self {
            db,
            name: name.to_owned(),
            records: format!("{name}.filter"),
        }
    }

    /// The database.
    pub fn database(&self) -> &Arc<Database> {
        &self.db
    }

    /// Stores the filter's records in a transaction.
    ///
    /// # Errors
    /// redb's.
    pub fn put_records(
        &self,
        transaction: &WriteTransaction,
        records: &[Record],
    ) -> Result<(), Error> {
        let mut table = transaction.open_table(Definition::new(&self.records))?;
        for record in records {
            match record {
                Record::Put { key, value } => _ = table.insert(&**key, &**value)?,
                Record::Delete { key } => _ = table.remove(&**key)?,
            }
        }
        Ok(())
    }

    /// A table as it is now; `None` if it does not exist yet.
    fn table(&self, name: &str) -> Result<Option<Table>, Error> {
        match self.db.begin_read()?.open_table(Definition::new(name)) {
            Ok(table) => Ok(Some(table)),
            Err(TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Store for RedbTable {
    type Batch = Batch;
    type Value = OwnedAccessGuard<&'static [u8]>;
    type Error = Error;

    fn get(&self, key: &[u8]) -> Result<Option<Self::Value>, Error> {
        match self.table(&self.name)? {
            Some(table) => Ok(table.get_owned(key)?),
            None => Ok(None),
        }
    }

    fn keys_of(&self, batch: &Batch, each: &mut dyn FnMut(&[u8])) {
        batch.set_keys().for_each(each);
    }

    fn commit(&self, batch: Batch, records: &[Record]) -> Result<(), Error> {
        let transaction = self.db.begin_write()?;
        {
            let mut table = transaction.open_table(Definition::new(&self.name))?;
            for (key, value) in batch {
                match value {
                    Some(value) => _ = table.insert(&*key, &*value)?,
                    None => _ = table.remove(&*key)?,
                }
            }
        }
        self.put_records(&transaction, records)?;
        Ok(transaction.commit()?)
    }

    /// Commits are durable by themselves.
    fn sync(&self) -> Result<(), Error> {
        Ok(())
    }

    fn scan(&self, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Error> {
        let Some(table) = self.table(&self.name)? else {
            return Ok(());
        };
        for entry in table.iter()? {
            let (key, _) = entry?;
            if !each(key.value()) {
                break;
            }
        }
        Ok(())
    }

    fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let Some(table) = self.table(&self.records)? else {
            return Ok(None);
        };
        Ok(table.get(key)?.map(|value| value.value().to_vec()))
    }

    fn approximate_len(&self) -> u64 {
        let table = self.table(&self.name);
        let len = table.map(|table| table.map_or(Ok(0), |table| table.len()));
        len.map_or(0, |len| len.unwrap_or(0))
    }
}

/// For the law suite.
#[cfg(feature = "laws")]
impl TestStore for RedbTable {
    fn batch(entries: &[(Vec<u8>, bool)]) -> Batch {
        lsm_sieve_stores::laws::batch(entries)
    }

    fn savepoint(&self) -> Result<Option<u64>, Error> {
        let transaction = self.db.begin_write()?;
        let savepoint = transaction.persistent_savepoint()?;
        transaction.commit()?;
        Ok(Some(savepoint))
    }

    fn restore(&self, savepoint: u64) -> Result<bool, Error> {
        let mut transaction = self.db.begin_write()?;
        let savepoint = match transaction.get_persistent_savepoint(savepoint) {
            Err(redb::SavepointError::InvalidSavepoint) => return Ok(false),
            found => found?,
        };
        transaction.restore_savepoint(&savepoint)?;
        transaction.commit()?;
        Ok(true)
    }
}

impl std::fmt::Debug for RedbTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedbTable")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
