//! The fronts of a database's column families, by RocksDB's id of each.

use std::collections::HashSet;
use std::sync::Arc;

use super::audit::Asked;
use super::column::{BeginsStatic, Column, ForeignKeys, UnderReading};
use super::{Engine, ffi};
use crate::filter::{AtLine, Lens, Look, through_best};
use crate::math::{Bits, Rate};
use crate::planted::planted;
use crate::rcu::{Published, Reading};
use crate::sync::{Mutex, unpoisoned};
use crate::threads::OwnSlot;

/// All fronts.
#[derive(Debug)]
pub(crate) struct Columns {
    by_id: Published<Vec<Option<Arc<Column>>>>,
    arrivals: Mutex<Arrivals>,
    summary_rate: Mutex<Rate>,
}

/// Keys that come from outside now, into families that may not have a front yet.
#[derive(Debug, Default)]
struct Arrivals {
    under_way: usize,
    /// Fronts that became known meanwhile.
    held: Vec<ForeignKeys>,
    /// Calls of the engine's beside which upkeep must not flush.
    flushers: usize,
    /// Families that never have a front.
    frontless: HashSet<u32>,
}

/// Must be held while keys arrive that no memtable takes.
pub(crate) struct Arrival<'a> {
    columns: &'a Columns,
    _held: Vec<ForeignKeys>,
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        let mut arrivals = unpoisoned(self.columns.arrivals.lock());
        arrivals.under_way -= 1;
        if arrivals.under_way == 0 || planted!(AnnouncedUntilTheFirstEnds) {
            arrivals.held.clear();
        }
    }
}

/// Must be held while the engine flushes several families at once.
pub(crate) struct Flushing<'a>(&'a Columns);

impl Drop for Flushing<'_> {
    fn drop(&mut self) {
        unpoisoned(self.0.arrivals.lock()).flushers -= 1;
    }
}

impl Columns {
    pub(crate) fn new(summary_rate: Rate) -> Self {
        Self {
            by_id: Published::new(Vec::new()),
            arrivals: Mutex::default(),
            summary_rate: Mutex::new(summary_rate),
        }
    }

    /// Calls `read` with the front of a column family, if it has one. `read` must be short: it is
    /// for look-ups, which pay for no reference count.
    #[inline]
    pub(crate) fn with<R>(&self, id: u32, read: impl FnOnce(&Column) -> R) -> Option<R> {
        self.by_id
            .with(|columns| Some(read(columns.get(id as usize)?.as_ref()?)))
    }

    /// What the filters of a column family say; `None` when it has no front. What is doubted waits for
    /// an audit.
    #[inline]
    pub(crate) fn ask(&self, id: u32, key: &[u8]) -> Option<Asked> {
        match self.ask_to_read(id, key) {
            Some(Asked::Spared | Asked::Likely) => self.with(id, |column| column.ask_fully(key)),
            asked => asked,
        }
    }

    /// [`Columns::ask`] for a read, as [`Column::ask_to_read`].
    #[inline]
    pub(crate) fn ask_to_read(&self, id: u32, key: &[u8]) -> Option<Asked> {
        through_best(OfFamily(self, id), key)
    }

    /// [`Columns::ask_to_read`] where a glance at one line does not tell.
    #[cold]
    #[inline(never)]
    fn ask_further(&self, id: u32, key: &[u8]) -> Option<Asked> {
        let reading = Reading::begin();
        let column = self.by_id.get(&reading).get(id as usize)?.as_ref()?;
        Some(match column.begins_static() {
            true => through_best(UnderReading(BeginsStatic(column), &reading), key),
            false => column.ask_or_spare(key),
        })
    }

    /// The front of a column family, if it has one, to be kept.
    pub(crate) fn get(&self, id: u32) -> Option<Arc<Column>> {
        self.by_id
            .with(|columns| columns.get(id as usize).cloned().flatten())
    }

    pub(crate) fn all(&self) -> Vec<Arc<Column>> {
        self.by_id
            .with(|columns| columns.iter().flatten().cloned().collect())
    }

    /// Memory that the filters fed by memtables take, but for one column's.
    pub(crate) fn size_without(&self, column: Option<&Column>) -> Bits {
        let others = self.all_without(column);
        others.map(|other| other.size()).sum()
    }

    /// Memory that the summaries take, but for one column's.
    pub(crate) fn size_of_summaries(&self, without: Option<&Column>) -> Bits {
        let others = self.all_without(without);
        others.map(|other| other.view().summary.size()).sum()
    }

    /// Memory that the fronts take beside filters.
    pub(crate) fn size_of_fronts(&self) -> Bits {
        let fronts = self.all().into_iter();
        fronts.map(|column| column.size_beside_filters()).sum()
    }

    fn all_without(&self, column: Option<&Column>) -> impl Iterator<Item = Arc<Column>> {
        let is_other = move |other: &Arc<Column>| {
            column.is_none_or(|column| !std::ptr::eq(Arc::as_ptr(other), column))
        };
        self.all().into_iter().filter(is_other)
    }

    /// The front whose summary takes the most memory.
    pub(crate) fn largest(&self) -> Option<Arc<Column>> {
        let size = |column: &Arc<Column>| column.view().summary.size();
        self.all().into_iter().max_by_key(size)
    }

    pub(crate) fn insert(&self, id: u32, column: Arc<Column>) {
        let mut arrivals = unpoisoned(self.arrivals.lock());
        if arrivals.under_way > 0 && !planted!(NewFamilyNotTold) {
            // They may be arriving here.
            arrivals.held.push(column.expect_foreign_keys());
            if planted!(NewFamilyToldBriefly) {
                arrivals.held.clear();
            }
        }
        self.change(|columns| {
            let index = id as usize;
            if columns.len() <= index {
                columns.resize(index + 1, None);
            }
            columns[index] = Some(column);
        });
    }

    /// Whether a front has given up: not one that was taken out a moment ago, which does so as well.
    pub(crate) fn one_has_given_up(&self) -> bool {
        let mut given_up = self.all();
        given_up.retain(|column| column.has_given_up());
        // One that was taken out was so before it gave up.
        given_up.iter().any(|column| {
            let listed = self.all();
            listed.iter().any(|other| Arc::ptr_eq(other, column))
        })
    }

    /// Forgets the fronts of the families with this name.
    pub(crate) fn remove(&self, name: &str) {
        self.remove_if(|column| column.name() == name);
    }

    /// Forgets a front whose family is gone.
    pub(crate) fn forget(&self, gone: &Arc<Column>) {
        self.remove_if(|column| Arc::ptr_eq(column, gone));
    }

    fn remove_if(&self, gone: impl Fn(&Arc<Column>) -> bool) {
        let _arrivals = unpoisoned(self.arrivals.lock());
        let columns = self.all();
        self.change(|columns| {
            for slot in columns.iter_mut() {
                slot.take_if(|column| gone(column));
            }
        });
        // The engine keeps the front itself until it is closed.
        columns
            .iter()
            .filter(|column| gone(column))
            .for_each(|column| column.retire());
    }

    /// Notes that the family that has this name now never has a front.
    pub(crate) fn leave_out(&self, engine: &Engine, name: &str) {
        let Some(family) = engine.cf_handle(name) else {
            return;
        };
        let id = ffi::column_id(&family);
        unpoisoned(self.arrivals.lock()).frontless.insert(id);
    }

    /// Announces keys from outside for the family with this id; for all, where it may yet have a front
    /// or none is named.
    pub(crate) fn expect_foreign_keys(&self, id: Option<u32>) -> Arrival<'_> {
        let mut arrivals = unpoisoned(self.arrivals.lock());
        arrivals.under_way += 1;
        let columns = match id.map(|id| (id, self.get(id))) {
            Some((_, Some(column))) => vec![column],
            Some((id, None)) if arrivals.frontless.contains(&id) => Vec::new(),
            _ => self.all(),
        };
        Arrival {
            columns: self,
            _held: columns
                .iter()
                .map(|column| column.expect_foreign_keys())
                .collect(),
        }
    }

    /// Announces that the engine flushes several families; waits for a flush of upkeep's.
    pub(crate) fn flush_without_upkeep(&self) -> Flushing<'_> {
        unpoisoned(self.arrivals.lock()).flushers += 1;
        Flushing(self)
    }

    /// Whether the engine flushes several families now.
    pub(crate) fn engine_is_flushing(&self) -> bool {
        unpoisoned(self.arrivals.lock()).flushers > 0
    }

    /// Acts while no keys come from outside and the engine does not flush several families; what is
    /// about to come waits for it. `None` when some are under way.
    pub(crate) fn between_arrivals<R>(&self, act: impl FnOnce() -> R) -> Option<R> {
        let arrivals = unpoisoned(self.arrivals.lock());
        (arrivals.under_way == 0 && arrivals.flushers == 0).then(act)
    }

    /// Under the lock of `arrivals`, so that changes come one at a time.
    fn change(&self, change: impl FnOnce(&mut Vec<Option<Arc<Column>>>)) {
        let mut columns = self.by_id.with(Vec::clone);
        change(&mut columns);
        self.by_id.publish(columns);
    }

    /// The rate that summaries are made for.
    pub(crate) fn summary_rate(&self) -> Rate {
        *unpoisoned(self.summary_rate.lock())
    }

    pub(crate) fn set_summary_rate(&self, rate: Rate) {
        *unpoisoned(self.summary_rate.lock()) = rate;
    }
}

/// [`Columns::ask_to_read`], both looks under one reading.
pub(crate) struct OfFamily<'a>(pub(crate) &'a Columns, pub(crate) u32);

impl Look<&[u8]> for OfFamily<'_> {
    type Seen = Option<Asked>;

    #[inline(always)]
    fn through(self, lens: impl Lens, key: &[u8]) -> Option<Asked> {
        let Self(columns, id) = self;
        let at_once = || {
            let slot = OwnSlot::known()?;
            let reading = Reading::begin_at_once(slot)?;
            let column = columns.by_id.get(&reading).get(id as usize)?.as_ref()?;
            if column.begins_static() {
                return None;
            }
            column.ask_under::<AtLine>(slot, &reading, lens, key)
        };
        at_once().or_else(|| columns.ask_further(id, key))
    }
}
