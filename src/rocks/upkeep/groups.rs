//! In which group of a map the keys of each table are.

use std::collections::BTreeMap;

use crate::filter::GROUPS;
use crate::planted::planted;
use crate::rocks::ffi::LiveTable;

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
