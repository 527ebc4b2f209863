//! Random walks through the model, as lines of words that `crates/front/src/tests/model_traces.rs` replays
//! against the code. A change of the model changes them, and then the code must do the same.
//!
//! ```text
//! insert:a load:a show:a         a write: into the memtable, into the set of summaries, visible
//! seal log install forget:0      a flush, of the oldest memtable; which one is forgotten
//! compact                        the two oldest SSTs
//! announce:a ingest:a end        an external write
//! loadview probe:a               a lookup of a visible key, whose answer is maybe
//! consolidate collect note list read gone publish (or fail)
//! cover list read covered (or overtaken), save list saved, crash
//! .../ab                         from here on, lookups deny these keys
//! ```
//!
//! Where the code has no place for a test to act, nothing happens in a walk either: [`rest`].

use std::collections::HashSet;

use stateright::Model as _;

use crate::protocol::{Action, Budget, Feeds, Protocol};
use crate::reached::{REACHED, step};
use crate::state::{
    External, KEYS, Keys, Lookup, SaveStep, Set, State, Step, Task, Writer, members,
};
use crate::writers::key_of;

const TRACES: usize = 320;

/// What the LSM in memory cannot show: it has one thread and one family, feeds no filter in part,
/// and reads a log only when it has outgrown its filter.
const NOT_SHOWN: [&str; 8] = [
    "a consolidation that waits for an insertion",
    "a key in one summary of two",
    "keys in the log and in no SST",
    "a view that lookups use and a set with two",
    "a filter copied while an insertion feeds it",
    "maintenance of a family that is gone",
    "maintenance of a family whose name is in use again",
    "a save of a family that was dropped",
];

/// The file's text: [`TRACES`] walks, and those more that reach a state which none before has.
pub(crate) fn text() -> String {
    let mut text = String::new();
    let mut missing: HashSet<_> = REACHED.iter().map(|&(name, _)| name).collect();
    missing.retain(|name| !NOT_SHOWN.contains(name));
    for seed in 0.. {
        let is_enough = text.lines().count() >= TRACES;
        if is_enough && missing.is_empty() {
            break;
        }
        assert!(seed < 100_000, "no walk reaches {missing:?}");
        if let Some((line, reached)) = walk(seed)
            && !(is_enough && missing.is_disjoint(&reached))
        {
            text += &(line + "\n");
            missing.retain(|name| !reached.contains(name));
        }
    }
    text
}

/// Until nothing can happen any more. `None` for a walk that reads an SST again that is gone by
/// then: the code reads none twice.
fn walk(mut random: u64) -> Option<(String, HashSet<&'static str>)> {
    // SplitMix64.
    let mut below = |end: u64| {
        random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (random ^ (random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    };
    let budget = Budget {
        writes: 2 + below(3) as u8,
        lookups: below(2) as u8,
        seals: 1 + below(3) as u8,
        compactions: below(3) as u8,
        external_writes: below(2) as u8,
        consolidations: 1 + below(2) as u8,
        failures: below(2) as u8,
        saves: below(2) as u8,
        crashes: below(2) as u8,
        drops: 0,
    };
    let protocol = Protocol {
        feeds: Feeds::AfterInsertion,
        has_log: false,
        budget,
        broken: None,
    };
    let (mut state, mut words, mut reached) = (protocol.start(), Vec::new(), HashSet::new());
    let (mut denied, mut read) = (denied_keys(&state), 0);
    loop {
        let mut actions = Vec::new();
        protocol.actions(&state, &mut actions);
        actions.retain(|action| may(&state, action));
        // Rare otherwise: an SST that is gone when it is read.
        let in_listing = matches!(step(&state), Some(Step::Read { .. }));
        if in_listing && actions.contains(&Action::Compact) {
            actions.extend(std::iter::repeat_n(Action::Compact, 8));
        }
        if actions.is_empty() {
            return Some((words.join(" "), reached));
        }
        let action = actions.swap_remove(below(actions.len() as u64) as usize);
        let Some(mut next) = protocol.next_state(&state, action.clone()) else {
            continue;
        };
        while let Some(rest) = rest(&state, &next) {
            next = protocol.next_state(&next, rest)?;
        }
        let mut word = match action {
            Action::Go => word_of_step(&state, &next, &mut read)?.to_owned(),
            _ => word_of(&state, &action),
        };
        if !word.is_empty() {
            if denied != denied_keys(&next) {
                denied = denied_keys(&next);
                word += &format!("/{}", names(denied));
            }
            words.push(word);
        }
        // Of the SSTs that this consolidation has read.
        read = if step(&next).is_some() { read } else { 0 };
        state = next;
        let here = REACHED.iter().filter(|(_, is)| is(&protocol, &state));
        reached.extend(here.map(|&(name, _)| name));
    }
}

fn denied_keys(state: &State) -> Keys {
    let lacks = !state.summaries[usize::from(state.current)] & ((1 << KEYS) - 1);
    if state.is_complete { lacks } else { 0 }
}

fn names(keys: Keys) -> String {
    let keys = members(keys.into());
    keys.map(|key| char::from(b'a' + key)).collect()
}

/// What follows at once: the set is loaded and all of it gets the key, the view has the new summary
/// and then the set, a filter is copied and stored, a listing is void and the next one begins.
fn rest(before: &State, now: &State) -> Option<Action> {
    let feeds = |writer: &Writer| matches!(writer, Writer::Feeding { .. });
    if let Some(writer) = now.writers.iter().position(feeds) {
        return Some(Action::Feed(writer));
    }
    let goes = match &now.task {
        Task::Consolidate {
            step: Step::Switch, ..
        } => true,
        Task::Save { step, .. } => matches!(step, SaveStep::Copy { .. } | SaveStep::Store { .. }),
        _ => {
            let was_publishing = matches!(step(before), Some(Step::Publish { .. }));
            was_publishing && matches!(step(now), Some(Step::Note))
        }
    };
    goes.then_some(Action::Go)
}

/// Whether the LSM in memory can do it now. It reads SSTs in an order of its own.
fn may(state: &State, action: &Action) -> bool {
    match (action, step(state)) {
        (Action::Crash, _) => state.task == Task::Idle,
        (Action::Fail, Some(Step::Note | Step::Read { .. } | Step::Publish { .. })) => false,
        (Action::Compact, Some(Step::Read { listed, left, .. })) => *left == 0 || left == listed,
        _ => true,
    }
}

/// The word of an action, which is its name; empty if it has none.
fn word_of(before: &State, action: &Action) -> String {
    let name = format!("{action:?}").to_lowercase();
    let name: String = name.chars().take_while(char::is_ascii_lowercase).collect();
    let of = match (action, before.external, before.lookup) {
        (Action::Insert(writer) | Action::Load(writer) | Action::Show(writer), ..) => {
            names(key_of(before.writers[*writer]))
        }
        (Action::Forget(id), ..) => {
            let older = before.memtables.iter().take_while(|older| older.id != *id);
            older.count().to_string()
        }
        (&Action::Announce(key), ..)
        | (Action::Ingest, External::Announced(key), _)
        | (Action::Probe, _, Lookup::Loaded { key, .. }) => names(key),
        (Action::Enter { .. } | Action::Ask(_), ..) => return String::new(),
        _ => return name,
    };
    format!("{name}:{of}")
}

/// The same of a step of maintenance. `None` if an SST that was read is gone.
fn word_of_step(before: &State, after: &State, read: &mut Set) -> Option<&'static str> {
    Some(match (&before.task, &after.task) {
        (Task::Consolidate { step, .. }, after) => match step {
            Step::Collect => "collect",
            Step::Note => "note",
            Step::List { .. } => "list",
            Step::Read { left, .. } if *left != 0 => {
                let next = left & left.wrapping_neg();
                let is_known = *read & next != 0;
                *read |= next;
                match after {
                    Task::Consolidate {
                        step: Step::Note, ..
                    } if is_known => return None,
                    Task::Consolidate {
                        step: Step::Note, ..
                    } => "gone",
                    _ if is_known => "",
                    _ => "read",
                }
            }
            Step::Publish { .. } if *after == Task::Idle => "publish",
            // Overtaken.
            Step::Publish { .. } => "note",
            _ => "",
        },
        (
            Task::Cover {
                step: Step::List { .. },
                ..
            },
            _,
        ) => "list",
        (
            Task::Cover {
                step: Step::Read { left, .. },
                ..
            },
            _,
        ) if *left != 0 => "read",
        (Task::Cover { .. }, Task::Idle) if after.is_complete => "covered",
        (Task::Cover { .. }, Task::Idle) => "overtaken",
        (
            Task::Save {
                step: SaveStep::List { .. },
                ..
            },
            _,
        ) => "list",
        (Task::Save { .. }, Task::Idle) => "saved",
        _ => "",
    })
}
