//! Maintenance: one thread that keeps the filters in step with the SSTs, slowly and in the
//! background.
//!
//! The truth is the list of live SSTs with their properties; callbacks only notify the [`Wakeup`].
//! For each column family, a maintenance run
//!
//! 1. lists the SSTs, and loads the missing segment filters from their sidecars;
//! 2. publishes which SSTs the summary filter covers; lookups check the segment filters of the
//!    others;
//! 3. plans and does what the listing asks for: reads the raw keys of uncovered SSTs, builds segment
//!    filters from them, saves what has no sidecar yet;
//! 4. plans and does a consolidation of the summary filter, if that is due;
//! 5. lists the segment filters that lookups prefetch.
//!
//! In the end, it removes sidecars of SSTs that are gone, and drops filters beyond the budget.
//! `plan` decides; `CfRun::act` does, or between two runs `act_at_once`.
//!
//! Keys are read from the SST files, never through an iterator of the database: that applies
//! deletions which a crash may undo, and skips entries that only an old snapshot still sees.

mod backoff;
mod budget;
mod consolidation;
mod coverage;
mod error;
mod growth;
mod live;
mod plan;
mod reading;
pub mod scrub;
pub mod segment_plan;
mod static_stage;
mod sweep;
mod tables;

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) use self::budget::room;
use self::error::TaskError;
use self::growth::Pace;
use self::live::LiveSegments;
use self::plan::{CfSnapshot, Listed, Task};
use self::sweep::Sweeper;
use crate::cf_filter::{CfFilter, Listing, WritePosition};
use crate::cf_filters::CfFilters;
use crate::engine::{Engine, LiveSegment};
use crate::fault::fault;
use crate::filter_store::FilterStore;
use crate::maintenance::backoff::Backoff;
use crate::maintenance::scrub::{ScrubLog, Scrubber};
use crate::math::Bits;
use crate::options::FrontOptions;
use crate::reach::reached;
use crate::segment::{Registry, SegmentId};
use crate::wakeup::{Requests, Wakeup};

/// How long maintenance waits for a request before it checks whether the writers are quiet.
pub(crate) const PATIENCE: Duration = Duration::from_millis(500);

/// How often maintenance polls whether external writes, or earlier writes, have ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Polls of what does not end: three seconds.
const MAX_POLLS: u32 = 150;

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

/// A maintenance run of one column family.
struct CfRun<'a> {
    maintenance: &'a Maintenance,
    cf_filter: &'a CfFilter,
    /// As listed when it began.
    tables: &'a Tables,
    backoff: &'a mut Backoff,
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
            self.wakeup.end();
            return false;
        }
        self.scrub_in_turn();
        let is_quiet = self.is_quiet();
        self.measure_paces();
        if !requests.any() && !self.act_between_runs(is_quiet) {
            return true;
        }
        // A panic must not leave the database without maintenance, nor its callers waiting.
        let failure = catch_unwind(AssertUnwindSafe(|| self.run_once(requests, is_quiet)));
        let failure = failure.unwrap_or_else(|panic| {
            fault!(PanicEndsMaintenance, resume_unwind(panic));
            tracing::error!("maintenance panicked; it continues with the next run");
            Some(TaskError::Panicked.to_string())
        });
        self.wakeup.answer(ticket, failure);
        true
    }

    /// Does what is due and takes no run. Returns whether something is due that takes one: a failed
    /// task again, or a consolidation.
    fn act_between_runs(&self, is_quiet: bool) -> bool {
        let now = Instant::now();
        for cf_filter in self.cf_filters.all() {
            let takes_run = match self.backoffs.get(cf_filter.name()) {
                Some(backoff) => {
                    fault!(NoRetryByItself, continue);
                    backoff.is_due(now)
                }
                None => self.act_without_run(&cf_filter, is_quiet),
            };
            if takes_run {
                return true;
            }
        }
        false
    }

    /// The same for one column family, of which no task failed.
    fn act_without_run(&self, cf_filter: &CfFilter, is_quiet: bool) -> bool {
        let now = self.write_position(cf_filter);
        // Nothing is planned then, and there may be a thousand of them.
        if cf_filter.coverage().is_resting(now) {
            return false;
        }
        for task in plan::plan(&self.snapshot(cf_filter, now, is_quiet, None)) {
            if !act_at_once(cf_filter, &task, now) {
                return true;
            }
        }
        false
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

    /// One maintenance run over everything. Returns the first failure, which is tried again later.
    fn run_once(&mut self, requests: Requests, is_quiet: bool) -> Option<String> {
        #[cfg(test)]
        self.wakeup.panic_if_requested("a run");
        if requests.scrub {
            self.scrubber.scrub_all();
        }
        // Before the listing: an SST that is being written meanwhile is not live yet (H62).
        let built = self.sweeper.idle_segments(&*self.engine);
        let mut failure = None;
        for cf_filter in self.cf_filters.all() {
            let mut backoff = self.backoffs.remove(cf_filter.name()).unwrap_or_default();
            backoff.begin(Instant::now(), requests.retry || requests.consolidate);
            match self.maintain_listed(&cf_filter, requests, is_quiet, &mut backoff) {
                Ok(()) | Err(TaskError::Disabled) => {}
                Err(TaskError::Stopped) => return Some(TaskError::Stopped.to_string()),
                // Tried again after the next catch-up, which notifies maintenance when it ends.
                Err(TaskError::Overtaken) if self.options.is_secondary() => {
                    reached!(SecondaryOvertaken);
                }
                Err(TaskError::CfGone(name)) => {
                    reached!(CfGone);
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
        let all = self.cf_filters.all();
        self.backoffs
            .retain(|name, _| all.iter().any(|cf_filter| cf_filter.name() == name));
        self.sweep(built);
        self.keep_within_budget();
        failure
    }

    /// Lists the SSTs of a column family and maintains its filters. A panic is its failure alone.
    fn maintain_listed(
        &mut self,
        cf_filter: &CfFilter,
        requests: Requests,
        is_quiet: bool,
        backoff: &mut Backoff,
    ) -> Result<(), TaskError> {
        let tables = self.list(cf_filter)?;
        let ids = tables.iter().filter_map(LiveSegment::id);
        self.live.record(cf_filter.name(), ids);
        let mut run = CfRun {
            maintenance: self,
            cf_filter,
            tables: &tables,
            backoff,
        };
        let maintain = || run.maintain(requests, is_quiet);
        catch_unwind(AssertUnwindSafe(maintain)).unwrap_or_else(|panic| {
            fault!(PanicEndsMaintenance, resume_unwind(panic));
            tracing::error!(
                cf_filter = cf_filter.name(),
                "maintenance of this column family panicked"
            );
            // The panic may have left a summary filter behind that writes feed and no lookup reads
            // (invariant 3).
            cf_filter.feed(vec![cf_filter.view().summary]);
            Err(TaskError::Panicked)
        })
    }

    /// Removes what is left of SSTs that are gone, unless a column family was never listed.
    fn sweep(&mut self, built: Option<HashSet<SegmentId>>) {
        let cfs = self.cf_filters.all();
        let live = self.live.of(cfs.iter().map(|cf_filter| cf_filter.name()));
        if live.is_some_and(|live| self.sweeper.sweep(&live, built)) {
            fault!(NoSecondSweep, return);
            self.wakeup.notify();
        }
    }

    /// Whether no write has been seen for [`PATIENCE`], by a monotonic clock (H74).
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

    /// What is known of a column family when writes have come to `now`.
    fn snapshot(
        &self,
        cf_filter: &CfFilter,
        now: WritePosition,
        is_quiet: bool,
        listed: Option<Listed>,
    ) -> CfSnapshot {
        let (summary, options) = (cf_filter.view().summary, self.summary_options());
        let (key_log, pace) = (cf_filter.key_log(), self.paces.get(cf_filter.name()));
        let is_resting = cf_filter.coverage().is_resting(now);
        let hardly_grows = is_quiet || pace.is_some_and(Pace::is_slow);
        // Only what is weighed against another summary filter is summed up: there may be a thousand
        // families.
        let is_weighed =
            listed.is_none() && !is_resting && (hardly_grows || summary.is_saturated());
        let is_short_of_room = summary.is_saturated() && options.memory_budget.get().is_some();
        let others = match is_weighed {
            true => self.cf_filters.size_of_published(Some(cf_filter)),
            false => Bits::new(0),
        };
        let are_counted = is_weighed && is_short_of_room;
        CfSnapshot {
            listed,
            summary: (&*summary).into(),
            is_complete: cf_filter.coverage().is_complete_by_construction(),
            lacks_prefixes: cf_filter.lookups().lacks_prefixes(),
            lacks_ranges: cf_filter.lookups().lacks_ranges(),
            prefixes: cf_filter.prefixes().len() as u64,
            logged: key_log.hashes(),
            is_log_whole: key_log.is_whole(),
            is_resting,
            are_writers_quiet: is_quiet,
            hardly_grows,
            is_backing_off: false,
            is_requested: false,
            options,
            others,
            entries: are_counted.then(|| self.entries(cf_filter).ok()).flatten(),
        }
    }

    /// Polls until the condition holds, for three seconds at most; then fails with `late`.
    fn wait_for(
        &self,
        late: TaskError,
        mut is_met: impl FnMut() -> Result<bool, TaskError>,
    ) -> Result<(), TaskError> {
        for _ in 0..MAX_POLLS {
            if is_met()? {
                return Ok(());
            }
            if self.wakeup.is_stopped_within(POLL_INTERVAL) {
                return Err(TaskError::Stopped);
            }
        }
        if is_met()? { Ok(()) } else { Err(late) }
    }

    /// Saves what is known of the SSTs at the close, without reading any (H79). The next open then finds
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
                    self.publish_listing(&cf_filter, &tables);
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
            tables.sort_by_key(|table| segment_plan::eviction_rank(table.level, table.entries));
            Ok(tables)
        };
        let listed = cf_filter.list(list).transpose();
        listed.map_err(|error| TaskError::list(cf_filter, error))
    }
}

impl CfRun<'_> {
    fn maintain(&mut self, requests: Requests, is_quiet: bool) -> Result<(), TaskError> {
        let (maintenance, cf_filter, tables) = (self.maintenance, self.cf_filter, self.tables);
        let _span = tracing::info_span!("maintain", cf = cf_filter.name()).entered();
        #[cfg(test)]
        maintenance.wakeup.panic_if_requested(cf_filter.name());
        if cf_filter.coverage().is_disabled() {
            return Ok(());
        }
        maintenance.load_filters(cf_filter, tables);
        let was_complete = cf_filter.coverage().is_complete_by_construction();
        maintenance.publish_listing(cf_filter, tables);
        maintenance.log_keys_from_the_start(cf_filter, tables)?;
        let options = &maintenance.options;
        if options.read_only_filters && !options.is_secondary() {
            return Ok(());
        }
        let before = cf_filter.view().summary;
        let listed = self.listed(was_complete);
        let done = [Some(listed), None].into_iter().try_for_each(|listed| {
            let now = maintenance.write_position(cf_filter);
            let snapshot = CfSnapshot {
                is_backing_off: self.backoff.is_waiting(),
                // The missing keys may have gone into another summary filter.
                is_requested: requests.consolidate
                    && Arc::ptr_eq(&before, &cf_filter.view().summary),
                ..maintenance.snapshot(cf_filter, now, is_quiet, listed)
            };
            let mut tasks = plan::plan(&snapshot).into_iter();
            tasks.try_for_each(|task| self.act(task, now))
        });
        // Also after a failure: the list of prefetched filters keeps filters of dead SSTs in
        // memory.
        done.and(maintenance.prefetch_filters(cf_filter))
    }

    /// Does a task that was planned when writes had come to `now`.
    fn act(&mut self, task: Task, now: WritePosition) -> Result<(), TaskError> {
        let (maintenance, cf_filter) = (self.maintenance, self.cf_filter);
        match task {
            Task::Cover(places) => self.cover(&places)?,
            Task::Consolidate { source, is_growing } => self.consolidate(source, is_growing)?,
            Task::RebuildSegments => self.rebuild_filters()?,
            Task::SaveSegments => maintenance.save_filters(self.tables),
            // A large one is not written for each small ingested file.
            Task::SaveSummaryIfMuchIsNew if cf_filter.is_nearly_saved() => {}
            Task::SaveSummaryIfMuchIsNew => maintenance.save_summary(cf_filter),
            Task::SaveSummaryIfWanted => {
                if maintenance
                    .engine
                    .wants_summary_saved(cf_filter.key_space())
                {
                    maintenance.save_summary(cf_filter);
                }
            }
            Task::EndLog | Task::Rest => _ = act_at_once(cf_filter, &task, now),
        }
        Ok(())
    }

    /// Why what was read could not be published.
    fn not_published(&self) -> TaskError {
        match self.cf_filter.coverage().is_disabled() {
            true => TaskError::Disabled,
            false => TaskError::Overtaken,
        }
    }

    /// What a listing showed that was published.
    fn listed(&self, was_complete: bool) -> Listed {
        let coverage = self.cf_filter.coverage();
        let covered = coverage.covered();
        // An SST without an id stays uncovered until it is rewritten (H44). Such SSTs come with a
        // secondary, or if the system had no randomness for an id.
        let is_uncovered = |table: &LiveSegment| {
            table.id().is_some_and(|id| !covered.contains(&id))
                && !self.backoff.is_quarantined(&table.path)
        };
        let mut listed = Listed {
            completes: !was_complete
                && !self.tables.is_empty()
                && coverage.is_complete_by_construction(),
            ..Listed::default()
        };
        let places = self.tables.iter().enumerate();
        for (place, table) in places.filter(|(_, table)| is_uncovered(table)) {
            listed.uncovered.push(place);
            if !self.backoff.failed_twice(&table.path) {
                listed.readable_entries += table.entries;
            }
        }
        listed
    }
}

/// Does a task that takes no run; false if it takes one.
fn act_at_once(cf_filter: &CfFilter, task: &Task, now: WritePosition) -> bool {
    match task {
        Task::EndLog => cf_filter.key_log().end(),
        Task::Rest => cf_filter.coverage().rest_at(now),
        _ => return false,
    }
    true
}
