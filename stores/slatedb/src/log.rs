//! The log's tail: rows that are durable in the log, but in no SST of the manifest yet.
//!
//! A reader that is opened with [`Options::with_log`](crate::Options::with_log) replays them into
//! memtables of its own, up to where the manifest says that the log ends. Each row's key is added to
//! a filter before SlateDB gets the row. A pinned reader replays only while it is opened, so after
//! that the filter is complete and takes no more keys.

use crate::binding::Binding;
use async_trait::async_trait;
use lsm_sieve_filter::filter::{Scalable, ScalableOptions};
use slatedb::wal::{WalError, WalFileRange, WalIterator, WalReader, WalRows};
use std::sync::Arc;

/// Feeds the keys of all rows that pass to a filter.
pub(crate) struct FilteredLog {
    inner: Arc<dyn WalReader>,
    binding: Binding,
    filter: Arc<Scalable>,
}

impl FilteredLog {
    pub(crate) fn new(inner: Arc<dyn WalReader>, binding: Binding) -> Self {
        let filter = Scalable::new(binding.imprint(), ScalableOptions::default());
        Self {
            inner,
            binding,
            filter: Arc::new(filter),
        }
    }

    pub(crate) fn filter(&self) -> Arc<Scalable> {
        self.filter.clone()
    }
}

#[async_trait]
impl WalReader for FilteredLog {
    async fn iterator(&self, range: WalFileRange) -> Result<Box<dyn WalIterator>, WalError> {
        Ok(Box::new(FilteredRows {
            inner: self.inner.iterator(range).await?,
            binding: self.binding,
            filter: self.filter.clone(),
        }))
    }

    async fn last_wal_file_id(&self, replay_after: u64) -> Result<u64, WalError> {
        self.inner.last_wal_file_id(replay_after).await
    }
}

struct FilteredRows {
    inner: Box<dyn WalIterator>,
    binding: Binding,
    filter: Arc<Scalable>,
}

#[async_trait]
impl WalIterator for FilteredRows {
    async fn next(&mut self) -> Result<Option<WalRows>, WalError> {
        let rows = self.inner.next().await?;
        for row in rows.iter().flat_map(|rows| &rows.rows) {
            self.filter.insert(self.binding.hash(&row.key));
        }
        Ok(rows)
    }
}
