//! All filters of one database, and the maintenance that keeps them.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::audit::{FalseNegative, Trust};
use crate::cf_filter::CfFilter;
use crate::cf_filter::auditor::Auditor;
use crate::cf_filters::{CfFilters, Progress};
use crate::engine::Engine;
use crate::fault::fault;
use crate::filter_store::FilterStore;
use crate::hash::KeyHasher;
use crate::health::{FilterMemory, Health};
use crate::maintenance::scrub::{ScrubLog, Scrubbed};
use crate::maintenance::{Maintenance, room};
use crate::math::Bits;
use crate::opening::{ONE_KEY_SPACE_ID, Opening};
use crate::options::{FilterSize, FrontOptions};
use crate::segment::Registry;
use crate::stats::Stats;
use crate::sync::{Mutex, unpoisoned};
use crate::wakeup::{LONG, WaitError, Wakeup};

/// How long a wait lasts before it checks whether to go on.
const PATIENCE: Duration = Duration::from_millis(100);

/// Maintenance did not do what it was called for. The filters stay as they were and remain correct.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MaintenanceError {
    /// The database was closed, and its handle is still there.
    #[error("the database is closed: open it again")]
    Closed,
    /// The filters are only read.
    #[error(
        "the filters are read-only: open the database for writing, without `read_only_filters`"
    )]
    ReadOnly,
    /// An audit found a false negative, so all filters are distrusted.
    #[error("an audit found a false negative: open the database again")]
    FalseNegative,
    /// A hook failed, so a column family may have missed keys.
    #[error("a hook failed, and filters may have missed keys: open the database again")]
    HookFailed,
    /// A run failed. Transient failures are retried automatically.
    #[error("maintenance did not finish: {0}; transient failures are retried automatically")]
    Failed(String),
}

impl From<WaitError> for MaintenanceError {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::Failed(reason) => Self::Failed(reason),
            WaitError::Ended => Self::Closed,
        }
    }
}

/// The filters of one database: their state, and their maintenance.
pub struct Filters {
    engine: Arc<dyn Engine>,
    #[doc(hidden)]
    pub hasher: KeyHasher,
    #[doc(hidden)]
    pub cf_filters: Arc<CfFilters>,
    #[doc(hidden)]
    pub registry: Arc<Registry>,
    #[doc(hidden)]
    pub filter_store: Arc<FilterStore>,
    trust: Arc<Trust>,
    scrubs: Arc<ScrubLog>,
    #[doc(hidden)]
    pub wakeup: Arc<Wakeup>,
    #[doc(hidden)]
    pub options: FrontOptions,
    runner: Mutex<Runner>,
}

/// Who runs maintenance.
enum Runner {
    /// The caller of [`Filters::maintain`].
    Caller(Box<Maintenance>),
    Thread(JoinHandle<()>),
    Stopped,
}

/// For the doors to an engine, not for their users.
#[doc(hidden)]
impl Filters {
    /// The filters of an engine that is open, maintained by the callers of [`Filters::maintain`].
    pub fn new(
        engine: Arc<dyn Engine>,
        opening: Opening,
        cf_filters: Arc<CfFilters>,
        options: FrontOptions,
    ) -> Self {
        let Opening {
            hasher,
            registry,
            filter_store,
            wakeup,
        } = opening;
        let kept = (!options.read_only_filters).then(|| Arc::clone(&filter_store));
        let trust = Arc::new(Trust::new(Arc::clone(&registry), kept));
        let scrubs = Arc::<ScrubLog>::default();
        let maintenance = Maintenance::new(
            Arc::clone(&engine),
            Arc::clone(&cf_filters),
            Arc::clone(&registry),
            Arc::clone(&filter_store),
            options.clone(),
            Arc::clone(&wakeup),
            Arc::clone(&scrubs),
        );
        Self {
            engine,
            hasher,
            cf_filters,
            registry,
            filter_store,
            trust,
            scrubs,
            wakeup,
            options,
            runner: Mutex::new(Runner::Caller(Box::new(maintenance))),
        }
    }

    /// The filters of a store with one key space: see [`Opening::of_one_key_space`].
    pub fn of_one_key_space(
        engine: Arc<dyn Engine>,
        (opening, cf_filter): (Opening, &Arc<CfFilter>),
        options: FrontOptions,
    ) -> Self {
        let cf_filters = Arc::new(CfFilters::new(options.summary));
        let filters = Self::new(engine, opening, cf_filters, options);
        filters.insert(ONE_KEY_SPACE_ID, Arc::clone(cf_filter));
        filters
    }

    /// Moves maintenance to a thread of its own, which begins at once.
    pub fn start_thread(&self) -> io::Result<()> {
        let mut runner = unpoisoned(self.runner.lock());
        match std::mem::replace(&mut *runner, Runner::Stopped) {
            Runner::Caller(maintenance) => {
                maintenance.log_keys_of_new_database();
                wake_at_open(&self.wakeup);
                let thread = thread::Builder::new().name("lsm-sieve".to_owned());
                *runner = Runner::Thread(thread.spawn(move || maintenance.run())?);
            }
            started => *runner = started,
        }
        Ok(())
    }

    /// One maintenance run on this thread, unless maintenance has a thread of its own.
    pub fn maintain(&self) {
        // Held by a run that is under way, perhaps on this thread: it may have asked for a flush.
        if let Ok(mut runner) = self.runner.try_lock()
            && let Runner::Caller(maintenance) = &mut *runner
        {
            maintenance.serve(Duration::ZERO);
        }
    }

    /// Adds the filters of the column family with this id.
    pub fn insert(&self, id: u32, cf_filter: Arc<CfFilter>) {
        let auditor = Auditor::new(Arc::downgrade(&self.engine), Arc::clone(&self.trust));
        cf_filter.audit_with(auditor);
        self.trust.cover(&cf_filter);
        self.cf_filters.insert(id, cf_filter);
    }

    /// What further column families share with the first.
    pub fn opening(&self) -> Opening {
        Opening {
            hasher: self.hasher,
            registry: Arc::clone(&self.registry),
            filter_store: Arc::clone(&self.filter_store),
            wakeup: Arc::clone(&self.wakeup),
        }
    }
}

impl Filters {
    /// The state of all filters, from cheap figures.
    pub fn health(&self) -> Health {
        let cf_filters = self.cf_filters.all();
        fault!(
            HealthWakes,
            cf_filters.iter().for_each(|cf_filter| cf_filter.wake())
        );
        let cfs = cf_filters.iter().map(|cf_filter| cf_filter.health());
        let cfs: Vec<_> = cfs.collect();
        Health {
            memory: FilterMemory {
                summary: cfs.iter().map(|cf| cf.memory).sum(),
                segments: self.registry.size(),
                overhead: cfs.iter().map(|cf| cf.overhead).sum(),
            },
            budget_bytes: self.options.memory_budget.get().map(Bits::to_bytes),
            known_segments: self.registry.count(),
            false_negatives: self.false_negative().is_some(),
            cfs,
        }
    }

    /// The counters of the filters of all column families.
    pub fn stats(&self) -> Stats {
        let all = self.cf_filters.all().into_iter();
        let stats = all.map(|cf_filter| cf_filter.stats());
        stats.fold(Stats::default(), |sum, stats| sum + stats)
    }

    /// Verifies the checksums of all filters in memory. A filter that has changed since it was
    /// built is dropped and rebuilt. Waits until maintenance has finished its current run, then
    /// returns what this scrub read and found.
    ///
    /// # Errors
    /// If the database is closed, or if the rest of the maintenance run failed.
    /// [`Filters::scrubbed`] has what was read and found.
    pub fn scrub(&self) -> Result<Scrubbed, MaintenanceError> {
        let before = self.scrubbed();
        let ticket = self.wakeup.request(|requests| requests.scrub = true);
        self.maintain();
        self.wakeup.wait_for(ticket, LONG)?;
        Ok(self.scrubbed() - before)
    }

    /// What all scrubs since the open have read and found.
    pub fn scrubbed(&self) -> Scrubbed {
        self.scrubs.so_far()
    }

    /// The false negative that ended the trust in the filters, if there was one: an audit found a
    /// key that a filter had answered absent. From then on every lookup goes to the engine. Opening
    /// the database again rebuilds all filters with another seed. Read-only filters are trusted
    /// again instead, until their folder is removed.
    pub fn false_negative(&self) -> Option<&FalseNegative> {
        self.trust.lost()
    }

    /// Waits at most `limit` until maintenance has gone through all segments once; returns whether
    /// it has. By then the existing sidecars are loaded, and the keys of missing filters are read,
    /// if they could be.
    #[must_use = "false if it took longer"]
    pub fn wait_for_maintenance(&self, limit: Duration) -> bool {
        self.wait_for_maintenance_while(limit, || true)
    }

    /// [`Filters::wait_for_maintenance`] that calls `go_on` several times a second and stops waiting
    /// when it returns false.
    #[must_use = "false if it took longer or was stopped"]
    pub fn wait_for_maintenance_while(
        &self,
        limit: Duration,
        mut go_on: impl FnMut() -> bool,
    ) -> bool {
        let deadline = Instant::now() + limit.min(LONG);
        let ticket = self.wakeup.request(|requests| requests.retry = true);
        self.maintain();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if self.wakeup.is_answered(ticket, left.min(PATIENCE)) {
                return true;
            }
            if left.is_zero() || self.wakeup.has_ended() || !go_on() {
                return false;
            }
        }
    }

    /// Waits at most `limit` until the summary filters cover every segment; returns whether they do.
    /// It does not wait for segments that will not be covered: those without an id
    /// ([`CfHealth::without_id`](crate::health::CfHealth::without_id)), and all if the filters are
    /// read-only and take no keys.
    #[must_use = "false if some segments are not covered"]
    pub fn wait_until_complete(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit.min(LONG);
        let mut asked = false;
        loop {
            let runs = self.wakeup.runs();
            let none_is_read = self.options.read_only_filters && !self.options.is_secondary();
            match self.cf_filters.progress(none_is_read) {
                Progress::Complete => return true,
                Progress::Final => return false,
                Progress::Growing => {}
            }
            if self.wakeup.has_ended() {
                return false;
            }
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return false;
            };
            // A failed task is retried at once, and then after its backoff.
            if !std::mem::replace(&mut asked, true) {
                self.wakeup.request(|requests| requests.retry = true);
            }
            self.maintain();
            self.wakeup.wait_past(runs, left.min(PATIENCE));
        }
    }

    /// Rebuilds the summary filter of each column family at the right size, and the segment filters
    /// that have another rate. Blocks until done, however long it takes to read all keys. Reads and
    /// writes continue, and nothing is flushed. If the memory budget has no room for a summary
    /// filter of that size, the old one stays.
    ///
    /// # Errors
    /// If it could not be finished, for example because a segment cannot be read. The filters stay
    /// as they were and remain correct; maintenance tries again later.
    pub fn consolidate(&self) -> Result<(), MaintenanceError> {
        self.refuse_consolidation()?;
        let ticket = self.wakeup.request(|requests| requests.consolidate = true);
        self.maintain();
        self.wakeup.wait_for(ticket, LONG)?;
        // The filters may have been disabled meanwhile.
        self.refuse_disabled()
    }

    fn refuse_consolidation(&self) -> Result<(), MaintenanceError> {
        if matches!(*unpoisoned(self.runner.lock()), Runner::Stopped) {
            Err(MaintenanceError::Closed)
        } else if self.options.read_only_filters {
            Err(MaintenanceError::ReadOnly)
        } else {
            self.refuse_disabled()
        }
    }

    fn refuse_disabled(&self) -> Result<(), MaintenanceError> {
        if self.trust.lost().is_some() {
            Err(MaintenanceError::FalseNegative)
        } else if self.cf_filters.any_is_disabled() {
            Err(MaintenanceError::HookFailed)
        } else {
            Ok(())
        }
    }

    /// Changes the size of all filters; segment filters follow even if their size was set. They are
    /// rebuilt in the background from the keys of the existing segments, none of which is rewritten.
    /// [`Filters::consolidate`] waits for it.
    pub fn set_filter_size(&self, size: FilterSize) {
        let speed_over_memory = self.options.summary.at_rest.is_none();
        let rates = size.summary_rates(speed_over_memory);
        self.cf_filters.set_summary_rates(rates);
        let segments = size.segment_part(speed_over_memory).segment_rate();
        for cf_filter in self.cf_filters.all() {
            let rate = cf_filter.intake().segments().rate().map(|_| segments);
            cf_filter.intake().segments().set_rate(rate);
            // If the run that is called below fails, a later one finds it due.
            fault!(NewSizeForgotten, continue);
            cf_filter.coverage().end_rest();
        }
        fault!(NoWakeAfterSetRate, return);
        self.wakeup.request(|requests| requests.consolidate = true);
    }

    /// Changes the memory budget; `None` removes it. What exceeds a smaller one is dropped at once.
    /// A summary filter that no longer fits is rebuilt with fewer bits per key, and with more when
    /// there is room again.
    pub fn set_memory_budget(&self, bytes: Option<u64>) {
        let budget = bytes.map(Bits::from_bytes);
        self.options.memory_budget.set(budget);
        fault!(NoWakeAfterSetBudget, return);
        self.wakeup.notify();
    }
}

#[doc(hidden)]
impl Filters {
    /// Memory available to a filter that now takes `own`, which is counted as available.
    pub fn room(&self, own: Bits) -> Bits {
        room(&self.options, &self.cf_filters, &self.registry, own)
    }

    /// Ends maintenance, which saves the filters. Waits for it, unless it is the caller.
    pub fn stop_maintenance(&self) {
        self.wakeup.request(|requests| requests.stop = true);
        let runner = std::mem::replace(&mut *unpoisoned(self.runner.lock()), Runner::Stopped);
        match runner {
            Runner::Caller(mut maintenance) => _ = maintenance.serve(Duration::ZERO),
            // The last owner of a store may be its own maintenance.
            Runner::Thread(thread) if thread.thread().id() == thread::current().id() => {}
            Runner::Thread(thread) => {
                if thread.join().is_err() {
                    tracing::error!(
                        "maintenance ended in a panic; filters are rebuilt at the next open"
                    );
                }
            }
            Runner::Stopped => {}
        }
    }

    /// Frees the filters. What still reads them gets *maybe*.
    pub fn retire(&self) {
        let all = self.cf_filters.all();
        all.iter().for_each(|cf_filter| cf_filter.retire());
        self.registry.distrust();
    }
}

impl std::fmt::Debug for Filters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Filters").finish_non_exhaustive()
    }
}

fn wake_at_open(wakeup: &Wakeup) {
    fault!(NoWakeAtOpen, return);
    wakeup.notify();
}
