//! Whether every filter is right: its file whole, and no key of its table denied.
//!
//! A full check reads the raw entries of every live table, past all filters, and holds three answers
//! against each key: that of the filter on disk, that of the filter in memory, and the front's.

use std::collections::HashSet;
use std::fmt;
use std::ops::ControlFlow;

use super::SieveDb;
use super::bound;
use super::column::Column;
use super::error::{InspectError, with_causes};
use super::ffi::{self, LiveTable};
use crate::filter::Chain;
use crate::planted::planted;

/// Entries between two questions whether to go on.
const STRETCH: u64 = 4_096;

/// What a verification found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Sidecars of live tables read and checked.
    pub sidecars_checked: u64,
    /// Sidecars of summaries read and checked.
    pub summaries_checked: u64,
    /// Sidecars, of tables or of a summary, that cannot be used, with the reason and the remedy; or
    /// the identity alone, without which none can.
    pub damaged: Vec<String>,
    /// Live SSTs without a sidecar that is known to be theirs: lookups enter them until maintenance has built
    /// one. SSTs from before RocksDB 6.24 never have one: their filters are made again at each open.
    pub missing: Vec<String>,
    /// Raw entries asked of their table's filter and of the front; 0 unless asked for.
    pub entries_checked: u64,
    /// Keys that a filter denies though they are there. There must be none.
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

/// A key that a filter denies though it is there: a fault of lsm-sieve or of the machine.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LostKey {
    /// The key.
    pub key: Vec<u8>,
    /// The table that holds it.
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

impl SieveDb {
    /// Checks the summaries and the sidecars of all live tables; with `full` also asks every filter,
    /// on disk and in memory, for every raw key of its table, and the front for every key that is
    /// not a tombstone.
    ///
    /// # Errors
    /// When RocksDB cannot list or read its tables, or a table gives fewer entries than it holds.
    pub fn verify(&self, full: bool) -> Result<VerifyReport, InspectError> {
        self.verify_while(full, |_| ControlFlow::Continue(()))
    }

    /// [`SieveDb::verify`], for as long as `go_on` says. It is told now and then for how many more
    /// entries of tables the check is done: in all as many as the tables hold, and those again of
    /// tables that were compacted away meanwhile.
    ///
    /// # Errors
    /// As above, and [`InspectError::Stopped`].
    pub fn verify_while(
        &self,
        full: bool,
        mut go_on: impl FnMut(u64) -> ControlFlow<()>,
    ) -> Result<VerifyReport, InspectError> {
        let mut report = VerifyReport::default();
        let identity = self.shelf().check_identity();
        if let Err(error) = &identity {
            report.damaged.push(with_causes(error));
        }
        let mut check = Check {
            db: self,
            is_identified: identity.is_ok(),
            full,
            go_on: &mut go_on,
        };
        for column in self.columns().all() {
            check.summary(&column, &mut report);
            check.family(&column, &mut report)?;
        }
        Ok(report)
    }
}

/// A verification under way.
struct Check<'a> {
    db: &'a SieveDb,
    is_identified: bool,
    full: bool,
    go_on: &'a mut dyn FnMut(u64) -> ControlFlow<()>,
}

impl Check<'_> {
    fn summary(&self, column: &Column, report: &mut VerifyReport) {
        if !self.is_identified {
            return;
        }
        match self.db.shelf().check_summary(column.name()) {
            Ok(is_there) => report.summaries_checked += u64::from(is_there),
            Err(error) => report.damaged.push(with_causes(&error)),
        }
    }

    /// A table that is compacted away meanwhile hands its keys to others: what was found in it is
    /// void, and the tables that are new since are checked as well.
    fn family(&mut self, column: &Column, report: &mut VerifyReport) -> Result<(), InspectError> {
        let mut verified: HashSet<String> = HashSet::new();
        loop {
            let mut fresh = self.db.tables(column)?;
            fresh.retain(|table| !verified.contains(&table.path));
            let mut checked = Vec::new();
            for table in fresh {
                let found = self.table(column, &table);
                if matches!(found, Err(InspectError::Stopped)) {
                    return Err(InspectError::Stopped);
                }
                checked.push((found, table.path));
            }
            let live = self.db.tables(column)?;
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

    fn table(&mut self, column: &Column, table: &LiveTable) -> Result<VerifyReport, InspectError> {
        let mut report = VerifyReport::default();
        let stored = self.sidecar(table, &mut report);
        if self.full {
            self.keys(column, table, stored.as_ref(), &mut report)?;
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

    fn sidecar(&self, table: &LiveTable, report: &mut VerifyReport) -> Option<Chain> {
        let id = table.lasting_id().filter(|_| self.is_identified);
        let loaded = id.map(|id| self.db.shelf().load_checked(id));
        match loaded {
            Some(Ok(Some(filter))) => {
                report.sidecars_checked += 1;
                return Some(filter.chain);
            }
            Some(Err(error)) => report.damaged.push(with_causes(&error)),
            None | Some(Ok(None)) => report.missing.push(table.path.clone()),
        }
        None
    }

    fn keys(
        &mut self,
        column: &Column,
        table: &LiveTable,
        stored: Option<&Chain>,
        report: &mut VerifyReport,
    ) -> Result<(), InspectError> {
        let hasher = column.hasher();
        let view = column.view();
        let segment = table.id().and_then(|id| self.db.registry().get(id));
        let Some(handle) = bound::family(column, self.db.engine()) else {
            return Ok(());
        };
        let mut found = 0;
        let mut stopped = false;
        ffi::raw_keys(&handle, table, |key, deletion| {
            let hash = hasher.hash(key);
            let resident = segment.as_ref().and_then(|segment| segment.answer(hash));
            let denials = [
                (
                    "the sidecar",
                    stored.is_some_and(|chain| !chain.may_contain(hash)),
                ),
                ("the resident filter", resident == Some(false)),
                ("the front", !deletion && view.answer(hash, key).is_absent()),
            ];
            for (filter, _) in denials.iter().filter(|(_, denied)| *denied) {
                report.lost.push(LostKey {
                    key: key.to_vec(),
                    file: table.path.clone(),
                    filter,
                });
            }
            found += 1;
            stopped = found % STRETCH == 0 && self.advance(STRETCH).is_err();
            !stopped
        })
        .map_err(|reason| InspectError::Read {
            path: table.path.clone(),
            reason,
        })?;
        if stopped {
            return Err(InspectError::Stopped);
        }
        self.advance(found % STRETCH)?;
        report.entries_checked += found;
        // What was not read was not checked.
        if found == table.entries || planted!(ShortCheckAccepted) {
            return Ok(());
        }
        Err(InspectError::Miscount {
            path: table.path.clone(),
            expected: table.entries,
            found,
        })
    }
}
