//! Upkeep: one thread that keeps the filters true to the tables, slowly and behind the readers.
//!
//! Truth is the list of live tables with their properties; callbacks only ring the [`Bell`]. A
//! pass over a column family
//!
//! 1. lists its tables and gives each segment its filter from its sidecar;
//! 2. publishes what the summary covers, and asks the tables that it does not cover one by one;
//! 3. adds those tables' raw keys to the summary, or, when they are many, makes a new summary;
//! 4. rebuilds filters that are missing or of another rate from the raw keys;
//! 5. saves filters that have no sidecar yet, and removes sidecars of tables that are gone.
//!
//! Keys are read from the table files, never through an iterator of the database: that folds in
//! deletions which a crash may undo, and skips what only an old snapshot still sees.
//!
//! A new summary is made without a stop: new memtables feed it beside the old one, a flush turns
//! all other memtables into tables, the tables are read, and the view is swapped.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rocksdb::BoundColumnFamily;

use super::Engine;
use super::bell::{Bell, Calls};
use super::column::{Column, Epoch};
use super::columns::Columns;
use super::coverage::{Coverage, Uncovered};
use super::db::room;
use super::ffi::{self, LiveTable};
use super::inventory::{Inventory, MOST_TABLES};
use super::options::{HEADROOM, SieveOptions};
use super::planning::{self, Held, Limits};
use super::scrub::Scrubber;
use super::setback::Setback;
use super::shelf::Shelf;
use crate::filter::Scalable;
use crate::format::Source;
use crate::math::{Bits, Items};
use crate::planted::planted;
use crate::segment::{Action, Registry, SealedFilter, SegmentBuilder, SegmentId};

/// How long upkeep waits for a call before it looks whether the writers are quiet.
const PATIENCE: Duration = Duration::from_millis(500);

/// Stages that a summary may grow to while writers are busy; each is one cache line of a miss.
const BUSY_STAGES: usize = 6;

/// Passes that look in vain for a table whose filter was built, before the filter is stored away.
const PASSES_IN_VAIN: u32 = 8;

/// No table's filter takes more: what a file claims beyond, no memory is asked for.
const MOST_BITS: u64 = 1 << 16;
const MOST_BITS_AN_ENTRY: u64 = 1 << 10;

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
    #[error("cannot flush {column:?}: {source}")]
    Flush {
        column: String,
        source: rocksdb::Error,
    },
    #[error("memtables still feed the old summary of {0:?} after a flush")]
    OldMemtables(String),
    #[error("{path} cannot be read; the summary that holds its keys stays")]
    Needed { path: String },
    #[error("keys arrived from outside meanwhile")]
    Overtaken,
    #[error("told to stop")]
    Stopped,
}

/// The state of the thread.
pub(crate) struct Upkeep {
    pub(crate) engine: Arc<Engine>,
    pub(crate) columns: Arc<Columns>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) options: SieveOptions,
    pub(crate) bell: Arc<Bell>,
    /// Sidecars without a live table in the pass before.
    pub(crate) dead: HashSet<SegmentId>,
    /// Segments that were live in some pass and still have a filter or a sidecar.
    pub(crate) seen: HashSet<SegmentId>,
    /// In how many passes in turn a known segment was not live.
    pub(crate) missing: HashMap<SegmentId, u32>,
    /// The newest write that the pass before saw.
    pub(crate) sequence: u64,
    /// By the name of the column family; those without one are not here.
    pub(crate) setbacks: HashMap<String, Setback>,
    pub(crate) scrubber: Scrubber,
}

impl Upkeep {
    /// Answers the bell until told to stop.
    pub(crate) fn run(mut self) {
        loop {
            let (calls, ticket) = self.bell.listen(PATIENCE);
            if calls.stop {
                self.save_last();
                self.bell.answer(ticket, None);
                return;
            }
            self.scrub_in_turn();
            let called = calls.look || calls.retry || calls.consolidate || calls.scrub;
            if !called && !self.something_is_due() {
                continue;
            }
            // A panic here must not leave the database without upkeep, nor its callers waiting.
            let passed = catch_unwind(AssertUnwindSafe(|| self.scrub_and_pass(calls)));
            let failure = passed.unwrap_or_else(|_| {
                tracing::error!("upkeep panicked; it goes on with the next pass");
                Some("it panicked".to_owned())
            });
            self.bell.answer(ticket, failure);
        }
    }

    /// Whether something that failed is to be tried again, or the writers have become quiet and
    /// left a summary to consolidate.
    fn something_is_due(&mut self) -> bool {
        let quiet = self.is_quiet();
        let now = Instant::now();
        let due = |column: &Column| match self.setbacks.get(column.name()) {
            Some(setback) => setback.is_due(now),
            None => self.consolidation_is_due(column, quiet),
        };
        self.columns.all().iter().any(|column| due(column))
    }

    /// Reads the filters whose turn it is.
    fn scrub_in_turn(&mut self) {
        let now = Instant::now();
        let read = catch_unwind(AssertUnwindSafe(|| self.scrubber.scrub_in_turn(now)));
        if read.is_err() {
            tracing::error!("scrubbing panicked; it goes on with the next filter");
        }
    }

    fn scrub_and_pass(&mut self, calls: Calls) -> Option<String> {
        if calls.scrub {
            self.scrubber.scrub_all();
        }
        self.pass(calls)
    }

    /// One look at everything; returns what went wrong, which is tried again later.
    fn pass(&mut self, calls: Calls) -> Option<String> {
        let quiet = self.is_quiet();
        let built = self.idle_segments();
        // `None` once a family could not be listed: its tables may be any.
        let mut live = Some(HashSet::new());
        let mut failure = None;
        for column in self.columns.all() {
            let mut setback = self.setbacks.remove(column.name()).unwrap_or_default();
            setback.begin(Instant::now(), calls.retry || calls.consolidate);
            let epoch = column.epoch();
            let tended = match self.list(&column) {
                Ok(tables) => {
                    live.iter_mut()
                        .for_each(|live| live.extend(tables.iter().filter_map(LiveTable::id)));
                    self.tend(&column, epoch, &tables, calls, quiet, &mut setback)
                }
                Err(error) => {
                    live = live.filter(|_| matches!(error, UpkeepError::ColumnGone(_)));
                    Err(error)
                }
            };
            match tended {
                Ok(()) => {}
                Err(UpkeepError::Stopped) => return Some(UpkeepError::Stopped.to_string()),
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
        if let Some(live) = live {
            self.sweep(&live, built);
        }
        self.keep_within_budget();
        failure
    }

    /// Whether no write came since the pass before.
    fn is_quiet(&mut self) -> bool {
        let sequence = self.engine.latest_sequence_number();
        std::mem::replace(&mut self.sequence, sequence) == sequence
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
        if column.has_given_up() {
            return Ok(());
        }
        self.load_filters(tables);
        self.publish_known(column, epoch, tables);
        if self.options.is_frozen() {
            return Ok(());
        }
        self.save_filters(tables);
        if !column.is_settled() {
            self.cover(column, epoch, tables, setback)?;
        }
        self.rebuild_filters(column, tables, setback)?;
        self.save_filters(tables);
        let due = !setback.is_waiting() && self.consolidation_is_due(column, quiet);
        if calls.consolidate || due {
            self.consolidate(column, setback)?;
        }
        self.take_inventory(column)
    }

    fn handle(&self, column: &Column) -> Result<Arc<BoundColumnFamily<'_>>, UpkeepError> {
        // Another family may have taken the name of one that was dropped.
        let handle = self.engine.cf_handle(column.name());
        let own = handle.filter(|handle| column.is_front_of(ffi::column_id(handle)));
        own.ok_or_else(|| UpkeepError::ColumnGone(column.name().to_owned()))
    }

    fn list(&self, column: &Column) -> Result<Vec<LiveTable>, UpkeepError> {
        let listed = ffi::live_tables(&self.handle(column)?);
        let mut tables = listed.map_err(|reason| UpkeepError::List {
            column: column.name().to_owned(),
            reason,
        })?;
        // What the budget has room for goes to the best.
        tables.sort_by_key(|table| planning::worth(table.level, table.entries));
        Ok(tables)
    }

    // -------------------------------------------------------------- coverage

    /// Publishes what is known without reading a table.
    fn publish_known(&self, column: &Column, epoch: Epoch, tables: &[LiveTable]) {
        let summary = Arc::clone(&column.view().summary);
        if column.is_settled() || planted!(CoveredWhenListed) {
            // Every table is covered by construction; only the list of them has changed.
            let covers = tables.iter().filter_map(LiveTable::id).collect();
            column.publish(epoch, summary, Coverage::complete(), covers);
        } else {
            let covers = column.covers_among(tables.iter().filter_map(LiveTable::id));
            self.publish_partial(column, epoch, summary, covers, tables);
        }
    }

    fn publish_partial(
        &self,
        column: &Column,
        epoch: Epoch,
        summary: Arc<Scalable>,
        covers: HashSet<SegmentId>,
        tables: &[LiveTable],
    ) -> bool {
        let uncovered = tables.iter().filter(|table| !is_covered(table, &covers));
        let uncovered = uncovered.map(|table| Uncovered {
            segment: table.id().map(|id| self.registry.open(id)),
            range: table.range.clone(),
        });
        let coverage = Coverage::AllBut(uncovered.collect());
        column.publish(epoch, summary, coverage, covers)
    }

    /// Brings the keys of all uncovered tables into the summary.
    fn cover(
        &self,
        column: &Column,
        epoch: Epoch,
        tables: &[LiveTable],
        setback: &mut Setback,
    ) -> Result<(), UpkeepError> {
        let summary = Arc::clone(&column.view().summary);
        let mut covers = column.covers();
        // A table without identity (older than RocksDB 6.24) stays uncovered until it is rewritten.
        let missing = tables
            .iter()
            .filter(|table| table.id().is_some_and(|id| !covers.contains(&id)))
            .filter(|table| !setback.leaves_alone(&table.path));
        let missing: Vec<&LiveTable> = missing.collect();
        // No new summary for tables that would only be found unreadable once more.
        let fresh = missing
            .iter()
            .filter(|table| !setback.failed_before(&table.path));
        let entries: u64 = fresh.map(|table| table.entries).sum();
        let many = entries > summary.items().get() / 2 && entries > 0;
        if many && !planted!(CoveredUnread) {
            // In a wait it is this that failed, or would fail.
            if setback.is_waiting() {
                return Ok(());
            }
            if self.flush_would_wait(column) {
                setback.postpone(Instant::now());
                return Ok(());
            }
            return self.consolidate(column, setback);
        }
        for table in missing {
            if !planted!(CoveredUnread)
                && let Err(error) = self.absorb(column, table, &summary)
            {
                self.set_aside(column, table, error, setback)?;
                continue;
            }
            covers.extend(table.id());
            if !self.publish_partial(column, epoch, Arc::clone(&summary), covers.clone(), tables) {
                return Err(UpkeepError::Overtaken);
            }
        }
        if column.is_settled() {
            self.save_summary(column);
        }
        Ok(())
    }

    /// Leaves a table that cannot be read for later, and errs when something else is wrong. Returns
    /// whether the table is still there.
    fn set_aside(
        &self,
        column: &Column,
        table: &LiveTable,
        error: UpkeepError,
        setback: &mut Setback,
    ) -> Result<bool, UpkeepError> {
        let (UpkeepError::Read { .. } | UpkeepError::Miscount { .. }) = error else {
            return Err(error);
        };
        let is_live = self.list(column)?.iter().any(|t| t.path == table.path);
        if is_live {
            tracing::warn!(column = column.name(), %error, "the table is set aside for a while");
            setback.set_aside(Instant::now(), &table.path, error.to_string());
        } else {
            // Compacted away since the listing; what took its place has to be looked at.
            self.bell.ring();
        }
        Ok(is_live)
    }

    /// Adds a table's keys to the summary, and builds its filter on the way where it has none.
    fn absorb(
        &self,
        column: &Column,
        table: &LiveTable,
        summary: &Scalable,
    ) -> Result<(), UpkeepError> {
        let hasher = column.hasher();
        let mut builder = self.builder_for_missing(column, table);
        self.scan(column, table, |key, deletion| {
            if let Some(builder) = &mut builder {
                builder.add(key);
            }
            // Nowhere is a key whose newest entry is a tombstone; older entries speak for
            // themselves.
            if !deletion {
                summary.insert(hasher.hash(key).remixed());
            }
        })?;
        self.adopt(builder, table);
        Ok(())
    }

    /// Lets readers ask the tables' own filters where the summary says *maybe*, if the tables are
    /// few and all have one.
    fn take_inventory(&self, column: &Column) -> Result<(), UpkeepError> {
        let inventory = column.view().inventory;
        let epoch = column.epoch();
        let listed = self.table_filters(column)?;
        let known = inventory.as_ref().zip(listed.as_ref());
        if known.is_some_and(|(inventory, tables)| {
            inventory.lists(tables) && inventory.generations() == 1
        }) {
            return Ok(());
        }
        if listed.is_none() {
            column.publish_inventory(epoch, None);
            return Ok(());
        }
        let recent = column.collect_recent();
        let tables = self.table_filters(column)?;
        let inventory = tables.map(|tables| Inventory::new(tables, recent));
        column.publish_inventory(epoch, inventory);
        Ok(())
    }

    /// The filters of all live tables; `None` when one has none, or they are too many.
    fn table_filters(
        &self,
        column: &Column,
    ) -> Result<Option<Vec<Arc<SealedFilter>>>, UpkeepError> {
        let tables = self.list(column)?;
        if tables.len() > MOST_TABLES {
            return Ok(None);
        }
        let filter = |table: &LiveTable| self.registry.get(table.id()?)?.filter();
        Ok(tables.iter().map(filter).collect())
    }

    // -------------------------------------------------------------- consolidation

    fn consolidation_is_due(&self, column: &Column, quiet: bool) -> bool {
        // A summary that the budget keeps from the promised rate would come out the same again.
        if self.options.is_frozen() || column.is_consolidated(self.engine.latest_sequence_number())
        {
            return false;
        }
        let view = column.view();
        let stages = view.summary.stages();
        let wrong_rate = view.summary.predicted_rate() > self.columns.summary_rate().get() * 1.01;
        column.is_settled()
            && (stages > BUSY_STAGES || (quiet && (stages > 1 || wrong_rate)))
            && !self.flush_would_wait(column)
    }

    /// Whether a flush would wait for compactions. Nobody asked for the consolidation then, and
    /// upkeep has other work.
    fn flush_would_wait(&self, column: &Column) -> bool {
        let handle = self.handle(column);
        handle.is_ok_and(|handle| ffi::flush_would_wait(&handle))
    }

    /// Makes one summary of the right size while readers and writers go on.
    fn consolidate(&self, column: &Column, setback: &mut Setback) -> Result<(), UpkeepError> {
        let sequence = self.engine.latest_sequence_number();
        column.note_consolidated(None);
        let old = Arc::clone(&column.view().summary);
        let new = Arc::new(self.new_summary(column, &old)?);
        if planted!(OldSummaryStarved) {
            column.retarget(vec![Arc::clone(&new)]);
        } else {
            column.retarget(vec![Arc::clone(&old), Arc::clone(&new)]);
        }
        let outcome = self.fill_and_swap(column, &new, setback);
        let kept = if outcome.is_ok() { new } else { old };
        column.retarget(vec![kept]);
        if outcome.is_ok() {
            column.note_consolidated(Some(sequence));
            tracing::info!(
                column = column.name(),
                items = column.view().summary.items().get(),
                "consolidated the summary"
            );
            self.save_summary(column);
        }
        outcome
    }

    fn new_summary(&self, column: &Column, old: &Scalable) -> Result<Scalable, UpkeepError> {
        let entries: u64 = self.list(column)?.iter().map(|table| table.entries).sum();
        // A settled summary has counted every key once; tables count each version.
        let keys = if column.is_settled() {
            entries.min(old.items().get())
        } else {
            entries
        };
        let room = (keys as f64 * HEADROOM) as u64;
        let options = self
            .options
            .clone()
            .summary_rate(self.columns.summary_rate());
        let others = self.columns.size_without(Some(column));
        Ok(Scalable::new(
            column.hasher().imprint().remixed(),
            options.summary(Items::new(room), others),
        ))
    }

    fn fill_and_swap(
        &self,
        column: &Column,
        new: &Arc<Scalable>,
        setback: &mut Setback,
    ) -> Result<(), UpkeepError> {
        if !planted!(SwappedWithoutFlush) {
            self.flush(column)?;
        }
        if column.writes_past(new) && !planted!(SwappedWithoutFlush) {
            return Err(UpkeepError::OldMemtables(column.name().to_owned()));
        }
        let (epoch, tables) = self.absorb_all(column, new, setback)?;
        let (unread, read): (Vec<_>, Vec<_>) = tables
            .iter()
            .partition(|table| setback.leaves_alone(&table.path));
        let covers: HashSet<SegmentId> = read.iter().filter_map(|table| table.id()).collect();
        let (summary, known) = (Arc::clone(new), column.covers());
        let published = if unread.is_empty() {
            column.publish(epoch, summary, Coverage::complete(), covers)
        } else if let Some(needed) = unread.iter().find(|table| is_covered(table, &known)) {
            let path = needed.path.clone();
            return Err(UpkeepError::Needed { path });
        } else {
            self.publish_partial(column, epoch, summary, covers, &tables)
        };
        published.then_some(()).ok_or(UpkeepError::Overtaken)
    }

    fn flush(&self, column: &Column) -> Result<(), UpkeepError> {
        let flushed = self.engine.flush_cf(&self.handle(column)?);
        flushed.map_err(|source| UpkeepError::Flush {
            column: column.name().to_owned(),
            source,
        })
    }

    /// Reads all live tables into a summary, until one listing holds none that was neither read nor
    /// set aside.
    fn absorb_all(
        &self,
        column: &Column,
        summary: &Scalable,
        setback: &mut Setback,
    ) -> Result<(Epoch, Vec<LiveTable>), UpkeepError> {
        let mut read: HashSet<String> = HashSet::new();
        loop {
            let epoch = column.epoch();
            let tables = self.list(column)?;
            let mut all_there = true;
            for table in &tables {
                if read.contains(&table.path) || setback.leaves_alone(&table.path) {
                    continue;
                }
                match self.absorb(column, table, summary) {
                    Ok(()) => _ = read.insert(table.path.clone()),
                    Err(error) => all_there = self.set_aside(column, table, error, setback)?,
                }
                if !all_there {
                    break;
                }
            }
            if all_there {
                return Ok((epoch, tables));
            }
        }
    }

    // -------------------------------------------------------------- segment filters

    fn load_filters(&self, tables: &[LiveTable]) {
        for table in tables {
            let Some(id) = table.id() else { continue };
            let segment = self.registry.open(id);
            let most = table
                .entries
                .saturating_mul(MOST_BITS_AN_ENTRY)
                .saturating_add(MOST_BITS);
            let room = self.room(Bits::new(0)).min(Bits::new(most));
            if segment.filter().is_none()
                && let Some(filter) = self.shelf.load_within(id, room)
            {
                segment.set_filter(filter, true);
            }
        }
    }

    /// Memory that a filter may take which takes `own` of it now.
    fn room(&self, own: Bits) -> Bits {
        room(&self.options, &self.columns, &self.registry, own)
    }

    fn save_filters(&self, tables: &[LiveTable]) {
        for id in tables.iter().filter_map(LiveTable::id) {
            let Some(segment) = self.registry.get(id) else {
                continue;
            };
            if let Some(filter) = segment.filter()
                && !segment.is_saved()
                && self.shelf.save(id, &filter)
            {
                segment.mark_saved();
            }
        }
    }

    /// Gives each table that lacks one, or has one of another rate, a filter from its raw keys.
    fn rebuild_filters(
        &self,
        column: &Column,
        tables: &[LiveTable],
        setback: &mut Setback,
    ) -> Result<(), UpkeepError> {
        for table in tables {
            if setback.leaves_alone(&table.path) {
                continue;
            }
            let Some(mut builder) = self.builder_for_missing(column, table) else {
                continue;
            };
            match self.scan(column, table, |key, _| builder.add(key)) {
                Ok(()) => self.adopt(Some(builder), table),
                Err(error) => _ = self.set_aside(column, table, error, setback)?,
            }
        }
        Ok(())
    }

    /// A builder for the filter of a table that has none, or one that breaks the promise.
    fn builder_for_missing(&self, column: &Column, table: &LiveTable) -> Option<SegmentBuilder> {
        let rate = column.segment_rate()?;
        let id = table.id()?;
        let segment = self.registry.open(id);
        let filter = segment.filter();
        let own = filter.as_ref().map(|filter| filter.chain.size());
        let kept = filter.as_ref().filter(|filter| filter.rate == rate);
        let limits = Limits {
            rate,
            // Which filter goes when there are too many is not said by the order of the tables.
            room: match kept {
                Some(_) => Bits::new(u64::MAX),
                None => self.room(own.unwrap_or_default()),
            },
        };
        let chain = kept.map(|filter| &filter.chain);
        let imprint = column.hasher().imprint();
        let decision = planning::decide(id, chain, imprint, Items::new(table.entries), limits);
        match decision.action {
            Action::Rebuild { .. } => {
                tracing::info!(segment = %id, %decision, "a table's filter");
                Some(SegmentBuilder::new(id, column.hasher(), rate))
            }
            Action::Drop => {
                segment.drop_filter();
                None
            }
            Action::Keep | Action::Chain | Action::Or(_) | Action::Fold { .. } => None,
        }
    }

    fn adopt(&self, builder: Option<SegmentBuilder>, table: &LiveTable) {
        let Some(builder) = builder else { return };
        let id = builder.id();
        if let Some(filter) = builder.seal(table.entries, Source::RawKeys) {
            self.registry.open(id).set_filter(filter, false);
        }
    }

    /// Calls `each(key, is_deletion)` for every raw entry of a table; errs unless it saw all.
    fn scan(
        &self,
        column: &Column,
        table: &LiveTable,
        mut each: impl FnMut(&[u8], bool),
    ) -> Result<(), UpkeepError> {
        let mut found = 0;
        let mut stopped = false;
        let handle = self.handle(column)?;
        let scanned = ffi::raw_keys(&handle, &table.path, |key, deletion| {
            let unread = deletion && planted!(DeletionsUnread);
            each(if unread { &[] } else { key }, deletion);
            found += 1;
            stopped = found % 4096 == 0 && self.bell.stopping();
            !stopped
        });
        if planted!(ScanErrorIgnored) {
            return Ok(());
        }
        scanned.map_err(|reason| UpkeepError::Read {
            path: table.path.clone(),
            reason,
        })?;
        match found {
            _ if stopped => Err(UpkeepError::Stopped),
            found if found == table.entries => Ok(()),
            found => Err(UpkeepError::Miscount {
                path: table.path.clone(),
                expected: table.entries,
                found,
            }),
        }
    }

    // -------------------------------------------------------------- the budget

    /// Drops whole filters until all that are left fit the budget: those of tables first, since a
    /// summary spares more of the engine's work with each bit.
    fn keep_within_budget(&self) {
        let Some(budget) = self.options.get_memory_budget() else {
            return;
        };
        while self.columns.size_without(None) > budget
            && let Some(column) = self.columns.largest()
            && column.drop_summary()
        {
            tracing::warn!(
                column = column.name(),
                "the budget has no room for its summary"
            );
        }
        let taken = self.registry.size().get() + self.columns.size_without(None).get();
        let over = Bits::new(taken.saturating_sub(budget.get()));
        if over == Bits::new(0) {
            return;
        }
        for id in planning::least_worth(self.held(), over) {
            self.registry.open(id).drop_filter();
        }
        // Inventories hold what was dropped until they are taken anew.
        self.bell.ring();
    }

    /// The live tables that have a filter.
    fn held(&self) -> Vec<Held> {
        let columns = self.columns.all();
        let tables = columns.iter().filter_map(|column| self.list(column).ok());
        let held = |table: LiveTable| {
            let id = table.id()?;
            let size = self.registry.get(id)?.filter()?.chain.size();
            Some(Held {
                id,
                level: table.level,
                size,
            })
        };
        tables.flatten().filter_map(held).collect()
    }

    // -------------------------------------------------------------- saving and sweeping

    /// Saves what is known of the tables as they are at the end, and reads none of them: the next
    /// open then finds a filter for each and a summary that covers all.
    fn save_last(&self) {
        if self.options.is_frozen() {
            return;
        }
        for column in self.columns.all() {
            let epoch = column.epoch();
            match self.list(&column) {
                Ok(tables) => {
                    self.publish_known(&column, epoch, &tables);
                    self.save_filters(&tables);
                    self.save_summary(&column);
                }
                Err(error) => tracing::warn!(column = column.name(), %error, "not all was saved"),
            }
        }
    }

    fn save_summary(&self, column: &Column) {
        let summary = column.view().summary;
        if column.is_settled()
            && !summary.is_saturated()
            && !self.options.is_frozen()
            && self.scrubber.scrub_growing(column, &summary)
        {
            self.shelf
                .save_summary(column.name(), &summary, column.covers());
        }
    }

    /// Segments that were known before the listing, if no table was being written then; `None`
    /// otherwise: a table under construction is no live table yet.
    fn idle_segments(&self) -> Option<HashSet<SegmentId>> {
        let running = [
            "rocksdb.num-running-compactions",
            "rocksdb.num-running-flushes",
        ];
        let idle = running
            .iter()
            .all(|name| matches!(self.engine.property_int_value(*name), Ok(Some(0))));
        idle.then(|| self.registry.ids())
    }

    /// Removes what belongs to no live table: segments at once, sidecars in the second pass.
    ///
    /// A table that was live once does not come back. One that never was may be under construction,
    /// unless it was known (`built`) while nothing was being written.
    fn sweep(&mut self, live: &HashSet<SegmentId>, built: Option<HashSet<SegmentId>>) {
        let idle = built.is_some();
        let built = built.unwrap_or_default();
        let known = self.registry.ids();
        let times = |id| self.missing.get(id).copied().unwrap_or_default() + 1;
        let missing: HashMap<SegmentId, u32> =
            known.difference(live).map(|id| (*id, times(id))).collect();
        let gone = |id, times| {
            let over = self.seen.contains(&id) || built.contains(&id);
            over || (times >= PASSES_IN_VAIN && self.store_away(id))
        };
        let (gone, missing): (HashMap<_, _>, _) = missing
            .into_iter()
            .partition(|&(id, times)| gone(id, times));
        // The engine holds the segment of a table whose file it has not deleted yet, which it puts
        // off while an older compaction runs.
        let held = gone.keys().filter_map(|id| self.registry.get(*id));
        held.for_each(|segment| segment.drop_filter());
        self.registry.retain(|id| !gone.contains_key(&id));
        self.missing = missing;
        if !self.options.is_frozen() {
            let dead = |id: &SegmentId| !live.contains(id) && (idle || self.seen.contains(id));
            let dead: HashSet<SegmentId> = self.shelf.list().into_iter().filter(dead).collect();
            for &id in dead.intersection(&self.dead) {
                self.shelf.remove(id);
            }
            self.dead = dead;
        }
        self.seen
            .retain(|id| self.dead.contains(id) || self.registry.get(*id).is_some());
        self.seen.extend(live);
    }

    /// Stores a filter whose table is long in coming: the output of a long compaction, or of one
    /// that failed. It is loaded again with the table. False where nothing may be stored.
    fn store_away(&self, id: SegmentId) -> bool {
        if self.options.is_frozen() {
            return false;
        }
        if let Some(segment) = self.registry.get(id)
            && let Some(filter) = segment.filter()
            && !segment.is_saved()
            && !self.shelf.save(id, &filter)
        {
            tracing::warn!(segment = %id, "a filter is forgotten unsaved; its table will be read");
        }
        true
    }
}

fn is_covered(table: &LiveTable, covers: &HashSet<SegmentId>) -> bool {
    table.id().is_some_and(|id| covers.contains(&id))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use rocksdb::{CompactionDecision, Options};

    use super::*;
    use crate::rocks::SieveDb;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// Filters were forgotten only when no compaction ran as a pass began. Beside a long one those
    /// of dead tables stayed, and took the budget from the living.
    #[test]
    fn the_filters_of_dead_tables_go_while_a_compaction_runs() {
        const ROUNDS: u32 = 50;
        let home = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        options.set_max_background_jobs(8);
        let (entered, running) = mpsc::channel();
        let (release, held) = mpsc::channel::<()>();
        let mut slow = options.clone();
        slow.set_compaction_filter("held", move |_, _, _| {
            entered.send(()).unwrap();
            // Until the test is over, whatever way it ends.
            _ = held.recv();
            CompactionDecision::Keep
        });
        let families = [("default", options.clone()), ("slow", slow)];
        let sieve = SieveOptions::default();
        let db = SieveDb::open_cf_with_opts(&options, &sieve, home.path(), families).unwrap();
        thread::scope(|scope| {
            let release = release;
            let cf = db.cf_handle("slow").unwrap();
            db.put_cf(&cf, b"one", b"value").unwrap();
            db.flush_cf(&cf).unwrap();
            scope.spawn(|| {
                let cf = db.cf_handle("slow").unwrap();
                db.compact_range_cf::<&[u8], &[u8]>(&cf, None, None);
            });
            running.recv_timeout(PATIENCE).unwrap();
            for round in 0..ROUNDS {
                db.put(b"first", round.to_be_bytes()).unwrap();
                db.put(b"last", round.to_be_bytes()).unwrap();
                db.flush().unwrap();
                db.compact_range::<&[u8], &[u8]>(None, None);
                db.wait_until_known(PATIENCE);
            }
            let known = db.registry().ids().into_iter();
            let segments = known.filter_map(|id| db.registry().get(id));
            let filters = segments.filter(|segment| segment.filter().is_some());
            let filters = filters.count();
            drop(release);
            assert!(filters <= 20, "{filters} filters, two tables are live");
        });
        assert!(db.verify(true).unwrap().lost.is_empty());
    }
}
