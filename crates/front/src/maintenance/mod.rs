//! Maintenance: one thread that keeps the filters in step with the SSTs, slowly and in the
//! background.
//!
//! The truth is the list of live SSTs with their properties; callbacks only notify the [`Wakeup`].
//! For each column family, a maintenance run
//!
//! 1. lists the SSTs and loads the missing segment filters from their sidecars;
//! 2. publishes which SSTs the summary filter covers; lookups check the segment filters of the
//!    others;
//! 3. adds the raw keys of uncovered SSTs to the summary filter, or consolidates it if they are
//!    many;
//! 4. rebuilds segment filters that are missing or of another rate from the SSTs' raw keys;
//! 5. saves filters that have no sidecar yet, and removes sidecars of SSTs that are gone;
//! 6. consolidates the summary filter if that is due (`consolidation`);
//! 7. lists the segment filters that lookups prefetch, and drops some if they exceed the budget.
//!
//! Keys are read from the SST files, never through an iterator of the database: that applies
//! deletions which a crash may undo, and skips entries that only an old snapshot still sees.

mod backoff;
mod budget;
mod consolidation;
mod coverage;
mod growth;
mod live;
pub mod planning;
pub mod scrub;
mod static_stage;
mod sweep;
mod tables;

use std::collections::{HashMap, TryReserveError};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) use self::budget::room;
use self::growth::Pace;
use self::live::LiveSegments;
use self::sweep::Sweeper;
use crate::cf_filter::{CfFilter, Listing, WritePosition};
use crate::cf_filters::CfFilters;
use crate::engine::{Engine, EngineError, LiveSegment};
use crate::fault::fault;
use crate::filter::StageError;
use crate::filter_store::FilterStore;
use crate::maintenance::backoff::Backoff;
use crate::maintenance::scrub::{ScrubLog, Scrubber};
use crate::options::FrontOptions;
use crate::segment::Registry;
use crate::wakeup::{Requests, Wakeup};

/// How long maintenance waits for a request before it checks whether the writers are quiet.
pub(crate) const PATIENCE: Duration = Duration::from_millis(500);

/// What can go wrong in a maintenance run; a later run tries again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TaskError {
    #[error("the column family {0:?} is gone")]
    CfGone(String),
    #[error("cannot list the live SSTs of {cf:?}: {reason}")]
    List { cf: String, reason: String },
    #[error("cannot read the keys of {path}: {reason}")]
    Read { path: String, reason: String },
    #[error("{path} holds {expected} entries but {found} were read")]
    Miscount {
        path: String,
        expected: u64,
        found: u64,
    },
    #[error("writes to {0:?} that began before do not end; the old summary filter stays")]
    StillHeld(String),
    #[error(
        "the system does not tell when writes to {0:?} have ended; the old summary filter stays"
    )]
    Unawaited(String),
    #[error("{path} cannot be read; the summary filter that has its keys stays")]
    Needed { path: String },
    #[error("external writes happened meanwhile")]
    Overtaken,
    #[error("it panicked")]
    Panicked,
    #[error("no memory for the hashes of the static summary filter of {cf:?}: {source}")]
    Hashes { cf: String, source: TryReserveError },
    #[error("the hashes of the keys of {0:?} cannot be kept in a file; its summary filter stays")]
    Spool(String),
    #[error("no static summary of {cf:?}: {source}")]
    Static { cf: String, source: StageError },
    #[error("told to stop")]
    Stopped,
}

impl TaskError {
    /// The engine could not say what segments or entries a column family has.
    fn list(cf_filter: &CfFilter, error: EngineError) -> Self {
        let cf = cf_filter.name().to_owned();
        match error {
            EngineError::Gone => Self::CfGone(cf),
            EngineError::Failed(reason) => Self::List { cf, reason },
        }
    }
}

/// The SSTs of a column family that are live.
type Tables = Listing<Vec<LiveSegment>>;

/// The state of the maintenance thread.
pub(crate) struct Maintenance {
    engine: Arc<dyn Engine>,
    cf_filters: Arc<CfFilters>,
    registry: Arc<Registry>,
    filter_store: Arc<FilterStore>,
    options: FrontOptions,
    wakeup: Arc<Wakeup>,
    live: LiveSegments,
    sweeper: Sweeper,
    /// The write position of each column family, and when it was first seen.
    latest: (Vec<WritePosition>, Instant),
    /// By column family name. A column family without a failure has no entry.
    backoffs: HashMap<String, Backoff>,
    /// By column family name.
    paces: HashMap<String, Pace>,
    scrubber: Scrubber,
}

impl Maintenance {
    pub(crate) fn new(
        engine: Arc<dyn Engine>,
        cf_filters: Arc<CfFilters>,
        registry: Arc<Registry>,
        filter_store: Arc<FilterStore>,
        options: FrontOptions,
        wakeup: Arc<Wakeup>,
        scrubs: Arc<ScrubLog>,
    ) -> Self {
        let kept = (!options.read_only_filters).then(|| Arc::clone(&filter_store));
        let scrubber = Scrubber::new(
            Arc::clone(&cf_filters),
            Arc::clone(&registry),
            Arc::clone(&wakeup),
            scrubs,
            options.scrub_every,
        );
        Self {
            live: LiveSegments::default(),
            sweeper: Sweeper::new(Arc::clone(&registry), kept),
            engine,
            cf_filters,
            registry,
            filter_store,
            options,
            wakeup,
            latest: (Vec::new(), Instant::now()),
            backoffs: HashMap::new(),
            paces: HashMap::new(),
            scrubber,
        }
    }

    /// Serves requests until told to stop.
    pub(crate) fn run(mut self) {
        while self.serve(PATIENCE) {}
    }

    /// Waits at most `patience` for requests and serves them; without any, does what is due. False
    /// if told to stop.
    pub(crate) fn serve(&mut self, patience: Duration) -> bool {
        let (requests, ticket) = self.wakeup.wait_for_requests(patience);
        if requests.stop {
            self.save_on_close();
            self.wakeup.answer(ticket, None);
            return false;
        }
        self.scrub_in_turn();
        let called = requests.look || requests.retry || requests.consolidate || requests.scrub;
        let quiet = self.is_quiet();
        self.measure_paces();
        if !called && !self.something_is_due(quiet) {
            return true;
        }
        // A panic must not leave the database without maintenance, nor its callers waiting.
        let passed = catch_unwind(AssertUnwindSafe(|| self.scrub_and_pass(requests, quiet)));
        let failure = passed.unwrap_or_else(|panic| {
            fault!(PanicEndsMaintenance, resume_unwind(panic));
            tracing::error!("maintenance panicked; it continues with the next run");
            Some(TaskError::Panicked.to_string())
        });
        self.wakeup.answer(ticket, failure);
        true
    }

    /// Whether a failed task is due again, or the writers have become quiet and a summary filter
    /// should be consolidated.
    fn something_is_due(&self, quiet: bool) -> bool {
        let now = Instant::now();
        let due = |cf_filter: &CfFilter| match self.backoffs.get(cf_filter.name()) {
            Some(backoff) => {
                fault!(NoRetryByItself, return false);
                backoff.is_due(now)
            }
            None => self.consolidation_is_due(cf_filter, quiet),
        };
        self.cf_filters.all().iter().any(|cf_filter| due(cf_filter))
    }

    /// Scrubs the filters whose turn it is.
    fn scrub_in_turn(&mut self) {
        fault!(NoScrubByItself, return);
        let now = Instant::now();
        let scrub = || {
            #[cfg(test)]
            self.wakeup.panic_if_requested("scrubbing");
            self.scrubber.scrub_in_turn(now);
        };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(scrub)) {
            fault!(ScrubPanicEndsMaintenance, resume_unwind(panic));
            tracing::error!("scrubbing panicked; it goes on with the next filter");
        }
    }

    fn scrub_and_pass(&mut self, requests: Requests, quiet: bool) -> Option<String> {
        #[cfg(test)]
        self.wakeup.panic_if_requested("a pass");
        if requests.scrub {
            self.scrubber.scrub_all();
        }
        self.pass(requests, quiet)
    }

    /// One maintenance run over everything. Returns the first failure, which is tried again later.
    fn pass(&mut self, requests: Requests, quiet: bool) -> Option<String> {
        let built = self.sweeper.idle_segments(&*self.engine);
        let mut failure = None;
        for cf_filter in self.cf_filters.all() {
            let mut backoff = self.backoffs.remove(cf_filter.name()).unwrap_or_default();
            backoff.begin(Instant::now(), requests.retry || requests.consolidate);
            let tended = match self.list(&cf_filter) {
                Ok(tables) => {
                    let ids = tables.iter().filter_map(LiveSegment::id);
                    self.live.record(cf_filter.name(), ids);
                    // A panic counts as this column family's failure and is not retried at once.
                    let maintain_cf =
                        || self.maintain_cf(&cf_filter, &tables, requests, quiet, &mut backoff);
                    catch_unwind(AssertUnwindSafe(maintain_cf)).unwrap_or_else(|panic| {
                        fault!(PanicEndsMaintenance, resume_unwind(panic));
                        tracing::error!(
                            cf_filter = cf_filter.name(),
                            "maintenance of this column family panicked"
                        );
                        // The panic may have left a summary filter behind that writes feed and no
                        // lookup reads.
                        cf_filter.feed(vec![cf_filter.view().summary]);
                        Err(TaskError::Panicked)
                    })
                }
                Err(error) => Err(error),
            };
            match tended {
                Ok(()) => {}
                Err(TaskError::Stopped) => return Some(TaskError::Stopped.to_string()),
                // Tried again after the next catch-up, which notifies maintenance when it ends.
                Err(TaskError::Overtaken) if self.options.is_secondary() => {}
                Err(TaskError::CfGone(name)) => {
                    tracing::info!(
                        cf_filter = name,
                        "the column family is gone, and its filters with it"
                    );
                    self.cf_filters.remove(&cf_filter);
                    continue;
                }
                Err(error) => {
                    tracing::warn!(cf_filter = cf_filter.name(), %error, "maintenance will try again");
                    backoff.fail(Instant::now(), error.to_string());
                }
            }
            failure = failure.or_else(|| backoff.failure().map(str::to_owned));
            if backoff.is_open() {
                self.backoffs.insert(cf_filter.name().to_owned(), backoff);
            }
        }
        let cfs = self.cf_filters.all();
        let cfs = cfs.iter().map(|cf_filter| cf_filter.name());
        let live = self.live.of(cfs);
        let mut some_wait = live.is_some_and(|live| self.sweeper.sweep(&live, built));
        fault!(NoSecondSweep, some_wait = false);
        if some_wait {
            self.wakeup.notify();
        }
        self.keep_within_budget();
        failure
    }

    /// Whether no write has been seen for [`PATIENCE`].
    fn is_quiet(&mut self) -> bool {
        let cf_filters = self.cf_filters.all();
        let now: Vec<_> = cf_filters
            .iter()
            .map(|cf_filter| self.write_position(cf_filter))
            .collect();
        let (latest, since) = &self.latest;
        if *latest != now {
            self.latest = (now, Instant::now());
            return false;
        }
        fault!(QuietAtOnce, return true);
        since.elapsed() >= PATIENCE
    }

    fn write_position(&self, cf_filter: &CfFilter) -> WritePosition {
        let budget = self.options.memory_budget.get();
        cf_filter
            .coverage()
            .write_position(self.engine.latest_sequence_number(), budget)
    }

    /// Maintains the filters of one column family, whose SSTs were listed in this epoch.
    fn maintain_cf(
        &self,
        cf_filter: &CfFilter,
        tables: &Tables,
        requests: Requests,
        quiet: bool,
        backoff: &mut Backoff,
    ) -> Result<(), TaskError> {
        let _span = tracing::info_span!("maintain", cf = cf_filter.name()).entered();
        #[cfg(test)]
        self.wakeup.panic_if_requested(cf_filter.name());
        if cf_filter.coverage().is_disabled() {
            return Ok(());
        }
        self.load_filters(cf_filter, tables);
        let was_complete = cf_filter.coverage().is_complete_by_construction();
        self.publish_known(cf_filter, tables);
        if !was_complete && !tables.is_empty() {
            // A run before has read them, which external writes overtook.
            self.save_unless_nearly_stored(cf_filter);
        }
        self.log_keys_from_the_start(cf_filter, tables)?;
        if self.options.read_only_filters && !self.options.is_secondary() {
            return Ok(());
        }
        let before = cf_filter.view().summary;
        let improved = self
            .build_missing(cf_filter, tables, backoff)
            .and_then(|()| {
                let due = !backoff.is_waiting() && self.consolidation_is_due(cf_filter, quiet);
                // A request is fulfilled already if the missing keys went into another summary
                // filter.
                let called =
                    requests.consolidate && Arc::ptr_eq(&before, &cf_filter.view().summary);
                if self.may_consolidate() && (called || due) {
                    let are_writers_busy = !called && !self.hardly_grows(cf_filter, quiet);
                    self.consolidate(cf_filter, are_writers_busy, backoff)?;
                }
                Ok(())
            });
        // Also after a failure: what is prefetched keeps filters alive.
        improved.and(self.prefetch_filters(cf_filter))
    }

    /// Adds missing keys to the summary filter, builds missing segment filters, and saves what is
    /// new.
    fn build_missing(
        &self,
        cf_filter: &CfFilter,
        tables: &Tables,
        backoff: &mut Backoff,
    ) -> Result<(), TaskError> {
        self.save_filters(tables);
        if !cf_filter.coverage().is_complete_by_construction() {
            self.cover(cf_filter, tables, backoff)?;
        }
        self.rebuild_filters(cf_filter, tables, backoff)?;
        self.save_filters(tables);
        if self.engine.wants_summary_stored(cf_filter.key_space()) {
            self.save_summary(cf_filter);
        }
        Ok(())
    }

    /// Saves what is known of the SSTs at the close, without reading any. The next open then finds
    /// a filter for each SST and a summary filter that covers all.
    fn save_on_close(&self) {
        fault!(NoSaveAtClose, return);
        if self.options.read_only_filters {
            return;
        }
        let _span = tracing::info_span!("save_on_close").entered();
        for cf_filter in self.cf_filters.all() {
            match self.list(&cf_filter) {
                Ok(tables) => {
                    fault!(ClosedWithoutListing, {
                        self.save_filters(&tables);
                        self.save_summary(&cf_filter);
                        continue;
                    });
                    self.publish_known(&cf_filter, &tables);
                    self.save_filters(&tables);
                    self.save_summary(&cf_filter);
                }
                Err(error) => {
                    tracing::warn!(cf_filter = cf_filter.name(), %error, "not all was saved")
                }
            }
        }
    }

    /// The SSTs of a column family.
    fn list(&self, cf_filter: &CfFilter) -> Result<Tables, TaskError> {
        let list = || {
            let mut tables = self.engine.segments(cf_filter.key_space())?;
            if !self.options.read_only_filters {
                cf_filter.instance_ids().assign(&mut tables);
            }
            // Best first, as far as the budget reaches.
            tables.sort_by_key(|table| planning::eviction_rank(table.level, table.entries));
            Ok(tables)
        };
        let listed = cf_filter.list(list).transpose();
        listed.map_err(|error| TaskError::list(cf_filter, error))
    }
}
