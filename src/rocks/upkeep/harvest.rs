//! The keys of all tables of a family, by the sorted run that they are in.

use std::collections::{BTreeMap, HashMap, TryReserveError};
use std::ops::Range;

use crate::filter::{GROUPS, Grouped};
use crate::hash::KeyHash;
use crate::planted::planted;
use crate::rocks::ffi::LiveTable;

/// Hashes of keys, one table's after another's.
#[derive(Debug, Default)]
pub(super) struct Harvest {
    hashes: Vec<KeyHash>,
    /// The path of each table, and where its hashes are.
    tables: Vec<(String, Range<usize>)>,
}

impl Harvest {
    /// With room for so many.
    pub(super) fn with_room(hashes: usize) -> Result<Self, TryReserveError> {
        let mut harvest = Self::default();
        harvest.hashes.try_reserve_exact(hashes)?;
        Ok(harvest)
    }

    /// Adds the hashes of keys of a table.
    pub(super) fn add(
        &mut self,
        table: &LiveTable,
        hashes: &[KeyHash],
    ) -> Result<(), TryReserveError> {
        self.hashes.try_reserve(hashes.len())?;
        let start = self.hashes.len();
        self.hashes.extend_from_slice(hashes);
        let end = self.hashes.len();
        match self.tables.last_mut() {
            Some((path, range)) if *path == table.path => range.end = end,
            _ => self.tables.push((table.path.clone(), start..end)),
        }
        Ok(())
    }

    /// The keys of these tables, each in the group that its table is given.
    pub(super) fn into_grouped(self, tables: &[(&LiveTable, usize)]) -> Vec<Grouped> {
        let groups = tables.iter().map(|&(table, group)| (&*table.path, group));
        let groups: HashMap<&str, usize> = groups.collect();
        let mut keys: Vec<Grouped> = self.hashes.into_iter().map(Grouped::new).collect();
        // From the end: what is taken out moves only what was seen to.
        for (path, range) in self.tables.into_iter().rev() {
            match groups.get(&*path) {
                Some(&group) => keys[range]
                    .iter_mut()
                    .for_each(|key| *key = key.in_group(group)),
                // What took its place was read as well.
                None => drop(keys.drain(range)),
            }
        }
        keys
    }
}

/// The group of each table: that of its sorted run, which is a level, or a table of level 0. The largest
/// runs have one to themselves.
pub(super) fn grouped_by_run<'a>(
    tables: impl IntoIterator<Item = &'a LiveTable>,
) -> Vec<(&'a LiveTable, usize)> {
    let run_of = |at: usize, table: &LiveTable| match table.level {
        Some(level @ 1..) => (level, 0),
        _ => (0, at),
    };
    let tables: Vec<&LiveTable> = tables.into_iter().collect();
    let mut runs: BTreeMap<(u32, usize), u64> = BTreeMap::new();
    for (at, table) in tables.iter().enumerate() {
        // Others are asked by RocksDB's own filters.
        let asked = table.captured.map_or(0, |_| table.entries);
        *runs.entry(run_of(at, table)).or_default() += asked;
    }
    let mut largest: Vec<_> = runs.into_iter().collect();
    largest.sort_by_key(|&(_, entries)| std::cmp::Reverse(entries));
    let rank = |run| largest.iter().position(|&(other, _)| other == run);
    let group_of = |at, table| {
        let rank = rank(run_of(at, table)).unwrap_or_default();
        let wrong = usize::from(planted!(RunsMistaken) && at == 1);
        rank.min(GROUPS - 1).saturating_sub(wrong)
    };
    let grouped = tables.iter().enumerate();
    grouped
        .map(|(at, &table)| (table, group_of(at, table)))
        .collect()
}
