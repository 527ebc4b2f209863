//! A filter of this crate inside each SST.
//!
//! SlateDB gives every row of an SST to a [`FilterBuilder`] and stores what it builds in the SST.
//! Readers decode it. A static filter of one percent takes 7 bits per key, SlateDB's own 10. Give
//! the policy to writers, compactors, compaction workers and readers alike. A reader without it
//! reads the SST without this filter.
//!
//! The bytes are those of a sidecar (`lsm_sieve_format`), with checksums, the id of the store and
//! the imprint of the seed. Decoding cannot fail: a filter that is damaged, foreign or newer answers
//! *maybe*.

use crate::binding::{Binding, SegmentFilter};
use crate::bucket::Bucket;
use crate::keys::{KeyHashes, RecentKeys};
use bytes::BufMut;
use lsm_sieve_filter::SegmentId;
use lsm_sieve_filter::filter::Stage;
use lsm_sieve_filter::math::{Items, Rate};
use lsm_sieve_format::format::Source;
use slatedb::{Filter, FilterBuilder, FilterPolicy, FilterQuery, FilterTarget, RowEntry};
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

/// Puts a static filter into each SST.
#[derive(Clone, Debug)]
pub struct SievePolicy {
    binding: Binding,
    rate: Rate,
    recent: Option<Arc<RecentKeys>>,
}

impl SievePolicy {
    /// The name that SSTs carry. The filters themselves say which version, store and seed they are
    /// of.
    pub const NAME: &'static str = "lsm-sieve";

    /// Filters with a false-positive rate of one percent.
    pub fn new(bucket: &Bucket) -> Self {
        Self {
            binding: *bucket.binding(),
            rate: Rate::ONE_PERCENT,
            recent: None,
        }
    }

    /// Sets the false-positive rate of new filters. Filters of any rate are read.
    #[must_use]
    pub fn with_rate(mut self, rate: Rate) -> Self {
        self.rate = rate;
        self
    }

    /// Also leaves the keys to a publisher.
    pub(crate) fn recording(mut self, recent: Arc<RecentKeys>) -> Self {
        self.recent = Some(recent);
        self
    }
}

impl FilterPolicy for SievePolicy {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn builder(&self) -> Box<dyn FilterBuilder> {
        Box::new(Builder {
            keys: KeyHashes::new(self.binding),
            policy: self.clone(),
        })
    }

    fn decode(&self, data: &[u8]) -> Arc<dyn Filter> {
        let decoded = self.binding.decode_segment(data);
        if let Err(reason) = &decoded {
            tracing::warn!(%reason, "a filter in an SST is of no use");
        }
        let filter = InSst {
            binding: self.binding,
            segment: decoded.ok().map(Arc::new),
        };
        // Fails if nobody waits for the filter.
        let _ = CAUGHT.try_with(|caught| caught.replace(filter.segment.clone()));
        Arc::new(filter)
    }

    fn estimate_size(&self, keys: usize) -> usize {
        const BESIDE_STAGE: usize = 200;
        let bits = Stage::ribbon_size(Items::new(keys as u64), self.rate);
        let bytes = bits.map_or(0, |bits| bits.get().div_ceil(8));
        usize::try_from(bytes).unwrap_or(usize::MAX / 2) + BESIDE_STAGE
    }

    fn supports_prefix_queries(&self) -> bool {
        false
    }
}

tokio::task_local! {
    /// The filter that was decoded last in this task.
    static CAUGHT: RefCell<Option<Arc<SegmentFilter>>>;
}

/// Runs something that makes SlateDB decode one filter, and returns that filter too.
pub(crate) async fn catching<T>(work: impl Future<Output = T>) -> (T, Option<Arc<SegmentFilter>>) {
    let work = async {
        let done = work.await;
        (done, CAUGHT.with(RefCell::take))
    };
    CAUGHT.scope(RefCell::default(), work).await
}

/// Collects the keys of an SST that is being written.
struct Builder {
    keys: KeyHashes,
    policy: SievePolicy,
}

impl FilterBuilder for Builder {
    fn add_entry(&mut self, entry: &RowEntry) {
        self.keys.add(&entry.key);
    }

    fn build(&mut self) -> Arc<dyn Filter> {
        let binding = self.policy.binding;
        let keys = std::mem::replace(&mut self.keys, KeyHashes::new(binding));
        let sealed = SegmentId::random().ok().and_then(|id| {
            if let (Some(recent), Some(hashes)) = (&self.policy.recent, keys.hashes()) {
                recent.keep(id, hashes);
            }
            keys.seal(id, self.policy.rate)
        });
        Arc::new(InSst {
            binding,
            segment: sealed.map(Arc::new),
        })
    }
}

/// The filter of an SST, as SlateDB holds it. Without a segment it answers *maybe*.
#[derive(Clone)]
struct InSst {
    binding: Binding,
    segment: Option<Arc<SegmentFilter>>,
}

impl Filter for InSst {
    fn might_match(&self, query: &FilterQuery) -> bool {
        match (&query.target, &self.segment) {
            (FilterTarget::Point(key), Some(segment)) => {
                segment.chain.may_contain(self.binding.hash(key))
            }
            _ => true,
        }
    }

    /// Writes nothing for a filter that could not be made. No bytes decode to *maybe*.
    fn encode(&self, writer: &mut dyn BufMut) {
        let segment = self.segment.as_ref();
        let bytes =
            segment.map(|segment| self.binding.encode_segment(segment, Source::TableCapture));
        match bytes {
            Some(Ok(bytes)) => writer.put_slice(&bytes),
            Some(Err(reason)) => tracing::warn!(%reason, "an SST gets no filter"),
            None => {}
        }
    }

    fn size(&self) -> usize {
        let bits = self.segment.as_ref().map(|segment| segment.chain.size());
        bits.map_or(0, |bits| {
            usize::try_from(bits.get().div_ceil(8)).unwrap_or(usize::MAX)
        })
    }

    /// The words are allocated to size, so sharing them wastes nothing.
    fn clamp_allocated_size(&self) -> Arc<dyn Filter> {
        Arc::new(self.clone())
    }
}

impl fmt::Debug for InSst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InSst").field(&self.segment).finish()
    }
}
