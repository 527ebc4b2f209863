//! Snapshots: the column family `data` as one SST file.
//!
//! ```text
//! SST file:  deletion of the whole range,  Applied,  key, key, key, ..
//! ```
//!
//! All entries of an ingested file get one sequence number, and a range deletion covers only older
//! ones. So the deletion removes what the node had, and the file's own keys stay.

use std::io::{Cursor, Write as _};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::UNIX_EPOCH;

use openraft::{EmptyNode, RaftSnapshotBuilder, Snapshot, SnapshotMeta};
use rocksdb::{IteratorMode, SstFileWriter};
use tempfile::{NamedTempFile, TempDir};

use crate::state::{Applied, END, STATE};
use crate::store::{DATA, Store, options};
use crate::{Failure, NodeId, StorageError, TypeConfig, cannot_read};

impl Store {
    /// Builds a snapshot of the state as it is now, whatever is applied meanwhile.
    fn build_snapshot_file(&self) -> Result<Snapshot<TypeConfig>, Failure> {
        let data = self.cf(DATA);
        let state = self.db.snapshot();
        let applied = Applied::decode(state.get_cf(&data, STATE)?)?;
        let folder = TempDir::new_in(&self.scratch)?;
        let path = folder.path().join("snapshot.sst");
        let options = options();
        let mut file = SstFileWriter::create(&options);
        file.open(&path)?;
        file.delete_range(STATE, END)?;
        for entry in state.iterator_cf(&data, IteratorMode::Start) {
            let (key, value) = entry?;
            file.put(key, value)?;
        }
        file.finish()?;
        // Two nodes build different files of one state, and a receiver must not mix their chunks.
        let (node, now) = (self.node, UNIX_EPOCH.elapsed()?.as_nanos());
        Ok(self.keep_snapshot(Snapshot {
            meta: SnapshotMeta {
                last_log_id: applied.last,
                last_membership: applied.membership,
                snapshot_id: format!("{node}-{now}"),
            },
            snapshot: Box::new(Cursor::new(std::fs::read(path)?)),
        }))
    }

    /// Replaces the state by that of a snapshot, in one step.
    pub(crate) fn install(
        &self,
        meta: SnapshotMeta<NodeId, EmptyNode>,
        snapshot: Box<Cursor<Vec<u8>>>,
    ) -> Result<(), Failure> {
        let mut file = NamedTempFile::new_in(&self.scratch)?;
        file.write_all(snapshot.get_ref())?;
        // An external write: the call announces the keys to the filters by itself.
        self.db
            .ingest_external_file_cf(&self.cf(DATA), vec![file.path()])?;
        self.installed.fetch_add(1, Ordering::Relaxed);
        let applied = self.applied()?;
        if (applied.last, &applied.membership) != (meta.last_log_id, &meta.last_membership) {
            return Err("the snapshot is of another state than it says".into());
        }
        self.keep_snapshot(Snapshot { meta, snapshot });
        Ok(())
    }

    fn keep_snapshot(&self, snapshot: Snapshot<TypeConfig>) -> Snapshot<TypeConfig> {
        let mut kept = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(snapshot).clone()
    }
}

impl RaftSnapshotBuilder<TypeConfig> for Store {
    async fn build_snapshot(&mut self) -> Result<Snapshot<TypeConfig>, StorageError> {
        self.build_snapshot_file().map_err(cannot_read)
    }
}
