//! What can be set.

use lsm_sieve_filter::math::Rate;
use slatedb::config::DbReaderOptions;
use slatedb::object_store::path::Path;
use slatedb::wal::WalReader;
use slatedb::{BlockTransformer, BloomFilterPolicy, DbReaderBuilder, FilterPolicy};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

type Configure = dyn Fn(DbReaderBuilder<Path>) -> DbReaderBuilder<Path> + Send + Sync;

/// Settings of readers, publishers and writers. The defaults suit a database without merge operator,
/// block transformer or segment extractor.
#[derive(Clone)]
pub struct Options {
    pub(crate) engine: DbReaderOptions,
    pub(crate) configure: Option<Arc<Configure>>,
    pub(crate) policies: Vec<Arc<dyn FilterPolicy>>,
    pub(crate) transformer: Option<Arc<dyn BlockTransformer>>,
    pub(crate) log: Option<Arc<dyn WalReader>>,
    pub(crate) summary_rate: Rate,
    pub(crate) segment_rate: Rate,
    pub(crate) segment_filters: bool,
    pub(crate) read_uncovered: bool,
    pub(crate) store_filters: bool,
    pub(crate) max_beside: usize,
    pub(crate) max_staleness: Option<Duration>,
    pub(crate) max_filter_bytes: u64,
    pub(crate) max_summary_keys: u64,
    pub(crate) parallel: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            engine: DbReaderOptions::default(),
            configure: None,
            policies: vec![Arc::new(BloomFilterPolicy::new(10))],
            transformer: None,
            log: None,
            summary_rate: Rate::clamped(0.001),
            segment_rate: Rate::ONE_PERCENT,
            segment_filters: true,
            read_uncovered: true,
            store_filters: true,
            max_beside: 0,
            max_staleness: None,
            max_filter_bytes: 4 << 30,
            max_summary_keys: 200_000_000,
            parallel: 16,
        }
    }
}

impl Options {
    /// SlateDB's own settings of each reader. `skip_wal_replay` is set by [`Options::with_log`].
    ///
    /// SlateDB retries a failed request without end by default. Set `object_store_max_retries` if a
    /// read is to fail while the store is down.
    #[must_use]
    pub fn with_engine(mut self, engine: DbReaderOptions) -> Self {
        self.engine = engine;
        self
    }

    /// Configures the builder of each reader: caches, merge operator, segment extractor, clock. The
    /// mode, the options, the log and the filter policies are set afterwards.
    #[must_use]
    pub fn with_builder(
        mut self,
        configure: impl Fn(DbReaderBuilder<Path>) -> DbReaderBuilder<Path> + Send + Sync + 'static,
    ) -> Self {
        self.configure = Some(Arc::new(configure));
        self
    }

    /// Filter policies beside [`SievePolicy`](crate::SievePolicy), for SSTs that were written with
    /// them. By default SlateDB's Bloom filter.
    #[must_use]
    pub fn with_policies(mut self, policies: Vec<Arc<dyn FilterPolicy>>) -> Self {
        self.policies = policies;
        self
    }

    /// The block transformer that the database is written with. Summaries are not transformed.
    #[must_use]
    pub fn with_block_transformer(mut self, transformer: Arc<dyn BlockTransformer>) -> Self {
        self.transformer = Some(transformer);
        self
    }

    /// Readers also replay the log, up to where it ended when the checkpoint was taken. For
    /// checkpoints of `CheckpointScope::Durable`. `log` is as a rule a `SlateDbWalReader`.
    #[must_use]
    pub fn with_log(mut self, log: Arc<dyn WalReader>) -> Self {
        self.log = Some(log);
        self
    }

    /// The false-positive rate of summaries: 0.1 % by default, which takes 10 bits per key.
    #[must_use]
    pub fn with_summary_rate(mut self, rate: Rate) -> Self {
        self.summary_rate = rate;
        self
    }

    /// The false-positive rate of filters that are made for SSTs that have none: 1 % by default.
    #[must_use]
    pub fn with_segment_rate(mut self, rate: Rate) -> Self {
        self.segment_rate = rate;
        self
    }

    /// Whether readers hold the filters of SSTs that no summary covers. On by default; off, a reader
    /// without a summary denies nothing.
    #[must_use]
    pub fn with_segment_filters(mut self, on: bool) -> Self {
        self.segment_filters = on;
        self
    }

    /// Whether readers read all keys of an SST that has no filter of ours. On by default.
    #[must_use]
    pub fn with_read_uncovered(mut self, on: bool) -> Self {
        self.read_uncovered = on;
        self
    }

    /// Whether readers store the filters that they made from an SST's keys. On by default; readers
    /// that may not write to the store try once per SST.
    #[must_use]
    pub fn with_store_filters(mut self, on: bool) -> Self {
        self.store_filters = on;
        self
    }

    /// A reader that moves keeps its summary if it lacks at most `ssts` SSTs, and fetches only
    /// their filters. 0 by default: the summary of each checkpoint is fetched, which is larger, but
    /// has fewer false positives than one summary and several filters.
    #[must_use]
    pub fn with_max_beside(mut self, ssts: usize) -> Self {
        self.max_beside = ssts;
        self
    }

    /// The longest time since `sieve/current` was last read after which a reader still denies keys.
    /// Past it, every answer is *maybe*, so that an outage of the store is reported as SlateDB's
    /// error. No limit by default: a checkpoint stays right for itself.
    #[must_use]
    pub fn with_max_staleness(mut self, limit: Duration) -> Self {
        self.max_staleness = Some(limit);
        self
    }

    /// The largest summary or filter that is read: 4 GiB by default. Larger ones count as missing.
    #[must_use]
    pub fn with_max_filter_bytes(mut self, bytes: u64) -> Self {
        self.max_filter_bytes = bytes;
        self
    }

    /// The most keys that a publisher puts into a summary: two hundred million by default, for which
    /// it needs 16 bytes each while it builds. For more, it publishes the checkpoint without a
    /// summary, and readers hold the filters of the SSTs.
    #[must_use]
    pub fn with_max_summary_keys(mut self, keys: u64) -> Self {
        self.max_summary_keys = keys;
        self
    }

    /// Requests at a time while filters are fetched: 16 by default.
    #[must_use]
    pub fn with_parallel(mut self, requests: usize) -> Self {
        self.parallel = requests.max(1);
        self
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("engine", &self.engine)
            .field("summary_rate", &self.summary_rate)
            .field("segment_rate", &self.segment_rate)
            .field("segment_filters", &self.segment_filters)
            .field("read_uncovered", &self.read_uncovered)
            .field("store_filters", &self.store_filters)
            .field("max_beside", &self.max_beside)
            .field("max_staleness", &self.max_staleness)
            .field("max_filter_bytes", &self.max_filter_bytes)
            .field("max_summary_keys", &self.max_summary_keys)
            .field("parallel", &self.parallel)
            .finish_non_exhaustive()
    }
}
