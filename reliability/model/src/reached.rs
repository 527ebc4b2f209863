//! States that the protocol exists for. A model that does not reach them proves nothing about them.

use crate::protocol::Protocol;
use crate::state::{External, Lookup, Memtable, Phase, SaveStep, State, Step, Task, Writer};

type Is = fn(&Protocol, &State) -> bool;

pub(crate) fn step(state: &State) -> Option<&Step> {
    match &state.task {
        Task::Consolidate { step, .. } => Some(step),
        _ => None,
    }
}

fn is_reading_memtables(state: &State) -> bool {
    matches!(step(state), Some(Step::Memtables { .. }))
}

fn is_covering(state: &State) -> bool {
    matches!(state.task, Task::Cover { .. })
}

fn is_saving(state: &State) -> bool {
    matches!(state.task, Task::Save { .. })
}

fn has_phase(state: &State, phase: Phase) -> bool {
    state
        .memtables
        .iter()
        .any(|memtable| memtable.phase == phase)
}

fn some_writer(state: &State, is: impl Fn(&Writer) -> bool) -> bool {
    state.writers.iter().any(is)
}

fn is_of_a_dropped_family(state: &State) -> bool {
    let (Task::Consolidate { family, .. } | Task::Cover { family, .. } | Task::Save { family, .. }) =
        state.task
    else {
        return false;
    };
    state.family != Some(family)
}

fn has_two_sets(state: &State) -> bool {
    let sets = state.writers.map(|writer| match writer {
        Writer::Feeding { set, .. } | Writer::Fed { set, .. } => set,
        _ => 0,
    });
    sets[0] != sets[1] && sets[0] != 0 && sets[1] != 0
}

/// The name of each, and whether a state is it.
pub(crate) const REACHED: [(&str, Is); 32] = [
    ("two insertions that loaded different sets", |_, state| {
        has_two_sets(state)
    }),
    ("a consolidation that waits for an insertion", |_, state| {
        matches!(step(state), Some(Step::Wait))
            && some_writer(state, |writer| matches!(writer, Writer::Feeding { .. }))
    }),
    ("a key in one summary of two", |_, state| {
        some_writer(
            state,
            |writer| matches!(writer, Writer::Feeding { set, left, .. } if left != set && *left != 0),
        )
    }),
    ("a memtable read beside an insertion", |_, state| {
        is_reading_memtables(state)
            && some_writer(state, |writer| matches!(writer, Writer::Entered(_)))
    }),
    (
        "a memtable read that has a key nobody sees yet",
        |_, state| {
            is_reading_memtables(state)
                && state
                    .memtables
                    .iter()
                    .any(|memtable| memtable.keys & !state.visible != 0)
        },
    ),
    (
        "a key that was inserted behind the reader of its memtable",
        |_, state| {
            let Some(Step::Memtables { left, key: 1 }) = step(state) else {
                return false;
            };
            let is_read =
                |memtable: &Memtable| left & (1 << memtable.id) != 0 && memtable.keys & 1 != 0;
            let Task::Consolidate { new, .. } = state.task else {
                return false;
            };
            state.memtables.iter().any(is_read) && state.summaries[usize::from(new)] & 1 == 0
        },
    ),
    ("a memtable read while it is flushed", |_, state| {
        let Some(Step::Memtables { left, key }) = step(state) else {
            return false;
        };
        *key > 0
            && state.memtables.iter().any(|memtable| {
                left & (1 << memtable.id) != 0 && memtable.phase == Phase::Installed
            })
    }),
    (
        "a memtable that was flushed since it was collected",
        |_, state| {
            let Some(Step::Memtables { left, .. }) = step(state) else {
                return false;
            };
            let live = state
                .memtables
                .iter()
                .map(|memtable| 1 << memtable.id)
                .sum::<u16>();
            left & !live != 0
        },
    ),
    (
        "a memtable that came since they were collected",
        |_, state| {
            let Some(Step::Memtables { left, .. }) = step(state) else {
                return false;
            };
            *left != 0
                && state
                    .memtables
                    .last()
                    .is_some_and(|active| left & (1 << active.id) == 0)
        },
    ),
    ("a key in a memtable and in its SST", |_, state| {
        has_phase(state, Phase::Installed) && !state.ssts.is_empty()
    }),
    ("keys in the log and in no SST", |_, state| {
        let in_ssts = state.ssts.iter().fold(0, |keys, sst| keys | sst.keys);
        state.log.is_some_and(|log| log & !in_ssts != 0)
    }),
    ("two sealed memtables", |_, state| {
        let sealed = |memtable: &&Memtable| memtable.phase == Phase::Sealed;
        state.memtables.iter().filter(sealed).count() > 1
    }),
    (
        "an SST that was compacted away since the listing",
        |_, state| {
            let live = state.ssts.iter().map(|sst| 1 << sst.id).sum::<u16>();
            matches!(step(state), Some(Step::Read { left, .. }) if left & !live != 0)
        },
    ),
    ("an SST that was flushed since the listing", |_, state| {
        let live = state.ssts.iter().map(|sst| 1 << sst.id).sum::<u16>();
        matches!(step(state), Some(Step::Read { listed, .. }) if live & !listed != 0)
    }),
    ("an external write during a consolidation", |_, state| {
        step(state).is_some() && state.external != External::Idle
    }),
    (
        "a consolidation that external writes overtook",
        |_, state| matches!(step(state), Some(Step::Publish { .. })) && !state.is_complete,
    ),
    ("an ingested key that nothing covers yet", |_, state| {
        state.external == External::Installed && !state.is_complete
    }),
    (
        "uncovered SSTs that are read beside an insertion",
        |_, state| is_covering(state) && some_writer(state, |writer| *writer != Writer::Idle),
    ),
    (
        "uncovered SSTs that are read while others are ingested",
        |_, state| is_covering(state) && matches!(state.external, External::Announced(_)),
    ),
    ("a view that lookups use and a set with two", |_, state| {
        matches!(step(state), Some(Step::Switch)) && state.is_complete
    }),
    (
        "a lookup between two views",
        |_, state| matches!(state.lookup, Lookup::Loaded { summary: Some(summary), .. } if summary != state.current),
    ),
    ("a lookup that no filter may answer", |_, state| {
        matches!(state.lookup, Lookup::Loaded { summary: None, .. })
    }),
    (
        "a lookup that began before a view was withdrawn",
        |_, state| {
            matches!(
                state.lookup,
                Lookup::Loaded {
                    summary: Some(_),
                    ..
                }
            ) && !state.is_complete
        },
    ),
    ("a second consolidation", |protocol, state| {
        protocol.budget.consolidations > 1
            && state.left.consolidations == 0
            && state.is_complete
            && state.current > 1
    }),
    (
        "a consolidation after one that failed",
        |protocol, state| state.left.failures < protocol.budget.failures && step(state).is_some(),
    ),
    ("a filter copied while an insertion feeds it", |_, state| {
        matches!(
            state.task,
            Task::Save {
                step: SaveStep::Copy { .. },
                ..
            }
        ) && some_writer(state, |writer| matches!(writer, Writer::Feeding { .. }))
    }),
    ("a stored filter that lacks a visible key", |_, state| {
        state
            .stored
            .as_ref()
            .is_some_and(|stored| state.visible & !stored.keys != 0)
    }),
    (
        "an open whose stored filter covers a live SST",
        |protocol, state| {
            state.left.crashes < protocol.budget.crashes
                && state.covered != 0
                && state
                    .ssts
                    .iter()
                    .any(|sst| state.covered & (1 << sst.id) != 0)
        },
    ),
    (
        "an open whose stored filter covers an SST that is gone",
        |protocol, state| {
            let live = state.ssts.iter().map(|sst| 1 << sst.id).sum::<u16>();
            state.left.crashes < protocol.budget.crashes && state.covered & !live != 0
        },
    ),
    ("maintenance of a family that is gone", |_, state| {
        state.family.is_none() && is_of_a_dropped_family(state)
    }),
    (
        "maintenance of a family whose name is in use again",
        |_, state| state.family.is_some() && is_of_a_dropped_family(state),
    ),
    ("a save of a family that was dropped", |_, state| {
        is_saving(state) && is_of_a_dropped_family(state)
    }),
];
