//! The filters of a database's column families, by RocksDB's id of each.

use std::collections::HashSet;
use std::sync::Arc;

use crate::cf_filter::{CfFilter, ExternalWrites, Resolve, multi_lookup};
use crate::fault::fault;
use crate::math::Bits;
use crate::options::SummaryRates;
use crate::rcu::{Published, Reading};
use crate::reach::reached;
use crate::sync::{Mutex, unpoisoned};

/// The filters of all column families.
#[derive(Debug)]
pub struct CfFilters {
    by_id: Published<Vec<Option<Arc<CfFilter>>>>,
    external: Mutex<ExternalState>,
    summary_rates: Mutex<SummaryRates>,
}

/// External writes that are under way, perhaps into column families that have no filters yet.
#[derive(Debug, Default)]
struct ExternalState {
    under_way: usize,
    /// The external writes of column families that were added meanwhile.
    held: Vec<ExternalWrites>,
    /// Column families that never have filters.
    excluded: HashSet<u32>,
}

impl ExternalState {
    /// External writes may be arriving in this new column family.
    fn announce_to(&mut self, new: &Arc<CfFilter>) {
        fault!(NewCfUnannounced, return);
        if self.under_way > 0 {
            reached!(NewCfInExternalWrites);
            self.held.push(new.begin_external_writes());
            fault!(NewCfAnnouncedBriefly, self.held.clear());
        }
    }
}

/// How far the summary filters have come to cover all segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Complete,
    /// Some segments are not covered, and will not be before the next open.
    Final,
    Growing,
}

/// Must be held while external writes run: invariant 5, H22.
pub struct ExternalGuard<'a> {
    cf_filters: &'a CfFilters,
    _held: Vec<ExternalWrites>,
}

impl Drop for ExternalGuard<'_> {
    fn drop(&mut self) {
        let mut external = unpoisoned(self.cf_filters.external.lock());
        external.under_way -= 1;
        fault!(AnnouncementEndsWithFirst, external.held.clear());
        if external.under_way == 0 {
            external.held.clear();
        }
    }
}

impl CfFilters {
    pub fn new(summary: SummaryRates) -> Self {
        Self {
            by_id: Published::new(Vec::new()),
            external: Mutex::default(),
            summary_rates: Mutex::new(summary),
        }
    }

    /// The filters of a column family, if it has any, to be kept.
    pub fn get(&self, id: u32) -> Option<Arc<CfFilter>> {
        self.by_id
            .with(|cf_filters| cf_filters.get(id as usize).cloned().flatten())
    }

    /// The values of keys, each of the column family with its id, at one moment. `engine` reads those
    /// at the indexes that it is given. `None` if all are of one column family that has no filters.
    pub fn multi_get<V, E>(
        &self,
        cfs: &[u32],
        keys: &[&[u8]],
        engine: impl Fn(&[usize]) -> Vec<Result<Option<V>, E>>,
    ) -> Option<Vec<Result<Option<V>, E>>> {
        let Some((first, others)) = cfs.split_first() else {
            return Some(Vec::new());
        };
        if others.iter().all(|cf| cf == first) {
            let cf_filter = self.get(*first)?;
            return Some(multi_lookup::multi_get_at(&cf_filter, keys, engine));
        }
        let with_filters = cfs.iter().zip(keys);
        let with_filters: Vec<_> = with_filters
            .map(|(&cf, &key)| (self.get(cf), key))
            .collect();
        Some(multi_lookup::multi_get_cf(&with_filters, engine))
    }

    pub fn all(&self) -> Vec<Arc<CfFilter>> {
        self.by_id
            .with(|cf_filters| cf_filters.iter().flatten().cloned().collect())
    }

    /// Memory of all summary filters, also of those that are being built.
    pub(crate) fn size_of_summaries(&self) -> Bits {
        self.all()
            .iter()
            .map(|cf_filter| cf_filter.size_of_summaries())
            .sum()
    }

    /// Memory of the summary filters that lookups read, except that of one column family.
    pub fn size_of_published(&self, without: Option<&CfFilter>) -> Bits {
        let others = self.all_without(without);
        others.map(|other| other.size_of_published()).sum()
    }

    /// Memory of all column families beside their filters.
    pub(crate) fn overhead(&self) -> Bits {
        let filters = self.all().into_iter();
        filters
            .map(|cf_filter| cf_filter.size_beside_filters())
            .sum()
    }

    fn all_without(&self, cf_filter: Option<&CfFilter>) -> impl Iterator<Item = Arc<CfFilter>> {
        let is_other = move |other: &Arc<CfFilter>| {
            cf_filter.is_none_or(|cf_filter| !std::ptr::eq(Arc::as_ptr(other), cf_filter))
        };
        self.all().into_iter().filter(is_other)
    }

    /// The column family with the largest summary filter.
    pub(crate) fn largest(&self) -> Option<Arc<CfFilter>> {
        let all = self.all().into_iter();
        all.max_by_key(|cf_filter| cf_filter.size_of_published())
    }

    pub fn insert(&self, id: u32, cf_filter: Arc<CfFilter>) {
        let mut external = unpoisoned(self.external.lock());
        external.announce_to(&cf_filter);
        self.change(|cf_filters| {
            let index = id as usize;
            if cf_filters.len() <= index {
                cf_filters.resize(index + 1, None);
            }
            cf_filters[index] = Some(cf_filter);
        });
    }

    /// Whether the filters of a column family are disabled. Those that were just removed are
    /// disabled too, and do not count.
    pub(crate) fn any_is_disabled(&self) -> bool {
        let mut disabled = self.all();
        disabled.retain(|cf_filter| cf_filter.coverage().is_disabled());
        // They are removed before they are disabled, so listing again tells them apart.
        disabled.iter().any(|cf_filter| {
            let listed = self.all();
            listed.iter().any(|other| Arc::ptr_eq(other, cf_filter))
        })
    }

    /// How far coverage has come; `none_is_read` if maintenance reads no segment.
    pub(crate) fn progress(&self, none_is_read: bool) -> Progress {
        if self.any_is_disabled() {
            return Progress::Final;
        }
        let mut progress = Progress::Complete;
        for cf_filter in self.all() {
            if cf_filter.coverage().is_complete_by_construction() {
                continue;
            }
            // It may have become complete since, and is then not final.
            if !is_final(&cf_filter, none_is_read) {
                return Progress::Growing;
            }
            progress = Progress::Final;
        }
        progress
    }

    /// Removes the filters of a dropped column family.
    pub fn remove(&self, gone: &Arc<CfFilter>) {
        let _changing = unpoisoned(self.external.lock());
        self.change(|cf_filters| {
            for slot in cf_filters.iter_mut() {
                slot.take_if(|cf_filter| Arc::ptr_eq(cf_filter, gone));
            }
        });
        // The engine itself keeps them until it is closed.
        gone.retire();
    }

    /// Notes that the column family with this id never has filters.
    pub fn exclude(&self, id: u32) {
        unpoisoned(self.external.lock()).excluded.insert(id);
    }

    /// Announces external writes for the column family with this id. Announces them for all if no
    /// id is given, or if the column family may yet get filters.
    pub fn begin_external_writes(&self, id: Option<u32>) -> ExternalGuard<'_> {
        let mut external = unpoisoned(self.external.lock());
        external.under_way += 1;
        let cf_filters = match id.map(|id| (id, self.get(id))) {
            Some((_, Some(cf_filter))) => vec![cf_filter],
            Some((id, None)) if external.excluded.contains(&id) => Vec::new(),
            _ => self.all(),
        };
        ExternalGuard {
            cf_filters: self,
            _held: cf_filters
                .iter()
                .map(|cf_filter| cf_filter.begin_external_writes())
                .collect(),
        }
    }

    /// Needs the lock of `external`, so that changes come one at a time.
    fn change(&self, change: impl FnOnce(&mut Vec<Option<Arc<CfFilter>>>)) {
        let mut cf_filters = self.by_id.with(Vec::clone);
        change(&mut cf_filters);
        self.by_id.publish(cf_filters);
    }

    /// The rates that summary filters are built for.
    pub fn summary_rates(&self) -> SummaryRates {
        *unpoisoned(self.summary_rates.lock())
    }

    pub(crate) fn set_summary_rates(&self, rates: SummaryRates) {
        *unpoisoned(self.summary_rates.lock()) = rates;
    }
}

/// Whether some segments of a column family will not be covered before the next open.
fn is_final(cf_filter: &CfFilter, none_is_read: bool) -> bool {
    fault!(WaitsForSstsWithoutId, return false);
    cf_filter.lookups().stays_uncovered(none_is_read)
}

/// The filters of the column family with this id.
impl Resolve for (&CfFilters, u32) {
    #[inline(always)]
    fn resolve<'r>(&'r self, reading: &'r Reading) -> Option<&'r CfFilter> {
        let (filters, id) = self;
        filters.by_id.get(reading).get(*id as usize)?.as_deref()
    }
}
