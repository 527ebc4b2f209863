//! LMDB, by heed, as a [`Store`]: keys in one database of the environment, the filter's records in
//! another. One process at a time may write.

use std::path::Path;

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, Error};
use lsm_sieve_stores::kv::{Batch, Record, Store};
use lsm_sieve_stores::laws::TestStore;

/// A database of LMDB.
pub struct LmdbTable {
    env: Env,
    keys: Database<Bytes, Bytes>,
    records: Database<Bytes, Bytes>,
}

impl LmdbTable {
    /// Opens the environment in a folder. If `is_synced` is false, commits do not wait for the disk.
    /// After a power cut LMDB then keeps neither their order nor their parts together, so no filter
    /// may be trusted: use `Recovery::Scan`.
    pub fn open(folder: &Path, size: usize, is_synced: bool) -> Result<Self, Error> {
        std::fs::create_dir_all(folder)?;
        let mut options = EnvOpenOptions::new();
        options.map_size(size).max_dbs(2);
        if !is_synced {
            #[expect(unsafe_code, reason = "a power cut could damage the file")]
            // SAFETY: it is a measurement, and its file goes with it.
            unsafe {
                options.flags(EnvFlags::NO_SYNC);
            }
        }
        #[expect(unsafe_code, reason = "LMDB maps a file that others might change")]
        // SAFETY: nothing else opens this folder.
        let env = unsafe { options.open(folder)? };
        let mut transaction = env.write_txn()?;
        let keys = env.create_database(&mut transaction, Some("keys"))?;
        let records = env.create_database(&mut transaction, Some("keys.filter"))?;
        transaction.commit()?;
        Ok(Self { env, keys, records })
    }
}

impl Store for LmdbTable {
    type Batch = Batch;
    type Value = Vec<u8>;
    type Error = Error;

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let transaction = self.env.read_txn()?;
        Ok(self.keys.get(&transaction, key)?.map(<[u8]>::to_vec))
    }

    fn keys_of(&self, batch: &Batch, each: &mut dyn FnMut(&[u8])) {
        batch.set_keys().for_each(each);
    }

    fn commit(&self, batch: Batch, records: &[Record]) -> Result<(), Error> {
        let mut transaction = self.env.write_txn()?;
        for (key, value) in batch {
            match value {
                Some(value) => self.keys.put(&mut transaction, &key, &value)?,
                None => _ = self.keys.delete(&mut transaction, &key)?,
            }
        }
        for record in records {
            match record {
                Record::Put { key, value } => self.records.put(&mut transaction, key, value)?,
                Record::Delete { key } => _ = self.records.delete(&mut transaction, key)?,
            }
        }
        transaction.commit()
    }

    fn sync(&self) -> Result<(), Error> {
        self.env.force_sync()
    }

    fn scan(&self, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Error> {
        let transaction = self.env.read_txn()?;
        for entry in self.keys.iter(&transaction)? {
            let (key, _) = entry?;
            if !each(key) {
                break;
            }
        }
        Ok(())
    }

    fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let transaction = self.env.read_txn()?;
        Ok(self.records.get(&transaction, key)?.map(<[u8]>::to_vec))
    }

    fn approximate_len(&self) -> u64 {
        let transaction = self.env.read_txn();
        let len = transaction.and_then(|transaction| self.keys.len(&transaction));
        len.unwrap_or(0)
    }
}

impl TestStore for LmdbTable {
    fn batch(entries: &[(Vec<u8>, bool)]) -> Batch {
        lsm_sieve_stores::laws::batch(entries)
    }
}
