//! What maintenance does for a column family: a pure function from what is known of it to tasks.
//!
//! A maintenance run plans twice, since the first tasks change what is known:
//!
//! 1. with the listed SSTs: their keys go into the summary filter, and their filters are built;
//! 2. without: is another summary filter due, because this one has outgrown its size, is larger than
//!    it need be, lacks prefixes, or was dropped for lack of memory that there is again?
//!
//! Beside that, the second is planned twice a second, and a run begins if anything is due.

use crate::fault::fault;
use crate::filter::Scalable;
use crate::math::{Bits, Items};
use crate::options::FrontOptions;

/// One thing to do for a column family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Add the keys of the SSTs at these places of the listing to the summary filter.
    Cover(Vec<usize>),
    /// Replace the summary filter; with room for more keys, if it is growing.
    Consolidate { source: KeySource, is_growing: bool },
    /// Build the segment filters that are missing or of another rate.
    RebuildSegments,
    /// Save the segment filters that have no sidecar.
    SaveSegments,
    /// Save the summary filter, unless most of its keys are saved.
    SaveSummaryIfMuchIsNew,
    /// Save the summary filter, if the engine wants it.
    SaveSummaryIfWanted,
    /// End the log of keys, and free its space.
    EndLog,
    /// Plan no consolidation until the next write: it would gain nothing.
    Rest,
}

/// Where the keys of a new summary filter come from, besides the memtables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeySource {
    /// The log of keys.
    Log,
    /// The live SSTs; `logged` if their keys go into a new log.
    Tables { logged: bool },
}

/// What is known of a column family.
#[derive(Clone, Debug)]
pub(super) struct CfSnapshot {
    /// The listed SSTs; `None` once they have been taken care of.
    pub(super) listed: Option<Listed>,
    pub(super) summary: SummaryShape,
    /// Whether the summary filter covers all SSTs, and those to come.
    pub(super) is_complete: bool,
    pub(super) lacks_prefixes: bool,
    pub(super) lacks_ranges: bool,
    /// The functions that give prefixes.
    pub(super) prefixes: u64,
    /// The hashes in the log of keys, if there is one, and whether it is whole.
    pub(super) logged: Option<u64>,
    pub(super) is_log_whole: bool,
    /// Whether another consolidation would gain nothing: see [`Task::Rest`].
    pub(super) is_resting: bool,
    pub(super) are_writers_quiet: bool,
    /// Whether the summary filter would take long to grow by a quarter.
    pub(super) hardly_grows: bool,
    /// Whether a failed task waits for its next try.
    pub(super) is_backing_off: bool,
    /// Whether another summary filter was requested, and not built since.
    pub(super) is_requested: bool,
    /// The settings, with the present rates and number of column families.
    pub(super) options: FrontOptions,
    /// The summary filters of other column families; 0 if the plan does not depend on them.
    pub(super) others: Bits,
    /// The entries in memtables and SSTs. Counted only if the budget made the summary filter lose
    /// keys, because that lists the SSTs.
    pub(super) entries: Option<u64>,
}

/// What a listing of SSTs showed.
#[derive(Clone, Debug, Default)]
pub(super) struct Listed {
    /// Whether it made coverage complete: external writes overtook the run that read the SSTs.
    pub(super) completes: bool,
    /// The places of the SSTs that the summary filter does not cover and that may be read.
    pub(super) uncovered: Vec<usize>,
    /// The entries of those that did not fail before: the others would probably fail again.
    pub(super) readable_entries: u64,
}

/// The size of a summary filter, and what it consists of.
#[derive(Clone, Copy, Debug)]
pub(super) struct SummaryShape {
    pub(super) items: Items,
    pub(super) size: Bits,
    pub(super) stages: usize,
    pub(super) begins_static: bool,
    pub(super) is_saturated: bool,
    pub(super) predicted_rate: f64,
}

impl From<&Scalable> for SummaryShape {
    fn from(summary: &Scalable) -> Self {
        Self {
            items: summary.items(),
            size: summary.size(),
            stages: summary.stages(),
            begins_static: summary.begins_static(),
            is_saturated: summary.is_saturated(),
            predicted_rate: summary.predicted_rate(),
        }
    }
}

/// Stages that a summary filter may have before it is rebuilt from SSTs; each costs a miss one cache
/// line.
const STAGES: usize = 6;

/// A summary filter with at least this many keys may be rebuilt as one stage from the log of its
/// keys. With fewer keys, a rebuild costs more than the stages.
const WORTH_ONE_STAGE: Items = Items::new(1 << 16);

/// A log may have twice as many hashes as there are keys, and this many. If it has more, the same
/// keys are written again and again, and the column family hardly grows.
const LOGGED_AGAIN: u64 = 1 << 20;

/// How much higher than the rate of one stage that of several may be. A second stage that is full
/// brings 1.74 times.
const RATE_OF_STAGES: f64 = 1.7;

/// The tasks for a column family, in their order.
pub(super) fn plan(cf: &CfSnapshot) -> Vec<Task> {
    match &cf.listed {
        Some(listed) => after_listing(cf, listed),
        None => resize(cf),
    }
}

fn after_listing(cf: &CfSnapshot, listed: &Listed) -> Vec<Task> {
    let mut tasks = Vec::new();
    if listed.completes {
        tasks.push(Task::SaveSummaryIfMuchIsNew);
    }
    tasks.push(Task::SaveSegments);
    if !cf.is_complete {
        tasks.extend(cover(cf, listed));
    }
    tasks.extend([
        Task::RebuildSegments,
        Task::SaveSegments,
        Task::SaveSummaryIfWanted,
    ]);
    tasks
}

/// The uncovered SSTs are read; or all, if these are many.
fn cover(cf: &CfSnapshot, listed: &Listed) -> Vec<Task> {
    if cf.options.read_only_filters || !are_many(listed.readable_entries, cf.summary.items) {
        let places = listed.uncovered.clone();
        return vec![Task::Cover(places), Task::SaveSummaryIfMuchIsNew];
    }
    match cf.is_backing_off {
        // The consolidation is what failed, or would fail.
        true => Vec::new(),
        false => vec![Task::Consolidate {
            source: KeySource::Tables { logged: false },
            is_growing: false,
        }],
    }
}

fn are_many(entries: u64, in_summary: Items) -> bool {
    fault!(NoConsolidationForUncovered, return false);
    fault!(CoveredUnread, return false);
    entries > in_summary.get() / 2
}

fn resize(cf: &CfSnapshot) -> Vec<Task> {
    let mut tasks = Vec::new();
    // Filters that are opened to be read, and those of a secondary, take no memory of their own.
    if cf.options.read_only_filters {
        return tasks;
    }
    let is_checked = cf.is_complete && !cf.is_resting && !cf.is_backing_off;
    let ends_log = is_checked && is_log_useless(cf);
    if ends_log {
        tasks.push(Task::EndLog);
    }
    let has_log = cf.is_log_whole && !ends_log;
    let is_outgrown = is_checked && is_outgrown(&cf.summary, has_log);
    let is_due = is_outgrown || is_checked && is_outdated(cf);
    if is_due || cf.is_requested {
        let is_growing = is_outgrown && !cf.is_requested && !cf.hardly_grows;
        let source = match is_growing && has_log {
            true => KeySource::Log,
            false => KeySource::Tables { logged: is_growing },
        };
        tasks.push(Task::Consolidate { source, is_growing });
    } else if is_checked && cf.are_writers_quiet {
        tasks.push(Task::Rest);
    }
    tasks
}

/// Whether there is a log that takes space for nothing, or that a rebuild left unfinished.
fn is_log_useless(cf: &CfSnapshot) -> bool {
    let Some(logged) = cf.logged else {
        return false;
    };
    fault!(KeyLogKeptWhenQuiet, return !cf.is_log_whole);
    // Each memtable logs its prefixes again.
    let most = match cf.are_writers_quiet {
        true => LOGGED_AGAIN,
        false => (2 + cf.prefixes) * cf.summary.items.get() + LOGGED_AGAIN,
    };
    logged > most || !cf.is_log_whole
}

/// Whether a summary filter has grown so much that it is rebuilt even while writers are busy.
fn is_outgrown(summary: &SummaryShape, has_log: bool) -> bool {
    fault!(NoConsolidationBesideWriters, return false);
    let most = match has_log && summary.items >= WORTH_ONE_STAGE {
        true => planned_stages(summary),
        false => STAGES,
    };
    summary.stages > most
}

/// The stages that a summary filter has before it outgrows its size. A static stage takes no keys, so
/// the one beside it was planned from the start.
fn planned_stages(summary: &SummaryShape) -> usize {
    if summary.begins_static { 2 } else { 1 }
}

fn is_outdated(cf: &CfSnapshot) -> bool {
    let lacks_prefixes = || {
        fault!(PrefixesNeverCompleted, return false);
        cf.lacks_prefixes
    };
    lacks_prefixes() // H81
        || cf.hardly_grows && cf.lacks_ranges
        || cf.hardly_grows && would_shrink(cf)
        || cf.summary.is_saturated && has_room_again(cf)
}

/// Whether a rebuilt summary filter would be smaller, have fewer false positives, or be of the
/// configured kind. If the budget limits its rate, a rebuilt one would be no better.
fn would_shrink(cf: &CfSnapshot) -> bool {
    fault!(NoConsolidationAtPause, return false);
    let summary = &cf.summary;
    let options = cf.options.clone().fitting(summary.items, cf.others);
    let is_another_kind = options.summary.at_rest.is_some() != summary.begins_static;
    is_oversized(summary, &options) || (summary.items > Items::new(0) && is_another_kind)
}

/// Whether a summary filter exceeds its false-positive rate; or whether one of the right size would
/// have much fewer false positives, or take a quarter less memory. Second stages are a quarter of the
/// first, so all keys are read once for each quarter of growth.
fn is_oversized(summary: &SummaryShape, options: &FrontOptions) -> bool {
    let rates = options.summary;
    let is_at_rest = summary.begins_static && summary.stages == 1;
    let most = match rates.at_rest.filter(|_| is_at_rest) {
        Some(rate) => rate.get() * RATE_OF_STAGES,
        None => rates.growing.get() * 1.01,
    };
    if summary.predicted_rate > most {
        return true;
    }
    summary.stages > planned_stages(summary) && {
        let right = options.summary_size(summary.items).get();
        summary.begins_static
            || summary.size.get() > right + right / 3
            || summary.predicted_rate > rates.first().get() * RATE_OF_STAGES
    }
}

/// Whether the budget has room for all keys of a saturated summary filter and a quarter more.
/// Otherwise the next one would soon be saturated as well.
fn has_room_again(cf: &CfSnapshot) -> bool {
    fault!(NoConsolidationWhenRoomAgain, return false);
    let Some(budget) = cf.options.room_beside(Bits::new(0)) else {
        return true;
    };
    cf.entries.is_some_and(|entries| {
        let grown = Items::new(entries.saturating_add(entries / 4));
        let needed = cf
            .options
            .clone()
            .fitting(grown, cf.others)
            .summary_size(grown);
        cf.others + needed <= budget
    })
}

#[cfg(test)]
#[cfg(not(interleave))]
mod tests {
    use super::*;
    use crate::filter::Stage;
    use crate::filter::naive::{hashes, imprint};
    use crate::filter_options::FilterOptions;
    use crate::options::SummaryRates;

    /// A complete summary filter of a million keys with a whole log, beside busy writers.
    fn grown() -> CfSnapshot {
        let (options, items) = (FrontOptions::default(), Items::new(1_000_000));
        CfSnapshot {
            listed: None,
            summary: SummaryShape {
                items,
                size: options.summary_size(items),
                stages: 1,
                begins_static: false,
                is_saturated: false,
                predicted_rate: 0.002,
            },
            is_complete: true,
            lacks_prefixes: false,
            lacks_ranges: false,
            prefixes: 0,
            logged: Some(1_000_000),
            is_log_whole: true,
            is_resting: false,
            are_writers_quiet: false,
            hardly_grows: false,
            is_backing_off: false,
            is_requested: false,
            options,
            others: Bits::new(0),
            entries: None,
        }
    }

    fn has_stages(cf: &mut CfSnapshot, stages: usize) {
        cf.summary.stages = stages;
    }

    fn is_quiet(cf: &mut CfSnapshot) {
        (cf.are_writers_quiet, cf.hardly_grows) = (true, true);
    }

    fn has_no_log(cf: &mut CfSnapshot) {
        (cf.logged, cf.is_log_whole) = (None, false);
    }

    /// A million keys and a quarter more.
    const GROWN: u64 = 1_250_000;

    /// Sets a budget of `bits_per_key` for each of them; fewer than four are worth no filter.
    fn is_saturated(cf: &mut CfSnapshot, bits_per_key: u64) {
        cf.summary.is_saturated = true;
        cf.entries = Some(1_000_000);
        cf.options.memory_budget = Some(Bits::new(GROWN * bits_per_key)).into();
    }

    /// Two SSTs, of which the second failed before.
    fn has_uncovered(cf: &mut CfSnapshot, readable_entries: u64) {
        cf.is_complete = false;
        cf.listed = Some(Listed {
            completes: false,
            uncovered: vec![3, 5],
            readable_entries,
        });
    }

    const FROM_LOG: Task = Task::Consolidate {
        source: KeySource::Log,
        is_growing: true,
    };
    const INTO_LOG: Task = Task::Consolidate {
        source: KeySource::Tables { logged: true },
        is_growing: true,
    };
    const SHRINK: Task = Task::Consolidate {
        source: KeySource::Tables { logged: false },
        is_growing: false,
    };

    type Case = (&'static str, fn(&mut CfSnapshot), &'static [Task]);

    #[track_caller]
    fn assert_planned(cases: &[Case]) {
        for (what, change, expected) in cases {
            let mut cf = grown();
            change(&mut cf);
            assert_eq!(plan(&cf), *expected, "{what}");
        }
    }

    #[test]
    fn summary_is_consolidated_when_it_is_due_and_rests_otherwise() {
        use Task::{EndLog, Rest};
        let cases: &[Case] = &[
            ("one stage, beside writers", |_| {}, &[]),
            ("one stage, at rest", is_quiet, &[Rest]),
            ("a second stage", |cf| has_stages(cf, 2), &[FROM_LOG]),
            (
                "a second stage of few keys",
                |cf| {
                    has_stages(cf, 2);
                    cf.summary.items = Items::new((1 << 16) - 1);
                },
                &[],
            ),
            (
                "a second stage beside a static one",
                |cf| {
                    has_stages(cf, 2);
                    cf.summary.begins_static = true;
                },
                &[],
            ),
            (
                "a second stage without a log",
                |cf| {
                    has_stages(cf, 2);
                    has_no_log(cf);
                },
                &[],
            ),
            (
                "the most stages without a log",
                |cf| {
                    has_stages(cf, 6);
                    has_no_log(cf);
                },
                &[],
            ),
            (
                "more without a log",
                |cf| {
                    has_stages(cf, 7);
                    has_no_log(cf);
                },
                &[INTO_LOG],
            ),
            (
                "a log that a rebuild left unfinished",
                |cf| {
                    has_stages(cf, 7);
                    cf.is_log_whole = false;
                },
                &[EndLog, INTO_LOG],
            ),
            (
                "more stages, growing slowly",
                |cf| {
                    has_stages(cf, 7);
                    cf.hardly_grows = true;
                },
                &[SHRINK],
            ),
            (
                "a second stage, at rest",
                |cf| {
                    has_stages(cf, 2);
                    is_quiet(cf);
                },
                &[SHRINK],
            ),
            (
                "too high a rate, beside writers",
                |cf| cf.summary.predicted_rate = 0.02,
                &[],
            ),
            (
                "too high a rate, at rest",
                |cf| {
                    cf.summary.predicted_rate = 0.02;
                    is_quiet(cf);
                },
                &[SHRINK],
            ),
            (
                "a rate that the budget beside others sets, at rest",
                |cf| {
                    cf.summary.predicted_rate = 0.02;
                    cf.options.memory_budget = Some(Bits::new(20_000_000)).into();
                    cf.others = Bits::new(12_000_000);
                    is_quiet(cf);
                },
                &[Rest],
            ),
            (
                "a rate that the budget alone does not set, at rest",
                |cf| {
                    cf.summary.predicted_rate = 0.02;
                    cf.options.memory_budget = Some(Bits::new(20_000_000)).into();
                    is_quiet(cf);
                },
                &[SHRINK],
            ),
            (
                "another kind, at rest",
                |cf| {
                    cf.options = cf.options.clone().at_rest();
                    is_quiet(cf);
                },
                &[SHRINK],
            ),
            (
                "another kind without keys, at rest",
                |cf| {
                    cf.options = cf.options.clone().at_rest();
                    cf.summary.items = Items::new(0);
                    is_quiet(cf);
                },
                &[Rest],
            ),
            ("prefixes to come", |cf| cf.lacks_prefixes = true, &[SHRINK]),
            ("ranges, while it grows", |cf| cf.lacks_ranges = true, &[]),
            (
                "ranges, growing slowly",
                |cf| (cf.lacks_ranges, cf.hardly_grows) = (true, true),
                &[SHRINK],
            ),
            ("a request", |cf| cf.is_requested = true, &[SHRINK]),
            (
                "a request for an outgrown one",
                |cf| {
                    has_stages(cf, 7);
                    cf.is_requested = true;
                },
                &[SHRINK],
            ),
        ];
        assert_planned(cases);
    }

    #[test]
    fn no_consolidation_is_planned_that_would_fail_or_gain_nothing() {
        let cases: &[Case] = &[
            (
                "no write since the last check",
                |cf| {
                    has_stages(cf, 7);
                    cf.is_resting = true;
                },
                &[],
            ),
            (
                "uncovered SSTs",
                |cf| {
                    has_stages(cf, 7);
                    cf.is_complete = false;
                },
                &[],
            ),
            (
                "a failure",
                |cf| {
                    has_stages(cf, 7);
                    cf.is_backing_off = true;
                },
                &[],
            ),
            (
                "filters that are only read",
                |cf| {
                    has_stages(cf, 7);
                    cf.is_requested = true;
                    cf.options.read_only_filters = true;
                },
                &[],
            ),
            (
                "a request beside uncovered SSTs",
                |cf| {
                    (cf.is_requested, cf.is_complete) = (true, false);
                },
                &[SHRINK],
            ),
            (
                "a request after a failure",
                |cf| {
                    (cf.is_requested, cf.is_backing_off) = (true, true);
                },
                &[SHRINK],
            ),
        ];
        assert_planned(cases);
    }

    /// It is asked for again, for as long as there is no room.
    #[test]
    fn saturated_summary_is_consolidated_when_the_budget_has_room_for_a_quarter_more() {
        let cases: &[Case] = &[
            ("no room", |cf| is_saturated(cf, 3), &[]),
            (
                "room for as many",
                |cf| {
                    is_saturated(cf, 3);
                    cf.options.memory_budget = Some(Bits::new(4_500_000)).into();
                },
                &[],
            ),
            ("room", |cf| is_saturated(cf, 5), &[SHRINK]),
            (
                "room beside others",
                |cf| {
                    is_saturated(cf, 10);
                    cf.others = Bits::new(GROWN * 5);
                },
                &[SHRINK],
            ),
            (
                "no room beside others",
                |cf| {
                    is_saturated(cf, 10);
                    cf.others = Bits::new(GROWN * 7);
                },
                &[],
            ),
            (
                "entries that cannot be counted",
                |cf| {
                    is_saturated(cf, 5);
                    cf.entries = None;
                },
                &[],
            ),
            (
                "no budget",
                |cf| {
                    is_saturated(cf, 5);
                    cf.options.memory_budget = None.into();
                },
                &[SHRINK],
            ),
            (
                "at rest, which a consolidation without room drops",
                |cf| {
                    is_saturated(cf, 3);
                    cf.summary.predicted_rate = 1.0;
                    is_quiet(cf);
                },
                &[SHRINK],
            ),
        ];
        assert_planned(cases);
    }

    #[test]
    fn log_that_takes_space_for_nothing_is_ended() {
        use Task::{EndLog, Rest};
        let cases: &[Case] = &[
            (
                "each key twice, and a million",
                |cf| {
                    cf.logged = Some(2_000_000 + LOGGED_AGAIN);
                },
                &[],
            ),
            (
                "one more",
                |cf| cf.logged = Some(2_000_001 + LOGGED_AGAIN),
                &[EndLog],
            ),
            (
                "each memtable logs its prefixes again",
                |cf| {
                    (cf.logged, cf.prefixes) = (Some(4_000_000 + LOGGED_AGAIN), 2);
                },
                &[],
            ),
            (
                "at rest",
                |cf| {
                    cf.logged = Some(LOGGED_AGAIN + 1);
                    is_quiet(cf);
                },
                &[EndLog, Rest],
            ),
            ("unfinished", |cf| cf.is_log_whole = false, &[EndLog]),
        ];
        assert_planned(cases);
    }

    #[test]
    fn uncovered_ssts_are_read_or_all_if_these_are_many() {
        use Task::{
            Cover, RebuildSegments, SaveSegments, SaveSummaryIfMuchIsNew, SaveSummaryIfWanted,
        };
        let planned = |change: fn(&mut CfSnapshot)| {
            let mut cf = grown();
            change(&mut cf);
            let tasks = plan(&cf);
            let rest = [RebuildSegments, SaveSegments, SaveSummaryIfWanted];
            assert!(tasks.ends_with(&rest), "{tasks:?}");
            tasks[..tasks.len() - rest.len()].to_vec()
        };
        let covering = [SaveSegments, Cover(vec![3, 5]), SaveSummaryIfMuchIsNew];
        assert_eq!(planned(|cf| has_uncovered(cf, 500_000)), covering);
        let many: fn(&mut CfSnapshot) = |cf| has_uncovered(cf, 500_001);
        assert_eq!(planned(many), [SaveSegments, SHRINK]);
        let failed: fn(&mut CfSnapshot) = |cf| {
            has_uncovered(cf, 500_001);
            cf.is_backing_off = true;
        };
        assert_eq!(planned(failed), [SaveSegments]);
        let only_read: fn(&mut CfSnapshot) = |cf| {
            has_uncovered(cf, 500_001);
            cf.options.read_only_filters = true;
        };
        assert_eq!(planned(only_read), covering);
        assert_eq!(
            planned(|cf| cf.listed = Some(Listed::default())),
            [SaveSegments]
        );
        let overtaken: fn(&mut CfSnapshot) = |cf| {
            cf.listed = Some(Listed {
                completes: true,
                ..Listed::default()
            });
        };
        assert_eq!(planned(overtaken), [SaveSummaryIfMuchIsNew, SaveSegments]);
    }

    fn is_oversized(summary: &Scalable, options: &FrontOptions) -> bool {
        super::is_oversized(&SummaryShape::from(summary), options)
    }

    /// By more than rounding: with one stage only the rate counts.
    #[test]
    fn summary_is_oversized_by_its_rate_or_with_more_stages_by_a_third_of_its_size() {
        let options = FrontOptions::default().at_rest();
        let (rates, items) = (options.summary, Items::new(10_000_000));
        let growing = FrontOptions {
            summary: SummaryRates {
                at_rest: None,
                ..rates
            },
            ..options.clone()
        };
        let right = growing.summary_size(items).get();
        let (most, first) = (rates.growing.get() * 1.01, rates.first().get());
        let of_stages = first * RATE_OF_STAGES;
        let at_rest = rates.at_rest.unwrap().get() * RATE_OF_STAGES;
        assert!(of_stages < most, "else the rate of all stages says it");
        let more = 1.001;
        for (begins_static, stages, size, rate, expected) in [
            (false, 1, 10 * right, most, false),
            (false, 1, right, most * more, true),
            (false, 2, right + right / 3, first, false),
            (false, 2, right + right / 3 + 1, first, true),
            (false, 2, right, of_stages, false),
            (false, 2, right, of_stages * more, true),
            (true, 1, 10 * right, at_rest, false),
            (true, 1, right, at_rest * more, true),
            (true, 2, 10 * right, most, false),
            (true, 2, right, most * more, true),
            (true, 3, right, first, true),
        ] {
            let summary = SummaryShape {
                items,
                size: Bits::new(size),
                stages,
                begins_static,
                is_saturated: false,
                predicted_rate: rate,
            };
            let options = if begins_static { &options } else { &growing };
            let is_oversized = super::is_oversized(&summary, options);
            assert_eq!(is_oversized, expected, "{summary:?}");
        }
    }

    /// With stages that double, the first key past the headroom would triple the memory, and all
    /// keys would be read again for each fiftieth of growth.
    #[test]
    fn a_large_summary_is_outgrown_by_a_quarter_of_its_keys_and_not_before() {
        const FIRST: u64 = 4_000_000;
        let options = FrontOptions::default();
        let summary = options.summary(Items::new(FIRST), Bits::new(0));
        let summary = Scalable::new(imprint(1), summary);
        let mut keys = hashes(1);
        let mut grow_to = |share: f64| {
            let more = (FIRST as f64 * share) as u64 - summary.items().get();
            keys.by_ref()
                .take(more as usize)
                .for_each(|key| summary.append(key));
            (summary.stages(), is_oversized(&summary, &options))
        };
        assert_eq!(grow_to(0.99), (1, false));
        assert_eq!(grow_to(1.03), (2, false));
        assert_eq!(grow_to(1.20), (2, false));
        assert_eq!(grow_to(1.30), (3, true));
    }

    /// Otherwise the first key after a pause would cause all keys to be read again, forever.
    #[test]
    fn static_summary_is_oversized_with_a_quarter_of_its_keys_more_and_not_with_one() {
        const FIRST: u64 = 1_200_000;
        let options = FilterOptions::default().static_filters(true).resolved();
        let rate = options.summary.at_rest.unwrap();
        let keys = Items::new(FIRST);
        let size = options.summary_size(keys);
        let summary = options.static_summary(keys, Bits::new(0));
        let summary = Scalable::with_pending_first(imprint(1), summary, size);
        let mut keys = hashes(1);
        let first = keys.by_ref().take(FIRST as usize);
        summary.complete(Stage::ribbon(first.collect(), rate).unwrap());
        let mut grow_by = |more: u64| {
            let more = keys.by_ref().take(more as usize);
            more.for_each(|key| summary.append(key));
            (summary.stages(), is_oversized(&summary, &options))
        };
        assert_eq!(grow_by(0), (1, false));
        assert_eq!(grow_by(1), (2, false));
        assert_eq!(grow_by(FIRST / 5), (2, false));
        assert_eq!(grow_by(FIRST / 10), (3, true));
    }
}
