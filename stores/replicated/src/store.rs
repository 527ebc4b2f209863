//! All that a node stores, in one [`SieveDb`] with three column families, and the reads of its
//! clients.
//!
//! The other modules teach it what openraft asks for: `log`, `state_machine` and `snapshot`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use lsm_sieve::{SieveDb, SieveOptions};
use rocksdb::{BoundColumnFamily, Direction, IteratorMode, Options};

use crate::state::{Applied, STATE, stored_key};
use crate::{Failure, NodeId, TypeConfig};

/// The state machine: the clients' keys, and the state that they are of.
pub(crate) const DATA: &str = "data";
/// The entries of the log by their index, big-endian.
pub(crate) const LOG: &str = "log";
/// The vote, and the last entry that was purged.
pub(crate) const META: &str = "meta";

/// Keys and values, in the order of the keys.
pub type Contents = Vec<(Box<[u8]>, Box<[u8]>)>;

/// All that a node stores. Clones share it.
#[derive(Clone)]
pub struct Store {
    pub(crate) node: NodeId,
    pub(crate) db: Arc<SieveDb>,
    /// Where SST files are written before they are read or ingested.
    pub(crate) scratch: PathBuf,
    /// The last snapshot, in memory. openraft builds another one after a restart.
    pub(crate) snapshot: Arc<Mutex<Option<openraft::Snapshot<TypeConfig>>>>,
    pub(crate) installed: Arc<AtomicU64>,
}

/// RocksDB's options, also of the SST files that are ingested.
pub(crate) fn options() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options
}

impl Store {
    /// Opens the database that a node has in this folder.
    ///
    /// # Errors
    /// If the database cannot be opened.
    pub fn open(node: NodeId, folder: &Path) -> Result<Self, Failure> {
        // Every read of the tests is to check the filters, also after many hits.
        let filters = SieveOptions::default()
            .adaptive_hits(false)
            .exclude_cfs([LOG, META]);
        let builder = SieveDb::builder(folder.join("db")).options(&options());
        let db = builder.filters(&filters).cfs([DATA, LOG, META]).open()?;
        Ok(Self {
            node,
            db: Arc::new(db),
            scratch: folder.to_owned(),
            snapshot: Arc::default(),
            installed: Arc::default(),
        })
    }

    /// The handle of one of the three column families.
    pub(crate) fn cf(&self, name: &str) -> Arc<BoundColumnFamily<'_>> {
        let cf = self.db.cf_handle(name);
        cf.expect("it was opened with the database")
    }

    /// Which state the keys are of.
    pub(crate) fn applied(&self) -> Result<Applied, Failure> {
        Applied::decode(self.db.get_cf(&self.cf(DATA), STATE)?)
    }

    /// The database.
    pub fn db(&self) -> &Arc<SieveDb> {
        &self.db
    }

    /// How many snapshots were installed since the start.
    pub fn installed(&self) -> u64 {
        self.installed.load(Ordering::Relaxed)
    }

    /// The value of a key on this node, which may be behind the leader.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        Ok(self.db.get_cf(&self.cf(DATA), stored_key(key))?)
    }

    /// [`Store::get`] past the filters.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn get_unfiltered(&self, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        Ok(self.db.get_unfiltered_cf(&self.cf(DATA), stored_key(key))?)
    }

    /// All keys of the clients, past the filters.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn contents(&self) -> Result<Contents, Failure> {
        let first = stored_key("");
        let mode = IteratorMode::From(&first, Direction::Forward);
        let entries = self.db.iterator_cf(&self.cf(DATA), mode);
        Ok(entries.collect::<Result<_, _>>()?)
    }

    /// The state as it is now.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn view(&self) -> Result<View<'_>, Failure> {
        let snapshot = self.db.snapshot();
        let applied = snapshot.get_cf(&self.cf(DATA), STATE)?;
        Ok(View {
            store: self,
            applied: Applied::decode(applied)?.index(),
            snapshot,
        })
    }
}

/// One state of a node: all reads are of the same applied entry.
pub struct View<'s> {
    store: &'s Store,
    snapshot: lsm_sieve::Snapshot<'s>,
    applied: u64,
}

impl View<'_> {
    /// The index of the last entry that was applied; 0 if there is none.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// The value of a key in this state.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        Ok(self
            .snapshot
            .get_cf(&self.store.cf(DATA), stored_key(key))?)
    }

    /// [`View::get`] past the filters: iterators check none.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn get_unfiltered(&self, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        let key = stored_key(key);
        let mut entries = self.snapshot.raw_iterator_cf(&self.store.cf(DATA));
        entries.seek(&key);
        entries.status()?;
        let found = entries.item().filter(|(found, _)| *found == key);
        Ok(found.map(|(_, value)| value.to_vec()))
    }

    /// Whether the filters alone deny a key. They still have the keys that this state needs.
    pub fn denies(&self, key: &str) -> bool {
        let data = self.store.cf(DATA);
        let answer = self.store.db.filters().answer_cf(&data, stored_key(key));
        answer.is_absent()
    }
}
