//! Scrubbing: verifies that the filters in memory are still as they were built.
//!
//! A bit of memory that flips from 1 to 0 makes a filter deny a key that it holds (H60). So each
//! resident filter is read again from time to time:
//!
//! - a segment filter is checked against the checksum that it was sealed with;
//! - a summary filter is checked stage by stage against the last scrub's checksum, if no key was
//!   inserted in between.
//!
//! A filter that changed is dropped as a whole, answers *maybe* from then on, and is rebuilt: a
//! segment filter from its sidecar or the SST's keys, a summary filter from all SSTs. A filter is
//! also checked before it is stored. So no damaged segment filter gets a valid checksum on disk,
//! nor does a summary filter with damage that the last scrub could have seen.
//!
//! The memory is read at a bounded rate, one filter at a time. It all happens on the maintenance
//! thread, which alone publishes and replaces filters.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use crate::cf_filter::CfFilter;
use crate::cf_filters::CfFilters;
use crate::fault::fault;
use crate::filter::Scalable;
use crate::math::Bits;
use crate::reach::reached;
use crate::segment::{Registry, SegmentId};
use crate::sync::unpoisoned;
use crate::wakeup::Wakeup;

/// Memory read in a second: a hundredth of what a machine can read, so that it does not disturb.
pub(crate) const BYTES_A_SECOND: u64 = 256 << 20;
const NANOS: u64 = 1_000_000_000;

/// What scrubbing has read and found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scrubbed {
    /// Filters that were read.
    pub filters: u64,
    /// The bytes of these filters.
    pub bytes: u64,
    /// Filters that were damaged and dropped.
    pub damaged: u64,
}

impl std::ops::Sub for Scrubbed {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            filters: self.filters - before.filters,
            bytes: self.bytes - before.bytes,
            damaged: self.damaged - before.damaged,
        }
    }
}

/// The totals since the database was opened.
#[derive(Debug, Default)]
pub struct ScrubLog(Mutex<Scrubbed>);

impl ScrubLog {
    pub(crate) fn so_far(&self) -> Scrubbed {
        *unpoisoned(self.0.lock())
    }

    fn record(&self, size: Bits, intact: bool) {
        let mut log = unpoisoned(self.0.lock());
        log.filters += 1;
        log.bytes += size.get() / 8;
        log.damaged += u64::from(!intact);
    }
}

/// A filter to be scrubbed; it may be gone by then.
#[derive(Debug)]
pub(crate) enum Target {
    Sealed(SegmentId),
    Growing(Weak<CfFilter>, Weak<Scalable>),
}

/// Scrubs filters, and drops those that changed.
pub(crate) struct Scrubber {
    cf_filters: Arc<CfFilters>,
    registry: Arc<Registry>,
    wakeup: Arc<Wakeup>,
    pub(crate) log: Arc<ScrubLog>,
    every: Option<Duration>,
    /// When the last round began.
    pub(crate) began: Instant,
    pub(crate) left: VecDeque<Target>,
    /// When the bytes read so far are within the rate.
    pub(crate) rested: Instant,
}

impl Scrubber {
    pub(crate) fn new(
        cf_filters: Arc<CfFilters>,
        registry: Arc<Registry>,
        wakeup: Arc<Wakeup>,
        log: Arc<ScrubLog>,
        every: Option<Duration>,
    ) -> Self {
        let now = Instant::now();
        Self {
            cf_filters,
            registry,
            wakeup,
            log,
            every,
            began: now,
            left: VecDeque::new(),
            rested: now,
        }
    }

    /// Scrubs every filter now.
    pub(crate) fn scrub_all(&self) {
        let all = self.targets();
        all.iter().for_each(|target| self.scrub(target));
    }

    /// Scrubs the filters that are due, as many as the rate allows.
    pub(crate) fn scrub_in_turn(&mut self, now: Instant) {
        if self.left.is_empty() && self.every.is_some_and(|every| now - self.began >= every) {
            self.began = now;
            self.rested = now;
            self.left = self.targets().into();
        }
        while self.rested <= now
            && let Some(target) = self.left.pop_front()
        {
            let before = self.log.so_far().bytes;
            self.scrub(&target);
            let read = self.log.so_far().bytes - before;
            self.rested += Duration::from_nanos(read.saturating_mul(NANOS) / BYTES_A_SECOND);
        }
    }

    pub(crate) fn targets(&self) -> Vec<Target> {
        let mut targets: Vec<Target> = self
            .registry
            .ids()
            .into_iter()
            .map(Target::Sealed)
            .collect();
        for cf_filter in self.cf_filters.all() {
            let summary = Arc::downgrade(&cf_filter.view().summary);
            targets.push(Target::Growing(Arc::downgrade(&cf_filter), summary));
        }
        targets
    }

    fn scrub(&self, target: &Target) {
        let _span = tracing::debug_span!("scrub").entered();
        match target {
            Target::Sealed(id) => self.scrub_sealed(*id),
            Target::Growing(cf_filter, filter) => {
                if let (Some(cf_filter), Some(filter)) = (cf_filter.upgrade(), filter.upgrade()) {
                    self.scrub_growing(&cf_filter, &filter);
                }
            }
        }
    }

    fn scrub_sealed(&self, id: SegmentId) {
        let segment = self.registry.get(id);
        let Some((segment, filter)) = segment.and_then(|s| Some((Arc::clone(&s), s.filter()?)))
        else {
            return;
        };
        let intact = filter.is_intact();
        self.log.record(filter.chain.size(), intact);
        if intact {
            return;
        }
        segment.drop_filter();
        reached!(DamageScrubbed);
        fault!(NoWakeForDamagedFilter, return);
        self.wakeup.notify();
        tracing::error!(
            segment = %id,
            "a filter changed in memory; it was dropped and will be rebuilt: test this \
             machine's memory"
        );
    }

    /// Whether a growing filter is intact. If not, it answers *maybe* from here on.
    pub(crate) fn scrub_growing(&self, cf_filter: &CfFilter, filter: &Scalable) -> bool {
        let intact = filter.is_intact();
        self.log.record(filter.size(), intact);
        if !intact {
            filter.saturate();
            cf_filter.coverage().end_rest();
            fault!(NoWakeForDamagedSummary, return false);
            self.wakeup.request(|requests| requests.consolidate = true);
            tracing::error!(
                cf_filter = cf_filter.name(),
                "a growing filter changed in memory; it answers maybe until it is rebuilt: \
                 test this machine's memory"
            );
        }
        intact
    }
}
