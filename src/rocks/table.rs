//! Table capture: the filter of an SST while RocksDB writes it, in flush, compaction, recovery.

use std::sync::Arc;

use super::column::Column;
use crate::format::Source;
use crate::segment::{SegmentBuilder, SegmentId};

/// One table under construction.
#[derive(Debug)]
pub(crate) struct TableBuild {
    column: Arc<Column>,
    id: SegmentId,
    builder: Option<SegmentBuilder>,
}

impl TableBuild {
    pub(crate) fn new(column: Arc<Column>, builder: SegmentBuilder) -> Self {
        Self {
            column,
            id: builder.id(),
            builder: Some(builder),
        }
    }

    /// The identity that the table will carry.
    pub(crate) fn id(&self) -> SegmentId {
        self.id
    }

    /// Adds the key of one entry, deleted keys too: a filter that decides whether a table is read
    /// must know its tombstones.
    pub(crate) fn add(&mut self, key: &[u8]) {
        if let Some(builder) = &mut self.builder {
            builder.add(key);
        }
    }

    /// Seals the filter before the table can become visible. Returns whether the table may carry
    /// the identity; a table whose filter could not be built carries it too and is rebuilt later.
    pub(crate) fn finish(&mut self, entries: u64) -> bool {
        let Some(builder) = self.builder.take() else {
            return false;
        };
        match builder.seal(entries, Source::TableCapture) {
            Some(filter) => self.column.table_captured(self.id, filter),
            None => tracing::warn!(
                segment = %self.id,
                entries,
                "no filter for this table: a key was missed or memory ran out; it will be rebuilt"
            ),
        }
        true
    }
}
