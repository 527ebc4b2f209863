//! sled as a [`Store`]: keys in one tree, the filter's records in another.

use lsm_sieve_stores::kv::{Batch, Record, Store};
use lsm_sieve_stores::laws::TestStore;
use sled::transaction::{ConflictableTransactionResult, TransactionError, Transactional as _};
use sled::{Error, IVec, Tree};

/// The default tree of a sled database.
pub struct SledTree {
    keys: Tree,
    records: Tree,
}

impl SledTree {
    /// Opens the default tree.
    ///
    /// # Errors
    ///
    /// Those of sled.
    pub fn open(db: &sled::Db) -> Result<Self, Error> {
        Ok(Self {
            keys: db.open_tree("keys")?,
            records: db.open_tree("keys.filter")?,
        })
    }
}

impl Store for SledTree {
    type Batch = Batch;
    type Value = IVec;
    type Error = Error;

    fn get(&self, key: &[u8]) -> Result<Option<IVec>, Error> {
        self.keys.get(key)
    }

    fn keys_of(&self, batch: &Batch, each: &mut dyn FnMut(&[u8])) {
        batch.set_keys().for_each(each);
    }

    fn commit(&self, batch: Batch, records: &[Record]) -> Result<(), Error> {
        let mut writes = sled::Batch::default();
        for (key, value) in batch {
            match value {
                Some(value) => writes.insert(key, value),
                None => writes.remove(key),
            }
        }
        let mut marks = sled::Batch::default();
        for record in records {
            match record {
                Record::Put { key, value } => marks.insert(&**key, &**value),
                Record::Delete { key } => marks.remove(&**key),
            }
        }
        let both = (&self.keys, &self.records);
        let done = both.transaction(
            |(keys, records)| -> ConflictableTransactionResult<(), Error> {
                keys.apply_batch(&writes)?;
                Ok(records.apply_batch(&marks)?)
            },
        );
        done.map_err(|error| match error {
            TransactionError::Abort(error) | TransactionError::Storage(error) => error,
        })
    }

    fn sync(&self) -> Result<(), Error> {
        self.keys.flush().map(drop)
    }

    fn scan(&self, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Error> {
        for key in self.keys.iter().keys() {
            if !each(&key?) {
                break;
            }
        }
        Ok(())
    }

    fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.records.get(key)?.map(|value| value.to_vec()))
    }
}

impl TestStore for SledTree {
    fn batch(entries: &[(Vec<u8>, bool)]) -> Batch {
        lsm_sieve_stores::laws::batch(entries)
    }
}
