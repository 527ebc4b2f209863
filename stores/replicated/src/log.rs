//! The log of a node: entries and votes. What is written is synced before it is acknowledged.

use std::fmt::Debug;
use std::ops::{Bound, RangeBounds};
use std::time::Duration;

use openraft::storage::{LogFlushed, RaftLogStorage};
use openraft::{Entry, LogState, OptionalSend, RaftLogReader, Vote};
use rocksdb::{Direction, IteratorMode, WriteBatch, WriteOptions};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use crate::store::{LOG, META, Store};
use crate::{Failure, LogId, NodeId, StorageError, TypeConfig, cannot_read, cannot_write};

const VOTE: &[u8] = b"vote";
const PURGED: &[u8] = b"purged";

impl Store {
    fn entries(&self, range: impl RangeBounds<u64>) -> Result<Vec<Entry<TypeConfig>>, Failure> {
        let first = match range.start_bound() {
            Bound::Included(&index) => index,
            Bound::Excluded(&index) => index + 1,
            Bound::Unbounded => 0,
        };
        let from = first.to_be_bytes();
        let mode = IteratorMode::From(&from, Direction::Forward);
        let mut entries = Vec::new();
        for entry in self.db.iterator_cf(&self.cf(LOG), mode) {
            let (index, entry) = entry?;
            if !range.contains(&u64::from_be_bytes(index.as_ref().try_into()?)) {
                break;
            }
            entries.push(serde_json::from_slice(&entry)?);
        }
        Ok(entries)
    }

    fn last_entry(&self) -> Result<Option<Entry<TypeConfig>>, Failure> {
        let mut entries = self.db.iterator_cf(&self.cf(LOG), IteratorMode::End);
        let last = entries.next().transpose()?;
        let decoded = last.map(|(_, entry)| serde_json::from_slice(&entry));
        Ok(decoded.transpose()?)
    }

    fn meta<T: DeserializeOwned>(&self, name: &[u8]) -> Result<Option<T>, Failure> {
        let value = self.db.get_cf(&self.cf(META), name)?;
        let decoded = value.map(|value| serde_json::from_slice(&value));
        Ok(decoded.transpose()?)
    }

    fn write_synced(&self, batch: WriteBatch) -> Result<(), Failure> {
        let mut synced = WriteOptions::default();
        synced.set_sync(true);
        Ok(self.db.write_opt(batch, &synced)?)
    }

    fn put_vote(&self, vote: &Vote<NodeId>) -> Result<(), Failure> {
        let mut batch = WriteBatch::default();
        batch.put_cf(&self.cf(META), VOTE, serde_json::to_vec(vote)?);
        self.write_synced(batch)
    }

    fn put_entries(
        &self,
        entries: impl IntoIterator<Item = Entry<TypeConfig>>,
    ) -> Result<(), Failure> {
        let mut batch = WriteBatch::default();
        for entry in entries {
            let index = entry.log_id.index.to_be_bytes();
            batch.put_cf(&self.cf(LOG), index, serde_json::to_vec(&entry)?);
        }
        self.write_synced(batch)
    }

    fn delete_from(&self, first: LogId) -> Result<(), Failure> {
        let mut batch = WriteBatch::default();
        let (first, end) = (first.index.to_be_bytes(), u64::MAX.to_be_bytes());
        batch.delete_range_cf(&self.cf(LOG), first, end);
        self.write_synced(batch)
    }

    fn delete_upto(&self, last: LogId) -> Result<(), Failure> {
        let mut batch = WriteBatch::default();
        let (first, end) = (0_u64.to_be_bytes(), (last.index + 1).to_be_bytes());
        batch.delete_range_cf(&self.cf(LOG), first, end);
        batch.put_cf(&self.cf(META), PURGED, serde_json::to_vec(&last)?);
        self.write_synced(batch)
    }
}

impl RaftLogReader<TypeConfig> for Store {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Result<Vec<Entry<TypeConfig>>, StorageError> {
        self.entries(range).map_err(cannot_read)
    }
}

impl RaftLogStorage<TypeConfig> for Store {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, StorageError> {
        let purged = self.meta(PURGED).map_err(cannot_read)?;
        let last = self.last_entry().map_err(cannot_read)?;
        Ok(LogState {
            last_purged_log_id: purged,
            last_log_id: last.map(|entry| entry.log_id).or(purged),
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<NodeId>) -> Result<(), StorageError> {
        self.put_vote(vote).map_err(cannot_write)
    }

    async fn read_vote(&mut self) -> Result<Option<Vote<NodeId>>, StorageError> {
        self.meta(VOTE).map_err(cannot_read)
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: LogFlushed<TypeConfig>,
    ) -> Result<(), StorageError>
    where
        I: IntoIterator<Item = Entry<TypeConfig>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        self.put_entries(entries).map_err(cannot_write)?;
        callback.log_io_completed(Ok(()));
        Ok(())
    }

    async fn truncate(&mut self, first: LogId) -> Result<(), StorageError> {
        self.delete_from(first).map_err(cannot_write)
    }

    async fn purge(&mut self, last: LogId) -> Result<(), StorageError> {
        // openraft 0.9 asks for it while the snapshot that covers the entries is still being
        // installed. A crash in between would leave neither the entries nor the snapshot.
        let begun = Instant::now();
        while self.applied().map_err(cannot_read)?.last < Some(last) {
            if begun.elapsed() > Duration::from_secs(60) {
                return Err(cannot_write("the state machine lacks what is to be purged"));
            }
            sleep(Duration::from_millis(2)).await;
        }
        self.delete_upto(last).map_err(cannot_write)
    }
}
