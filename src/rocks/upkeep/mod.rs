//! Upkeep: one thread that keeps the filters true to the tables, slowly and behind the readers.
//!
//! Truth is the list of live tables with their properties; callbacks only ring the [`Bell`]. A
//! pass over a column family
//!
//! 1. lists its tables and gives each segment its filter from its sidecar;
//! 2. publishes what the summary covers, and asks the tables that it does not cover one by one;
//! 3. adds those tables' raw keys to the summary, or, when they are many, makes a new summary;
//! 4. rebuilds filters that are missing or of another rate from the raw keys;
//! 5. saves filters that have no sidecar yet, and removes sidecars of tables that are gone;
//! 6. makes a new summary where the old one is due for it (`consolidation`);
//! 7. takes stock of all filters for the second look, and drops some where the budget is too small.
//!
//! Keys are read from the table files, never through an iterator of the database: that folds in
//! deletions which a crash may undo, and skips what only an old snapshot still sees.

mod budget;
mod consolidation;
mod coverage;
mod live;
mod static_stage;
mod sweep;
mod tables;

use std::collections::{HashMap, TryReserveError};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rocksdb::BoundColumnFamily;

pub(crate) use self::budget::room;
use self::live::Live;
use self::sweep::Sweeper;
use super::Engine;
use super::bell::{Bell, Calls};
use super::bound;
use super::column::{Column, Epoch, Moment};
use super::columns::Columns;
use super::ffi::{self, LiveTable};
use super::options::SieveOptions;
use super::planning;
use super::scrub::{ScrubLog, Scrubber};
use super::setback::Setback;
use super::shelf::Shelf;
use crate::filter::StageError;
use crate::planted::planted;
use crate::segment::Registry;

/// How long upkeep waits for a call before it looks whether the writers are quiet.
const PATIENCE: Duration = Duration::from_millis(500);

/// What can go wrong in a pass; a later one tries again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpkeepError {
    #[error("the column family {0:?} is gone")]
    ColumnGone(String),
    #[error("cannot list the live tables of {column:?}: {reason}")]
    List { column: String, reason: String },
    #[error("cannot read the keys of {path}: {reason}")]
    Read { path: String, reason: String },
    #[error("{path} holds {expected} entries but {found} were read")]
    Miscount {
        path: String,
        expected: u64,
        found: u64,
    },
    #[error("cannot flush {column:?}: {reason}")]
    Flush { column: String, reason: String },
    #[error("memtables still feed the old summary of {0:?} after a flush")]
    OldMemtables(String),
    #[error("{path} cannot be read; the summary that holds its keys stays")]
    Needed { path: String },
    #[error("keys arrived from outside meanwhile, or the engine flushes several families")]
    Overtaken,
    #[error("it panicked")]
    Panicked,
    #[error("no memory for the hashes of {column:?}, whose summary shall be static: {source}")]
    Hashes {
        column: String,
        source: TryReserveError,
    },
    #[error("no static summary of {column:?}: {source}")]
    Static { column: String, source: StageError },
    #[error("told to stop")]
    Stopped,
}

/// The state of the thread.
pub(crate) struct Upkeep {
    engine: Arc<Engine>,
    columns: Arc<Columns>,
    registry: Arc<Registry>,
    shelf: Arc<Shelf>,
    options: SieveOptions,
    bell: Arc<Bell>,
    live: Live,
    sweeper: Sweeper,
    /// What had come into each family, and when that was seen first.
    latest: (Vec<Moment>, Instant),
    /// By the name of the column family; those without one are not here.
    setbacks: HashMap<String, Setback>,
    scrubber: Scrubber,
}

impl Upkeep {
    pub(crate) fn new(
        engine: Arc<Engine>,
        columns: Arc<Columns>,
        registry: Arc<Registry>,
        shelf: Arc<Shelf>,
        options: SieveOptions,
        bell: Arc<Bell>,
        scrubs: Arc<ScrubLog>,
    ) -> Self {
        let kept = (!options.is_frozen()).then(|| Arc::clone(&shelf));
        let scrubber = Scrubber::new(
            Arc::clone(&columns),
            Arc::clone(&registry),
            Arc::clone(&bell),
            scrubs,
            options.get_scrub_every(),
        );
        Self {
            live: Live::default(),
            sweeper: Sweeper::new(Arc::clone(&registry), kept),
            engine,
            columns,
            registry,
            shelf,
            options,
            bell,
            latest: (Vec::new(), Instant::now()),
            setbacks: HashMap::new(),
            scrubber,
        }
    }

    /// Answers the bell until told to stop.
    pub(crate) fn run(mut self) {
        loop {
            let (calls, ticket) = self.bell.listen(PATIENCE);
            if calls.stop {
                if !planted!(NoSaveAtClose) {
                    self.save_last();
                }
                self.bell.answer(ticket, None);
                return;
            }
            if !planted!(NoScrubByItself) {
                self.scrub_in_turn();
            }
            let called = calls.look || calls.retry || calls.consolidate || calls.scrub;
            let quiet = self.is_quiet();
            if !called && !self.something_is_due(quiet) {
                continue;
            }
            // A panic here must not leave the database without upkeep, nor its callers waiting.
            let passed = catch_unwind(AssertUnwindSafe(|| self.scrub_and_pass(calls, quiet)));
            let failure = match passed {
                Ok(failure) => failure,
                Err(panic) if planted!(PanicEndsUpkeep) => resume_unwind(panic),
                Err(_) => {
                    tracing::error!("upkeep panicked; it goes on with the next pass");
                    Some(UpkeepError::Panicked.to_string())
                }
            };
            self.bell.answer(ticket, failure);
        }
    }

    /// Whether something that failed is to be tried again, or the writers have become quiet and
    /// left a summary to consolidate.
    fn something_is_due(&self, quiet: bool) -> bool {
        let now = Instant::now();
        let due = |column: &Column| match self.setbacks.get(column.name()) {
            Some(_) if planted!(NoRetryByItself) => false,
            Some(setback) => setback.is_due(now),
            None => self.consolidation_is_due(column, quiet),
        };
        self.columns.all().iter().any(|column| due(column))
    }

    /// Reads the filters whose turn it is.
    fn scrub_in_turn(&mut self) {
        let now = Instant::now();
        let scrub = || {
            #[cfg(test)]
            self.bell.panic_if_asked("scrubbing");
            self.scrubber.scrub_in_turn(now);
        };
        match catch_unwind(AssertUnwindSafe(scrub)) {
            Ok(()) => {}
            Err(panic) if planted!(ScrubPanicEndsUpkeep) => resume_unwind(panic),
            Err(_) => tracing::error!("scrubbing panicked; it goes on with the next filter"),
        }
    }

    fn scrub_and_pass(&mut self, calls: Calls, quiet: bool) -> Option<String> {
        #[cfg(test)]
        self.bell.panic_if_asked("a pass");
        if calls.scrub {
            self.scrubber.scrub_all();
        }
        self.pass(calls, quiet)
    }

    /// One look at everything; returns what went wrong, which is tried again later.
    fn pass(&mut self, calls: Calls, quiet: bool) -> Option<String> {
        let built = self.sweeper.idle_segments(&self.engine);
        let mut failure = None;
        for column in self.columns.all() {
            column.memtables().drop_spent();
            let mut setback = self.setbacks.remove(column.name()).unwrap_or_default();
            setback.begin(Instant::now(), calls.retry || calls.consolidate);
            let tended = match self.list_in_epoch(&column) {
                Ok((epoch, tables)) => {
                    let ids = tables.iter().filter_map(LiveTable::id);
                    self.live.note(column.name(), ids);
                    // A panic here is this family's failure, and is not tried again at once.
                    let tend = || self.tend(&column, epoch, &tables, calls, quiet, &mut setback);
                    catch_unwind(AssertUnwindSafe(tend)).unwrap_or_else(|panic| {
                        if planted!(PanicEndsUpkeep) {
                            resume_unwind(panic);
                        }
                        tracing::error!(column = column.name(), "upkeep panicked over this family");
                        // It may have left a summary behind that is fed and that nobody asks.
                        column.retarget(vec![column.view().summary]);
                        Err(UpkeepError::Panicked)
                    })
                }
                Err(error) => Err(error),
            };
            match tended {
                Ok(()) => {}
                Err(UpkeepError::Stopped) => return Some(UpkeepError::Stopped.to_string()),
                // By the next catch-up, which rings the bell when it ends.
                Err(UpkeepError::Overtaken) if self.options.is_secondary() => {}
                Err(UpkeepError::ColumnGone(name)) => {
                    tracing::info!(column = name, "the family is gone, and its front with it");
                    self.columns.forget(&column);
                    continue;
                }
                Err(error) => {
                    tracing::warn!(column = column.name(), %error, "upkeep will try again");
                    setback.fail(Instant::now(), error.to_string());
                }
            }
            failure = failure.or_else(|| setback.failure().map(str::to_owned));
            if setback.is_open() {
                self.setbacks.insert(column.name().to_owned(), setback);
            }
        }
        let families = self.columns.all();
        let families = families.iter().map(|column| column.name());
        if let Some(live) = self.live.of(families)
            && self.sweeper.sweep(&live, built)
            && !planted!(NoSecondSweep)
        {
            self.bell.ring();
        }
        self.keep_within_budget();
        failure
    }

    /// Whether the writers have paused.
    fn is_quiet(&mut self) -> bool {
        let columns = self.columns.all();
        let now: Vec<_> = columns.iter().map(|column| self.moment(column)).collect();
        let (latest, since) = &self.latest;
        if *latest != now {
            self.latest = (now, Instant::now());
            return false;
        }
        since.elapsed() >= PATIENCE || planted!(QuietAtOnce)
    }

    fn moment(&self, column: &Column) -> Moment {
        column.moment(self.engine.latest_sequence_number())
    }

    /// Sees to the filters of one family, whose tables were listed in this epoch.
    fn tend(
        &self,
        column: &Column,
        epoch: Epoch,
        tables: &[LiveTable],
        calls: Calls,
        quiet: bool,
        setback: &mut Setback,
    ) -> Result<(), UpkeepError> {
        #[cfg(test)]
        self.bell.panic_if_asked(column.name());
        if column.has_given_up() {
            return Ok(());
        }
        self.load_filters(tables);
        self.publish_known(column, epoch, tables);
        if self.options.is_frozen() && !self.options.is_secondary() {
            return Ok(());
        }
        let before = column.view().summary;
        let improved = self
            .make_missing(column, epoch, tables, setback)
            .and_then(|()| {
                let due = !setback.is_waiting() && self.consolidation_is_due(column, quiet);
                // As asked for, if missing keys came into another summary.
                let called = calls.consolidate && Arc::ptr_eq(&before, &column.view().summary);
                if self.may_consolidate() && (called || due) {
                    self.consolidate(column, setback)?;
                }
                Ok(())
            });
        // Where that failed as well: it may have left generations of memtables that are gone, and
        // that readers would ask for ever.
        if improved.is_ok() || !planted!(GenerationsLeftBehind) {
            self.take_inventory(column)?;
        }
        improved
    }

    /// Brings missing keys into the summary, makes missing filters of tables, and saves what is new.
    fn make_missing(
        &self,
        column: &Column,
        epoch: Epoch,
        tables: &[LiveTable],
        setback: &mut Setback,
    ) -> Result<(), UpkeepError> {
        self.save_filters(tables);
        if !column.is_settled() {
            self.cover(column, epoch, tables, setback)?;
        }
        self.rebuild_filters(column, tables, setback)?;
        self.save_filters(tables);
        Ok(())
    }

    /// Saves what is known of the tables as they are at the end, and reads none of them: the next
    /// open then finds a filter for each and a summary that covers all.
    fn save_last(&self) {
        if self.options.is_frozen() {
            return;
        }
        for column in self.columns.all() {
            match self.list_in_epoch(&column) {
                Ok((epoch, tables)) => {
                    self.publish_known(&column, epoch, &tables);
                    self.save_filters(&tables);
                    self.save_summary(&column);
                }
                Err(error) => tracing::warn!(column = column.name(), %error, "not all was saved"),
            }
        }
    }

    fn handle(&self, column: &Column) -> Result<Arc<BoundColumnFamily<'_>>, UpkeepError> {
        let own = bound::family(column, &self.engine);
        own.ok_or_else(|| UpkeepError::ColumnGone(column.name().to_owned()))
    }

    /// The tables of a family, and the epoch of before they were listed: what comes from outside
    /// after it may be in none of them.
    fn list_in_epoch(&self, column: &Column) -> Result<(Epoch, Vec<LiveTable>), UpkeepError> {
        let mut epoch = column.epoch();
        let tables = self.list(column)?;
        if planted!(EpochAfterListing) {
            thread::sleep(Duration::from_millis(50));
            epoch = column.epoch();
        }
        Ok((epoch, tables))
    }

    fn list(&self, column: &Column) -> Result<Vec<LiveTable>, UpkeepError> {
        let handle = self.handle(column)?;
        let listed = if self.options.is_secondary() && !planted!(TablesAheadOfReaders) {
            ffi::tables_of_readers(&handle)
        } else {
            ffi::live_tables(&handle)
        };
        let mut tables = listed.map_err(|reason| UpkeepError::List {
            column: column.name().to_owned(),
            reason,
        })?;
        if !self.options.is_frozen() {
            column.instance_ids().assign(&mut tables);
        }
        // What the budget has room for goes to the best.
        tables.sort_by_key(|table| planning::worth(table.level, table.entries));
        Ok(tables)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rocksdb::Options;

    use super::*;
    use crate::math::Items;
    use crate::rocks::SieveDb;

    const LIMIT: Duration = Duration::from_secs(20);

    /// A database whose upkeep has nothing left to do.
    fn open(path: &Path) -> SieveDb {
        let db = SieveDb::open_default(path).unwrap();
        assert!(db.wait_until_covered(LIMIT));
        assert!(db.wait_until_known(LIMIT));
        db
    }

    /// Whoever waits for it would wait for a day, and what comes would get no filters.
    #[test]
    fn a_panic_ends_a_pass_and_not_upkeep() {
        let home = tempfile::tempdir().unwrap();
        let db = open(home.path());
        let bell = db.shared_bell();
        bell.let_panic("a pass");
        let ticket = bell.call(|calls| calls.consolidate = true);
        let failure = bell.wait_for(ticket, LIMIT);
        assert_eq!(failure.as_deref(), Some("it panicked"));
        db.put("key", "value").unwrap();
        db.consolidate().unwrap();
        assert!(!db.answer("key").is_absent());
    }

    /// The others are seen to in the same pass.
    #[test]
    fn a_panic_over_one_family_is_the_failure_of_that_family() {
        let home = tempfile::tempdir().unwrap();
        let db = open(home.path());
        db.create_cf("other", &Options::default()).unwrap();
        assert!(db.wait_until_covered(LIMIT));
        let other = db.cf_handle("other").unwrap();
        db.put("key", "value").unwrap();
        db.put_cf(&other, "key", "value").unwrap();
        let summaries = || {
            db.columns()
                .all()
                .into_iter()
                .map(|front| front.view().summary)
        };
        let before: Vec<_> = summaries().collect();
        let bell = db.shared_bell();
        bell.let_panic("default");
        let ticket = bell.call(|calls| calls.consolidate = true);
        let failure = bell.wait_for(ticket, LIMIT);
        assert_eq!(failure.as_deref(), Some("it panicked"));
        let pairs = before.iter().zip(summaries());
        let same: Vec<bool> = pairs.map(|(old, new)| Arc::ptr_eq(old, &new)).collect();
        assert_eq!(same, [true, false]);
        db.consolidate().unwrap();
        assert!(!db.answer("key").is_absent() && !db.answer_cf(&other, "key").is_absent());
    }

    /// Two looks that follow one another at once see no write between them, however busy the writers.
    #[test]
    fn writers_who_pause_for_a_moment_are_not_taken_for_quiet() {
        let home = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        let sieve = SieveOptions::default().expected_keys(Items::new(100));
        let db = SieveDb::open(&options, &sieve, home.path()).unwrap();
        let column = db.columns().all().remove(0);
        (0..150_u32).for_each(|i| db.put(i.to_be_bytes(), b"value").unwrap());
        // A new one may have two stages as well: of so few keys the estimate may be short by some.
        let grown = column.view().summary;
        assert!(grown.stages() > 1);
        let is_kept = || Arc::ptr_eq(&grown, &column.view().summary);
        let looked = AtomicBool::new(false);
        let kept = thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut longest = Duration::ZERO;
                while !looked.load(Ordering::Acquire) {
                    let began = Instant::now();
                    db.put("key", "value").unwrap();
                    thread::sleep(Duration::from_millis(5));
                    longest = longest.max(began.elapsed());
                }
                longest
            });
            (0..1_000).for_each(|_| assert!(db.wait_until_known(LIMIT)));
            let kept = is_kept();
            looked.store(true, Ordering::Release);
            // On a busy machine a moment may be long.
            kept || writer.join().unwrap() >= PATIENCE
        });
        assert!(kept, "consolidated beside writers");
        let began = Instant::now();
        while is_kept() {
            assert!(began.elapsed() < LIMIT, "not consolidated when they paused");
            thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn a_panic_ends_the_look_at_a_filter_and_not_upkeep() {
        let home = tempfile::tempdir().unwrap();
        let db = open(home.path());
        let bell = db.shared_bell();
        bell.let_panic("scrubbing");
        let ticket = bell.call(|calls| calls.consolidate = true);
        assert_eq!(bell.wait_for(ticket, LIMIT), None);
        // It did: there is none to come.
        bell.panic_if_asked("scrubbing");
    }
}
