//! What a front may say, and from when until when: keys that come from outside end it.

use std::collections::HashSet;
use std::ptr;
use std::sync::{Arc, Weak};

use super::Column;
use crate::filter::{Chain, Scalable};
use crate::math::{Bits, Items};
use crate::planted::planted;
use crate::rocks::coverage::{Coverage, View};
use crate::rocks::inventory::Inventory;
use crate::segment::{SealedFilter, SegmentId};
use crate::sync::atomic::Ordering;
use crate::sync::unpoisoned;

/// What upkeep knows of a column's tables.
#[derive(Debug, Default)]
pub(super) struct Knowledge {
    /// Tables whose keys are all in the summary.
    covers: HashSet<SegmentId>,
    /// Grows when a table comes to those.
    covers_edition: u64,
    /// Whether every table that flush and compaction make is covered by construction: coverage
    /// was complete once and nothing came from outside since.
    settled: bool,
    /// Grows with each arrival of keys from outside.
    foreign_epoch: u64,
    /// Arrivals under way.
    foreign_in_flight: usize,
    /// See [`Column::note_consolidated`].
    consolidated: Option<Moment>,
    stored: Option<Stored>,
    /// A hook failed: nothing may be ruled out any more.
    pub(super) given_up: bool,
}

impl Column {
    /// Something that must not happen did: no key can be ruled out until the next open.
    pub(crate) fn give_up(&self) {
        {
            let mut knowledge = unpoisoned(self.knowledge.lock());
            knowledge.given_up = true;
            knowledge.settled = false;
            self.forget();
        }
        tracing::error!(column = %self.name, "nothing is ruled out; look-ups go to the engine until reopen");
    }

    /// Whether nothing will be ruled out until the next open.
    pub(crate) fn has_given_up(&self) -> bool {
        unpoisoned(self.knowledge.lock()).given_up
    }

    /// Keys came from outside without notice: what is known no longer holds.
    pub(crate) fn foreign_keys_arrived(&self) {
        self.foreign_keys_begin();
        self.foreign_keys_end();
    }

    /// Must be held while keys arrive that no memtable takes. Nothing is ruled out from here on
    /// until upkeep has seen the tables again.
    pub(crate) fn expect_foreign_keys(self: &Arc<Self>) -> ForeignKeys {
        self.foreign_keys_begin();
        ForeignKeys {
            column: Arc::clone(self),
        }
    }

    fn foreign_keys_begin(&self) {
        if planted!(ForeignUnannounced) {
            unpoisoned(self.knowledge.lock()).foreign_in_flight += 1;
            return;
        }
        let mut knowledge = unpoisoned(self.knowledge.lock());
        knowledge.foreign_epoch += 1;
        knowledge.foreign_in_flight += 1;
        knowledge.settled = false;
        self.forget();
    }

    fn foreign_keys_end(&self) {
        {
            let mut knowledge = unpoisoned(self.knowledge.lock());
            knowledge.foreign_epoch += 1;
            knowledge.foreign_in_flight -= 1;
        }
        if !planted!(NoWakeAfterExternalWrite) {
            self.wake();
        }
    }

    /// Puts a summary that answers *maybe* in the place of the one that there is, whose memory is
    /// free once its memtables are flushed. False when it is such a one already.
    pub(crate) fn drop_summary(&self) -> bool {
        let nothing = self.saturated_summary();
        let old = self.view().summary;
        if old.size() <= nothing.size() {
            return false;
        }
        if planted!(DroppedSummaryStarved) {
            self.retarget(vec![Arc::clone(&nothing)]);
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        // Readers first: what a memtable feeds from here on is not in the old one.
        {
            let _knowledge = unpoisoned(self.knowledge.lock());
            let view = self.view();
            self.show(View {
                summary: Arc::clone(&nothing),
                ..view
            });
        }
        self.retarget(vec![nothing]);
        true
    }

    fn saturated_summary(&self) -> Arc<Scalable> {
        let imprint = self.hasher.imprint().remixed();
        let options = *self.view().summary.options();
        let nothing = Chain::saturated(imprint);
        Arc::new(Scalable::starting_with(imprint, options, nothing))
    }

    /// The family is gone: gives the memory of its filters back. Whoever still asks is told *maybe*.
    pub(crate) fn retire(&self) {
        let mut knowledge = unpoisoned(self.knowledge.lock());
        knowledge.given_up = true;
        knowledge.settled = false;
        knowledge.covers = HashSet::new();
        let summary = self.saturated_summary();
        self.show(View::unknown(Arc::clone(&summary)));
        self.memtables.turn_to(self.memtables.last(summary));
    }

    fn forget(&self) {
        let View {
            summary, inventory, ..
        } = self.view();
        self.show(View {
            inventory: inventory.filter(|_| planted!(InventoryOutlivesForeign)),
            ..View::unknown(summary)
        });
    }

    /// Makes this what readers consult, as the next edition; under the lock of `knowledge`.
    pub(super) fn show(&self, view: View) {
        let grown = |now: &View| now.edition + u64::from(!is_overlooked(now, &view));
        let edition = self.view.with(grown);
        let begins_static = view.summary.begins_static();
        self.begins_static.store(begins_static, Ordering::Relaxed);
        self.view.publish(View { edition, ..view });
    }

    /// The epoch to hand to [`Column::publish`] later; taken *before* the tables are listed.
    pub(crate) fn epoch(&self) -> Epoch {
        let knowledge = unpoisoned(self.knowledge.lock());
        Epoch {
            number: knowledge.foreign_epoch,
            quiet: knowledge.foreign_in_flight == 0,
        }
    }

    /// Now, when the engine's latest write has this sequence number.
    pub(crate) fn moment(&self, sequence: u64) -> Moment {
        Moment {
            sequence,
            arrivals: unpoisoned(self.knowledge.lock()).foreign_epoch,
        }
    }

    pub(crate) fn is_settled(&self) -> bool {
        unpoisoned(self.knowledge.lock()).settled
    }

    /// Notes that another summary would be no better, with all that came until this moment; `None` that it
    /// may be.
    pub(crate) fn note_consolidated(&self, until: Option<Moment>) {
        unpoisoned(self.knowledge.lock()).consolidated = until;
    }

    /// Whether another summary would be no better: nothing came between the moment noted and this one.
    pub(crate) fn is_consolidated(&self, now: Moment) -> bool {
        unpoisoned(self.knowledge.lock()).consolidated == Some(now)
    }

    /// What there is of this summary to be stored: to be taken before it and [`Column::covers`] are copied.
    pub(crate) fn to_store(&self, summary: &Arc<Scalable>) -> Stored {
        Stored {
            summary: Arc::downgrade(summary),
            items: summary.items(),
            covers_edition: unpoisoned(self.knowledge.lock()).covers_edition,
        }
    }

    /// Notes that this is stored.
    pub(crate) fn note_stored(&self, stored: Stored) {
        unpoisoned(self.knowledge.lock()).stored = Some(stored);
    }

    /// Whether the summary that readers ask is stored as it is, and as covering what it covers.
    pub(crate) fn is_stored(&self) -> bool {
        let summary = self.view().summary;
        let knowledge = unpoisoned(self.knowledge.lock());
        knowledge.stored.as_ref().is_some_and(|stored| {
            stored.covers_edition == knowledge.covers_edition && stored.lacks(&summary) == Some(0)
        })
    }

    /// Whether what the next open would have to read again is little: the summary was stored when it had most of
    /// its keys.
    pub(crate) fn is_nearly_stored(&self) -> bool {
        let summary = self.view().summary;
        let knowledge = unpoisoned(self.knowledge.lock());
        let stored = knowledge.stored.as_ref();
        let lacks = stored.and_then(|stored| stored.lacks(&summary));
        lacks.is_some_and(|keys| keys <= summary.items().get() / LITTLE)
    }

    /// Notes that this summary has all keys of a table, if it is still the one that readers ask. Nothing
    /// is published; but what was read need not be read again, whatever comes from outside meanwhile.
    pub(crate) fn note_covered(&self, summary: &Arc<Scalable>, table: Option<SegmentId>) {
        let mut knowledge = unpoisoned(self.knowledge.lock());
        if let Some(id) = table
            && Arc::ptr_eq(&self.view().summary, summary)
        {
            knowledge.covers_edition += u64::from(knowledge.covers.insert(id));
        }
    }

    /// The tables whose keys are all in the summary.
    pub(crate) fn covers(&self) -> HashSet<SegmentId> {
        unpoisoned(self.knowledge.lock()).covers.clone()
    }

    /// Those of these tables whose keys are all in the summary.
    pub(crate) fn covers_among(
        &self,
        tables: impl Iterator<Item = SegmentId>,
    ) -> HashSet<SegmentId> {
        let knowledge = unpoisoned(self.knowledge.lock());
        tables.filter(|id| knowledge.covers.contains(id)).collect()
    }

    /// Makes `summary` what readers consult and `covers` what it speaks for, unless keys arrived
    /// from outside since `epoch`. Returns whether it did.
    pub(crate) fn publish(
        &self,
        epoch: Epoch,
        summary: Arc<Scalable>,
        coverage: Coverage,
        mut covers: HashSet<SegmentId>,
    ) -> bool {
        let mut knowledge = unpoisoned(self.knowledge.lock());
        if knowledge.is_past(epoch) {
            return false;
        }
        let now = self.view();
        let are_known = covers.is_subset(&knowledge.covers);
        knowledge.covers_edition += u64::from(!are_known);
        if planted!(DeadIdsKept) {
            covers.extend(&knowledge.covers);
        }
        knowledge.covers = covers;
        knowledge.settled = coverage.is_complete();
        let same = Arc::ptr_eq(&summary, &now.summary) && now.coverage.is_complete();
        // A new edition would make reads of many keys ask the engine for all, and audits judge nothing.
        if !(same && knowledge.settled) {
            self.show(View {
                summary,
                coverage,
                ..now
            });
        }
        true
    }

    /// Gives readers a second look, unless keys arrived from outside since `epoch`.
    pub(crate) fn publish_inventory(&self, epoch: Epoch, inventory: Inventory) {
        let knowledge = unpoisoned(self.knowledge.lock());
        let view = self.view();
        if view.is_known() && !knowledge.is_past(epoch) {
            let inventory = Some(inventory);
            self.show(View { inventory, ..view });
        }
    }

    /// Takes the second look away, if there is one.
    pub(crate) fn drop_inventory(&self) {
        let _knowledge = unpoisoned(self.knowledge.lock());
        let view = self.view();
        if view.inventory.is_some() {
            let inventory = None;
            self.show(View { inventory, ..view });
        }
    }

    /// Takes the second look away if this filter has a part in it.
    pub(crate) fn drop_second_look_at(&self, filter: &Arc<SealedFilter>) {
        let inventory = self.view().inventory;
        let asks = inventory.is_some_and(|inventory| inventory.asks(filter));
        if asks && !planted!(DamagedFilterAsked) {
            self.drop_inventory();
        }
    }
}

/// Whether a fault takes this view for the one before it.
fn is_overlooked(before: &View, view: &View) -> bool {
    let is_same = Arc::ptr_eq(&before.summary, &view.summary);
    let is_covered = before.coverage.is_complete() && view.coverage.is_complete();
    (planted!(SummaryUnnoticed) && !is_same)
        || (planted!(CoverageUnnoticed) && is_same && !is_covered)
        || (planted!(InventoryUnnoticed) && is_same && is_covered)
}

/// Little of a summary's keys is one in so many.
const LITTLE: u64 = 8;

/// How much of a summary is stored.
#[derive(Debug)]
pub(crate) struct Stored {
    summary: Weak<Scalable>,
    items: Items,
    covers_edition: u64,
}

impl Stored {
    /// How many keys of this summary are not stored; `None` where it is another one.
    fn lacks(&self, summary: &Arc<Scalable>) -> Option<u64> {
        let same = ptr::eq(self.summary.as_ptr(), Arc::as_ptr(summary));
        same.then(|| summary.items().get() - self.items.get())
    }
}

impl Knowledge {
    /// Of a summary that has the keys of these tables.
    pub(super) fn of_tables(covers: HashSet<SegmentId>) -> Self {
        Self {
            covers,
            ..Self::default()
        }
    }

    /// Memory of the lists.
    pub(super) fn size(&self) -> Bits {
        let an_entry = size_of::<SegmentId>() + size_of::<u8>();
        Bits::from_bytes((self.covers.capacity() * an_entry) as u64)
    }

    /// Whether what was learnt at `epoch` may not be published any more.
    fn is_past(&self, epoch: Epoch) -> bool {
        let past = self.foreign_epoch != epoch.number || !epoch.quiet;
        let given_up = self.given_up && !planted!(PublishedAfterGivingUp);
        given_up || (past && !planted!(OldEpochPublished))
    }
}

/// How far writes and arrivals from outside have come: files that overlap nothing take no sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    sequence: u64,
    arrivals: u64,
}

/// A moment in the history of arrivals from outside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Epoch {
    number: u64,
    quiet: bool,
}

/// Keys are arriving from outside.
#[derive(Debug)]
pub(crate) struct ForeignKeys {
    column: Arc<Column>,
}

impl Drop for ForeignKeys {
    fn drop(&mut self) {
        self.column.foreign_keys_end();
    }
}
