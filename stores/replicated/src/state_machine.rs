//! The state machine of a node: it applies entries, and hands out and takes snapshots.

use std::io::Cursor;
use std::sync::PoisonError;

use openraft::storage::RaftStateMachine;
use openraft::{
    EmptyNode, Entry, EntryPayload, OptionalSend, Snapshot, SnapshotMeta, StoredMembership,
};
use rocksdb::WriteBatch;

use crate::state::{STATE, stored_key};
use crate::store::{DATA, Store};
use crate::{
    Failure, LogId, NodeId, Request, Response, StorageError, TypeConfig, cannot_read, cannot_write,
};

impl Store {
    /// Applies an entry and records that it is applied, in one batch.
    fn apply_entry(&self, entry: Entry<TypeConfig>) -> Result<Response, Failure> {
        let data = self.cf(DATA);
        let mut applied = self.applied()?;
        let mut batch = WriteBatch::default();
        let mut changed = false;
        applied.last = Some(entry.log_id);
        match entry.payload {
            EntryPayload::Blank => {}
            EntryPayload::Membership(membership) => {
                applied.membership = StoredMembership::new(applied.last, membership);
            }
            EntryPayload::Normal(Request::Create { key, value }) => {
                let key = stored_key(&key);
                // Most requests are new: a filter answers that their key is absent.
                changed = self.db.get_cf(&data, &key)?.is_none();
                if changed {
                    batch.put_cf(&data, key, value);
                }
            }
            EntryPayload::Normal(Request::Delete { key }) => {
                let key = stored_key(&key);
                changed = self.db.get_cf(&data, &key)?.is_some();
                if changed {
                    batch.delete_cf(&data, key);
                }
            }
        }
        batch.put_cf(&data, STATE, serde_json::to_vec(&applied)?);
        self.db.write(batch)?;
        Ok(Response { changed })
    }
}

impl RaftStateMachine<TypeConfig> for Store {
    type SnapshotBuilder = Self;

    async fn applied_state(
        &mut self,
    ) -> Result<(Option<LogId>, StoredMembership<NodeId, EmptyNode>), StorageError> {
        let applied = self.applied().map_err(cannot_read)?;
        Ok((applied.last, applied.membership))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Response>, StorageError>
    where
        I: IntoIterator<Item = Entry<TypeConfig>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let responses = entries.into_iter().map(|entry| self.apply_entry(entry));
        let responses: Result<_, Failure> = responses.collect();
        responses.map_err(cannot_write)
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Cursor<Vec<u8>>>, StorageError> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<NodeId, EmptyNode>,
        snapshot: Box<Cursor<Vec<u8>>>,
    ) -> Result<(), StorageError> {
        self.install(meta.clone(), snapshot).map_err(cannot_write)
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<TypeConfig>>, StorageError> {
        let kept = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(kept.clone())
    }
}
