//! A small store: one file of batches, each with a checksum, and all keys in memory.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, RwLock};

use lsm_sieve::kv::{Batch, Record, Store};
use lsm_sieve::laws::TestStore;

type Keys = BTreeMap<Vec<u8>, Vec<u8>>;

pub(super) struct LogStore {
    log: Mutex<File>,
    /// Keys, and records.
    state: RwLock<(Keys, Keys)>,
}

/// A key or a record of a batch: set to a value, or deleted.
type Change = (bool, Vec<u8>, Option<Vec<u8>>);

impl LogStore {
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let path = folder.join("batches");
        let mut options = OpenOptions::new();
        let log = options.create(true).append(true).open(&path)?;
        let store = Self {
            log: Mutex::new(log),
            state: RwLock::default(),
        };
        let text = fs::read_to_string(path)?;
        for line in text.split_inclusive('\n') {
            // The last batch may be cut off.
            let Some(changes) = line.strip_suffix('\n').and_then(decoded) else {
                break;
            };
            store.apply(changes);
        }
        Ok(store)
    }

    fn apply(&self, changes: Vec<Change>) {
        let mut state = self.state.write().unwrap();
        for (is_record, key, value) in changes {
            let keys = if is_record {
                &mut state.1
            } else {
                &mut state.0
            };
            match value {
                Some(value) => _ = keys.insert(key, value),
                None => _ = keys.remove(&key),
            }
        }
    }
}

impl Store for LogStore {
    type Batch = Batch;
    type Value = Vec<u8>;
    type Error = io::Error;

    fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        Ok(self.state.read().unwrap().0.get(key).cloned())
    }

    fn keys_of(&self, batch: &Batch, each: &mut dyn FnMut(&[u8])) {
        batch.set_keys().for_each(each);
    }

    fn commit(&self, batch: Batch, records: &[Record]) -> io::Result<()> {
        let keys = batch.into_iter();
        let keys = keys.map(|(key, value)| (false, key, value));
        let records = records.iter().cloned().map(|record| match record {
            Record::Put { key, value } => (true, key, Some(value)),
            Record::Delete { key } => (true, key, None),
        });
        let changes: Vec<Change> = keys.chain(records).collect();
        let mut log = self.log.lock().unwrap();
        log.write_all((encoded(&changes) + "\n").as_bytes())?;
        self.apply(changes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.log.lock().unwrap().sync_all()
    }

    fn scan(&self, each: &mut dyn FnMut(&[u8]) -> bool) -> io::Result<()> {
        let keys: Vec<_> = self.state.read().unwrap().0.keys().cloned().collect();
        keys.iter().all(|key| each(key));
        Ok(())
    }

    fn record(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        Ok(self.state.read().unwrap().1.get(key).cloned())
    }
}

impl TestStore for LogStore {
    fn batch(entries: &[(Vec<u8>, bool)]) -> Batch {
        lsm_sieve::laws::batch(entries)
    }
}

fn encoded(changes: &[Change]) -> String {
    serde_json::to_string(changes).unwrap()
}

fn decoded(line: &str) -> Option<Vec<Change>> {
    serde_json::from_str(line).ok()
}
