//! SST capture: the filter of an SST while RocksDB writes it, in flush, compaction and recovery.

use std::sync::Arc;

use crate::format::Source;
use crate::key_log::KeyLog;
use crate::prefix::{Prefix, Prefixes};
use crate::segment::{Registry, SegmentBuilder, SegmentId};
use crate::wakeup::Wakeup;

/// What the keys of an SST come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableOrigin {
    /// From memtables, by a flush or in recovery.
    Memtables,
    /// From other SSTs of the column family.
    Tables,
    Unknown,
}

/// The filter of one SST that is being written.
#[derive(Debug)]
pub struct SegmentFilterBuild {
    registry: Arc<Registry>,
    wakeup: Arc<Wakeup>,
    id: SegmentId,
    prefixes: Arc<Prefixes>,
    /// `None` if the SST gets no filter, or if it is finished.
    builder: Option<SegmentBuilder>,
    gets_filter: bool,
    /// Gets the keys, if they may be in no other SST.
    key_log: Option<Arc<KeyLog>>,
}

impl SegmentFilterBuild {
    pub fn new(
        registry: Arc<Registry>,
        wakeup: Arc<Wakeup>,
        builder: SegmentBuilder,
        key_log: Option<Arc<KeyLog>>,
    ) -> Self {
        Self {
            registry,
            wakeup,
            id: builder.id(),
            prefixes: Arc::clone(builder.prefixes()),
            builder: Some(builder),
            gets_filter: true,
            key_log,
        }
    }

    /// The build of an SST that gets an id and no filter.
    pub(crate) fn of_none(registry: Arc<Registry>, wakeup: Arc<Wakeup>, id: SegmentId) -> Self {
        Self {
            registry,
            wakeup,
            id,
            prefixes: Arc::default(),
            builder: None,
            gets_filter: false,
            key_log: None,
        }
    }

    /// The engine's own function for prefixes, whose prefixes the filter has.
    pub fn extractor(&self) -> Option<&Prefix> {
        let (_, extractor) = self.prefixes.of_engine()?;
        Some(extractor)
    }

    /// The id that the SST will carry.
    pub fn id(&self) -> SegmentId {
        self.id
    }

    /// Adds the key of one entry, tombstones included: a filter that decides whether an SST is read
    /// must know its tombstones.
    pub fn add(&mut self, key: &[u8]) {
        if let Some(builder) = &mut self.builder {
            builder.add(key);
        }
    }

    /// Seals the filter, if there is one, before the SST can become visible. Returns whether the SST
    /// may carry the id. An SST whose filter could not be built carries it too; its filter is rebuilt later.
    pub fn finish(&mut self, entries: u64) -> bool {
        let Some(builder) = self.builder.take() else {
            return !self.gets_filter;
        };
        if let Some(key_log) = &self.key_log {
            match builder.kept_hashes(entries) {
                Some(hashes) => key_log.append(hashes.iter().map(|hash| hash.for_summary())),
                None => key_log.end(),
            }
        }
        match builder.seal(entries, Source::TableCapture) {
            Some(filter) => {
                self.registry.open(self.id).set_filter(filter, false);
                self.wakeup.notify();
            }
            None => tracing::warn!(
                segment = %self.id,
                entries,
                "an SST has no filter: a key was missed or memory ran out; the filter will be rebuilt"
            ),
        }
        true
    }
}
