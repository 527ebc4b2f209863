//! Verification: every sidecar is whole, and no filter denies a key of its SST.
//!
//! A full check reads the raw entries of every live SST, bypassing all filters. It compares three
//! answers for each key: of the filter on disk, of the filter in memory, and of a lookup.

use std::collections::HashSet;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::engine::with_cf_of;
use crate::error::{InspectError, with_causes};
use crate::fault::fault;
use crate::hooks::sieve::Sieve;
use crate::hooks::{self, BareCf};
use lsm_sieve_front::cf_filter::CfFilter;
use lsm_sieve_front::engine::LiveSegment;
use lsm_sieve_front::segment::{SealedFilter, Segment};
use lsm_sieve_front::view::View;

/// Entries between two calls of `go_on`.
const STRETCH: u64 = 4_096;

/// The result of a verification.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Sidecars of live SSTs that were read and checked.
    pub sidecars_checked: u64,
    /// Sidecars of summary filters that were read and checked.
    pub summaries_checked: u64,
    /// Sidecars that cannot be used, with the reason and the remedy; or the identity alone, without
    /// which none can be used.
    pub damaged: Vec<String>,
    /// Live SSTs without a sidecar known to be theirs, where one pays. Lookups read them until
    /// maintenance has built one. SSTs from before RocksDB 6.24 never have one: their filters are
    /// rebuilt at each open.
    pub missing: Vec<String>,
    /// Raw entries that were checked against their segment filter and the column family's filters;
    /// 0 unless `full`.
    pub entries_checked: u64,
    /// Keys that exist but are denied by a filter. Must be empty.
    pub lost: Vec<LostKey>,
}

impl VerifyReport {
    fn add(&mut self, other: Self) {
        self.sidecars_checked += other.sidecars_checked;
        self.summaries_checked += other.summaries_checked;
        self.damaged.extend(other.damaged);
        self.missing.extend(other.missing);
        self.entries_checked += other.entries_checked;
        self.lost.extend(other.lost);
    }
}

/// A key that exists but is denied by a filter: a bug of lsm-sieve or a fault of the machine.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LostKey {
    /// The key.
    pub key: Vec<u8>,
    /// The SST that holds it.
    pub file: String,
    /// The filter that denies it.
    pub filter: &'static str,
}

impl fmt::Display for LostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} in {} denied by {}",
            self.key.escape_ascii(),
            self.file,
            self.filter
        )
    }
}

impl Sieve {
    /// Checks the sidecars of all summary filters and live SSTs. With `full` it also probes every
    /// segment filter, on disk and in memory, with every raw key of its SST, and looks up every key
    /// that is not a tombstone in the column family's filters.
    ///
    /// # Errors
    /// If RocksDB cannot list or read its SSTs, or if an SST yields fewer entries than it has.
    pub fn verify(&self, full: bool) -> Result<VerifyReport, InspectError> {
        self.verify_while(full, |_| ControlFlow::Continue(()))
    }

    /// [`Sieve::verify`] that stops when `go_on` returns [`ControlFlow::Break`]. From time to time
    /// `go_on` gets the number of entries checked since its last call. The sum is the number of
    /// entries in the SSTs, counted again for SSTs that were compacted away meanwhile.
    ///
    /// # Errors
    /// As [`Sieve::verify`], and [`InspectError::Stopped`].
    pub fn verify_while(
        &self,
        full: bool,
        mut go_on: impl FnMut(u64) -> ControlFlow<()>,
    ) -> Result<VerifyReport, InspectError> {
        let mut report = VerifyReport::default();
        let identity = self.filters.filter_store.check_identity();
        if let Err(error) = &identity {
            report.damaged.push(with_causes(error));
        }
        let mut check = Check {
            sieve: self,
            is_identified: identity.is_ok(),
            full,
            go_on: &mut go_on,
        };
        for cf_filter in self.filters.cf_filters.all() {
            check.summary(&cf_filter, &mut report);
            check.cf(&cf_filter, &mut report)?;
        }
        Ok(report)
    }
}

/// A running verification.
struct Check<'a> {
    sieve: &'a Sieve,
    is_identified: bool,
    full: bool,
    go_on: &'a mut dyn FnMut(u64) -> ControlFlow<()>,
}

impl Check<'_> {
    fn summary(&self, cf_filter: &CfFilter, report: &mut VerifyReport) {
        if !self.is_identified {
            return;
        }
        match self
            .sieve
            .filters
            .filter_store
            .check_summary(cf_filter.name())
        {
            Ok(is_there) => report.summaries_checked += u64::from(is_there),
            Err(error) => report.damaged.push(with_causes(&error)),
        }
    }

    /// If an SST is compacted away meanwhile, its keys move to others. Findings in it are
    /// discarded, and the SSTs that are new since are checked as well.
    fn cf(&mut self, cf_filter: &CfFilter, report: &mut VerifyReport) -> Result<(), InspectError> {
        let mut verified: HashSet<String> = HashSet::new();
        loop {
            let mut fresh = self.sieve.tables(cf_filter)?;
            fresh.retain(|table| !verified.contains(&table.path));
            let mut checked = Vec::new();
            for table in fresh {
                let found = self.table(cf_filter, &table);
                if matches!(found, Err(InspectError::Stopped)) {
                    return Err(InspectError::Stopped);
                }
                checked.push((found, table.path));
            }
            let live = self.sieve.tables(cf_filter)?;
            let is_live = |path: &String| live.iter().any(|table| &table.path == path);
            let mut gone = false;
            for (found, path) in checked {
                if is_live(&path) {
                    report.add(found?);
                    verified.insert(path);
                } else {
                    gone = true;
                }
            }
            if !gone {
                return Ok(());
            }
        }
    }

    fn table(
        &mut self,
        cf_filter: &CfFilter,
        table: &LiveSegment,
    ) -> Result<VerifyReport, InspectError> {
        let mut report = VerifyReport::default();
        let stored = self.sidecar(cf_filter, table, &mut report);
        if self.full {
            self.keys(cf_filter, table, stored.as_ref(), &mut report)?;
        } else {
            self.advance(table.entries)?;
        }
        Ok(report)
    }

    fn advance(&mut self, entries: u64) -> Result<(), InspectError> {
        match (self.go_on)(entries) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(InspectError::Stopped),
        }
    }

    fn sidecar(
        &self,
        cf_filter: &CfFilter,
        table: &LiveSegment,
        report: &mut VerifyReport,
    ) -> Option<SealedFilter> {
        let id = table.lasting_id.filter(|_| self.is_identified);
        let loaded = id.map(|id| self.sieve.filters.filter_store.load_checked(id));
        match loaded {
            Some(Ok(Some(filter))) => {
                report.sidecars_checked += 1;
                return Some(filter);
            }
            Some(Err(error)) => report.damaged.push(with_causes(&error)),
            None | Some(Ok(None))
                if !cf_filter
                    .intake()
                    .segments()
                    .wants_filter(table.is_in_last_level) => {}
            None | Some(Ok(None)) => report.missing.push(table.path.clone()),
        }
        None
    }

    fn keys(
        &mut self,
        cf_filter: &CfFilter,
        table: &LiveSegment,
        stored: Option<&SealedFilter>,
        report: &mut VerifyReport,
    ) -> Result<(), InspectError> {
        let id = table.id();
        let resident = id.and_then(|id| self.sieve.filters.registry.get(id));
        let probes = Probes {
            cf_filter,
            view: cf_filter.view(),
            stored,
            resident,
        };
        let mut found = 0;
        let mut stopped = false;
        let engine = &self.sieve.engine;
        let mut check = |key: &[u8], deletion: bool| {
            probes.each_denial(key, deletion, &mut |filter| {
                report.lost.push(LostKey {
                    key: key.to_vec(),
                    file: table.path.clone(),
                    filter,
                });
            });
            found += 1;
            stopped = found % STRETCH == 0 && self.advance(STRETCH).is_err();
            !stopped
        };
        let read = |cf: &BareCf| hooks::raw_keys(cf, table, &mut check);
        let Some(read) = with_cf_of(cf_filter.key_space(), engine, read) else {
            return Ok(());
        };
        read.map_err(|reason| InspectError::Read {
            path: table.path.clone(),
            reason,
        })?;
        if stopped {
            return Err(InspectError::Stopped);
        }
        self.advance(found % STRETCH)?;
        report.entries_checked += found;
        // Entries that were not read were not checked.
        if found == table.entries {
            return Ok(());
        }
        fault!(ShortCheckAccepted, return Ok(()));
        Err(InspectError::Miscount {
            path: table.path.clone(),
            expected: table.entries,
            found,
        })
    }
}

/// The filters that an entry of an SST is probed in.
struct Probes<'a> {
    cf_filter: &'a CfFilter,
    view: View,
    stored: Option<&'a SealedFilter>,
    resident: Option<Arc<Segment>>,
}

impl Probes<'_> {
    /// Names each filter that denies the key of this entry, or a prefix of it.
    fn each_denial(&self, key: &[u8], deletion: bool, lost: &mut dyn FnMut(&'static str)) {
        let hash = self.cf_filter.hasher().hash(key);
        if self
            .stored
            .is_some_and(|filter| !filter.chain.may_contain(hash))
        {
            lost("the sidecar");
        }
        if self
            .resident
            .as_ref()
            .and_then(|filter| filter.answer(hash))
            == Some(false)
        {
            lost("the resident filter");
        }
        if !deletion && self.view.answer(hash, key).is_absent() {
            lost("the summary filter");
        }
        if !deletion && self.cf_filter.lookups().denies_range_of(&self.view, key) {
            lost("the range filter");
        }
        self.cf_filter.prefixes().each(key, |at, prefix| {
            let probe = self.cf_filter.lookups().probe(at, prefix);
            let id = &probe.prefixes.ids()[at];
            let lacks = |filter: &SealedFilter| {
                filter.has_prefixes_of(id) && !filter.chain.may_contain(probe.hash)
            };
            if self.stored.is_some_and(lacks) {
                lost("the prefixes of the sidecar");
            }
            let resident = self.resident.as_ref();
            if resident.and_then(|filter| filter.answer_prefix(id, probe.hash)) == Some(false) {
                lost("the prefixes of the resident filter");
            }
            if !deletion && self.view.check_prefix(probe).is_some() {
                lost("the prefixes of the summary filter");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_count_of_a_report_is_added_to_that_of_its_name() {
        let report = |n: usize| VerifyReport {
            sidecars_checked: n as u64,
            summaries_checked: 10 * n as u64,
            damaged: vec!["damaged".to_owned(); 2 * n],
            missing: vec!["missing".to_owned(); 3 * n],
            entries_checked: 100 * n as u64,
            lost: Vec::new(),
        };
        let mut sum = report(1);
        sum.add(report(4));
        assert_eq!(
            [
                sum.sidecars_checked,
                sum.summaries_checked,
                sum.entries_checked
            ],
            [5, 50, 500]
        );
        assert_eq!(sum.damaged, vec!["damaged"; 10]);
        assert_eq!(sum.missing, vec!["missing"; 15]);
        assert!(sum.lost.is_empty());
    }
}
