//! A small store: one file of batches, and all keys in memory. It tells what a power cut leaves, and
//! has savepoints and reads that fail.

#![expect(
    clippy::disallowed_methods,
    reason = "files of a store under test are written"
)]

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, RwLock};

use lsm_sieve_stores::kv::{Batch, Record, Store};
use lsm_sieve_stores::laws::{BoxError, TestStore};

type Keys = BTreeMap<Vec<u8>, Vec<u8>>;

const BATCHES: &str = "batches";

/// How many bytes of the batches were synced.
const SYNCED: &str = "synced";

pub(super) struct LogStore {
    folder: PathBuf,
    log: Mutex<File>,
    /// Keys, and records.
    state: RwLock<(Keys, Keys)>,
    /// The next read of all keys fails after this many.
    fails: Mutex<Option<u64>>,
}

/// A key or a record of a batch: set to a value, or deleted.
type Change = (bool, Vec<u8>, Option<Vec<u8>>);

impl LogStore {
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let path = folder.join(BATCHES);
        let mut options = OpenOptions::new();
        let log = options.create(true).append(true).open(&path)?;
        let store = Self {
            folder: folder.to_owned(),
            log: Mutex::new(log),
            state: RwLock::default(),
            fails: Mutex::default(),
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

    fn append(&self, changes: Vec<Change>) -> io::Result<()> {
        let mut log = self.log.lock().unwrap();
        log.write_all((encoded(&changes) + "\n").as_bytes())?;
        self.apply(changes);
        Ok(())
    }

    fn savepoint_file(&self, savepoint: u64) -> PathBuf {
        self.folder.join(format!("savepoint-{savepoint}"))
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
        self.append(keys.chain(records).collect())
    }

    fn sync(&self) -> io::Result<()> {
        let log = self.log.lock().unwrap();
        log.sync_all()?;
        let length = log.metadata()?.len();
        fs::write(self.folder.join(SYNCED), length.to_string())
    }

    fn scan(&self, each: &mut dyn FnMut(&[u8]) -> bool) -> io::Result<()> {
        let keys: Vec<_> = self.state.read().unwrap().0.keys().cloned().collect();
        let fails = self.fails.lock().unwrap().take();
        for (number, key) in keys.iter().enumerate() {
            if fails == Some(number as u64) {
                return Err(io::Error::other("it fails, for a test"));
            }
            if !each(key) {
                break;
            }
        }
        Ok(())
    }

    fn record(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        Ok(self.state.read().unwrap().1.get(key).cloned())
    }
}

impl TestStore for LogStore {
    fn batch(entries: &[(Vec<u8>, bool)]) -> Batch {
        lsm_sieve_stores::laws::batch(entries)
    }

    fn savepoint(&self) -> io::Result<Option<u64>> {
        let state = self.state.read().unwrap();
        let set = |is_record: bool, (key, value): (&Vec<u8>, &Vec<u8>)| -> Change {
            (is_record, key.clone(), Some(value.clone()))
        };
        let keys = state.0.iter().map(|entry| set(false, entry));
        let records = state.1.iter().map(|entry| set(true, entry));
        let number = (0..).find(|&number| !self.savepoint_file(number).exists());
        let number = number.unwrap();
        let all: Vec<Change> = keys.chain(records).collect();
        fs::write(self.savepoint_file(number), encoded(&all))?;
        Ok(Some(number))
    }

    fn restore(&self, savepoint: u64) -> io::Result<bool> {
        let saved = fs::read_to_string(self.savepoint_file(savepoint));
        let Some(saved) = saved.ok().and_then(|text| decoded(&text)) else {
            return Ok(false);
        };
        let removed: Vec<Change> = {
            let state = self.state.read().unwrap();
            let keys = state.0.keys().map(|key| (false, key.clone(), None));
            let records = state.1.keys().map(|key| (true, key.clone(), None));
            keys.chain(records).collect()
        };
        self.append(removed.into_iter().chain(saved).collect())?;
        Ok(true)
    }

    fn cut_power(copy: &Path) -> Result<bool, BoxError> {
        let synced = fs::read_to_string(copy.join(SYNCED)).unwrap_or_else(|_| "0".to_owned());
        let log = OpenOptions::new().write(true).open(copy.join(BATCHES))?;
        log.set_len(synced.parse()?)?;
        Ok(true)
    }

    fn fail_scan(&self, after: u64) -> bool {
        *self.fails.lock().unwrap() = Some(after);
        true
    }
}

fn encoded(changes: &[Change]) -> String {
    serde_json::to_string(changes).unwrap()
}

fn decoded(line: &str) -> Option<Vec<Change>> {
    serde_json::from_str(line).ok()
}
